// Editor: a workflow written as JSON, a new one or another version of one. The server checks it while it is written, and says which field of
// which node is wrong.

import { useEffect, useRef, useState } from "react";
import { flaw, isProblem, newKey, parse, post, put, stringify, useGet, useRefresh } from "../../api";
import { Link, navigate, useGuard } from "../../router";
import { useMay } from "../../session";
import { Button, ErrorBox, Head, JsonEditor, LinkButton, Loading, toast } from "../../ui";
import { useSettled } from "../../ui/form";
import type { WorkflowOf } from "./data";

const sleep = { target: "simulate", work_kind: "sleep", duration_ms: 300 };
const sample = stringify(
  {
    name: "Publish photos",
    key: "photos",
    nodes: [
      { key: "fetch", execution: sleep },
      { key: "resize", depends_on: ["fetch"], map: 5, max_parallel: 2, execution: sleep },
      { key: "publish", depends_on: ["resize"], wait: { approval: { roles: ["operator"] } }, timeout: "24h" },
    ],
  },
  2,
);

const readOnly = ["workflow_id", "version", "status", "stats", "created_at", "updated_at", "revision", "pause_reason", "paused_until"];

/** definitionOf is what has to be sent to replace a workflow's definition with the same; what is empty is left out. */
function definitionOf(w: WorkflowOf): Record<string, unknown> {
  const { next_run_at: _n, last_run_at: _l, description: _d, ...schedule } = (w.schedule ?? {}) as Record<string, unknown>;
  const kept = (o: object) => Object.entries(o).filter(([k, v]) => !readOnly.includes(k) && v !== null && v !== "" && !(Array.isArray(v) && v.length === 0));
  return Object.fromEntries(kept({ ...w, schedule: Object.fromEntries(kept(schedule)) }));
}

/** hidden reports whether a definition is refused only because it has credentials that are not shown: those of the workflow itself stay as they are. */
const hidden = (error: unknown) => isProblem(error, 422) && error.errors.length > 0 && error.errors.every((f) => f.value === "[redacted]");

/** Edit begins with the workflow as it is now, not as it was when someone last looked. */
export function Edit({ id }: { id: string }) {
  const query = useGet<WorkflowOf>("/workflows/" + encodeURIComponent(id), undefined, { fresh: true });
  if (query.data && query.isFetchedAfterMount) return <Editor key={id} w={query.data} />;
  return (
    <>
      <Head title="Edit workflow" crumb={<Link to="/workflows">Workflows</Link>} />
      {query.isError ? <ErrorBox error={query.error} what={isProblem(query.error, 404) ? "No such workflow" : undefined} retry={() => void query.refetch()} /> : <Loading />}
    </>
  );
}

type Warning = { node?: string; message: string };

export function Editor({ w: given }: { w?: WorkflowOf }) {
  const [w] = useState(given); // what is edited stays the same if someone else changes it meanwhile
  const [initial] = useState(() => (w ? stringify(definitionOf(w), 2) : sample));
  const [text, setText] = useState(initial);
  const may = useMay("operator");
  const leave = useGuard(w !== undefined && text !== initial, "Leave without saving your changes?");
  const settled = useSettled(text, 400);
  const [checked, setChecked] = useState<{ of: string; warnings?: Warning[]; error?: unknown }>();
  const [busy, setBusy] = useState(false);
  const [refused, setRefused] = useState<unknown>();
  const refresh = useRefresh();
  const key = useRef(newKey());
  const wrong = text.trim() === "" || flaw(text) !== undefined;
  useEffect(() => {
    if (settled.trim() === "" || flaw(settled) !== undefined) return;
    let gone = false;
    post<{ warnings: Warning[] }>("/workflows:lint", parse(settled)).then(
      (r) => gone || setChecked({ of: settled, warnings: r.warnings ?? [] }),
      (error: unknown) => gone || setChecked({ of: settled, ...(w && hidden(error) ? { warnings: [] } : { error }) }),
    );
    return () => {
      gone = true;
    };
  }, [settled, w]);
  const fresh = checked?.of === text ? checked : undefined;
  const save = () => {
    setBusy(true);
    setRefused(undefined);
    const sent = w ? put<WorkflowOf>("/workflows/" + w.workflow_id, parse(text), { headers: { "If-Match": String(w.revision) } }) : post<WorkflowOf>("/workflows", parse(text), { key: key.current });
    sent.then(
      (made) => {
        toast(!w ? "Created" : made.version === w.version ? "Saved; the graph did not change" : `Saved as version ${made.version}. Runs in flight keep theirs.`);
        void refresh("/workflows", "/jobs");
        leave();
        navigate("/workflows/" + made.workflow_id);
      },
      (e: unknown) => {
        key.current = newKey();
        setRefused(e);
        setBusy(false);
      },
    );
  };
  const error = refused ?? fresh?.error;
  return (
    <>
      <Head
        title={w ? `Edit ${w.name}` : "New workflow"}
        crumb={
          <>
            <Link to="/workflows">Workflows</Link>
            {w && (
              <>
                {" / "}
                <Link to={"/workflows/" + w.workflow_id}>{w.name}</Link>
              </>
            )}
          </>
        }
      />
      {!may && <p className="warn">Your role does not allow changing workflows.</p>}
      <JsonEditor
        label="Definition"
        value={text}
        rows={22}
        onChange={(t) => {
          setText(t);
          setRefused(undefined);
        }}
        hint={w ? "The same as the body of PUT /api/v1/workflows. Hidden credentials stay unchanged." : "The same as the body of POST /api/v1/workflows. The sample makes small pictures of photos and asks before they are published."}
      />
      <div className="stack tight" role="status">
        {error !== undefined && <ErrorBox error={error} what={w ? "It cannot be saved as it is" : "It cannot be created as it is"} />}
        {fresh?.warnings && fresh.warnings.length === 0 && refused === undefined && <p className="dim">No mistakes found.</p>}
        {fresh?.warnings && fresh.warnings.length > 0 && (
          <ul>
            {fresh.warnings.map((w, i) => (
              <li key={i} className="warn">
                {w.node && <code>{w.node}</code>} {w.message}
              </li>
            ))}
          </ul>
        )}
      </div>
      <div className="row">
        <Button kind="primary" disabled={busy || wrong || !may || fresh?.error !== undefined || (w && text === initial)} onClick={save}>
          {busy ? "Working…" : w ? "Save" : "Create"}
        </Button>
        <LinkButton to={w ? "/workflows/" + w.workflow_id : "/workflows"}>Cancel</LinkButton>
      </div>
    </>
  );
}
