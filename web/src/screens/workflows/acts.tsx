// What is done with workflows and runs in a dialog: trigger, retry, cancel, skip, mark, approve, reject. Where an act changes nodes, it shows which first.

import { useEffect, useRef, useState } from "react";
import { flaw, newKey, parse, post, stringify, useRefresh } from "../../api";
import { navigate } from "../../router";
import { Check, counted, ErrorBox, JsonEditor, Segments, SelectField, TextArea, TextField, toast, wordOf, wrongOf } from "../../ui";
import { Ask } from "../../ui/ask";
import { runPath, type Change, type RunOf, type Schema, type WorkflowOf } from "./data";

/** simple lists the fields of a schema that a form can show; undefined where it needs JSON. */
function simple(s: Schema | null | undefined): [string, Schema][] | undefined {
  const p = Object.entries(s?.properties ?? {});
  return s?.type === "object" && p.length > 0 && p.every(([, f]) => f.enum || ["string", "number", "integer", "boolean"].includes(f.type ?? "")) ? p : undefined;
}

type Input = { value: unknown; wrong: boolean };

/** Fields ask for a value by its schema, as a form where that can be, else as JSON. */
export function Fields({ label, schema, error, initial = "", onChange }: { label: string; schema: Schema | null | undefined; error: unknown; initial?: string; onChange: (v: Input) => void }) {
  const form = simple(schema);
  const [as, setAs] = useState<"form" | "json">(form && initial === "" ? "form" : "json");
  const [text, setText] = useState(initial);
  const [values, setValues] = useState<Record<string, string>>(() => Object.fromEntries((form ?? []).map(([k, f]) => [k, f.default === undefined ? "" : String(f.default)])));
  const made = () =>
    Object.fromEntries(
      (form ?? []).flatMap(([k, f]): [string, unknown][] => {
        const v = values[k] ?? "";
        if (f.type === "boolean") return v === "" && !schema?.required?.includes(k) ? [] : [[k, v === "true"]];
        if (v === "") return [];
        if (f.enum) return [[k, f.enum.find((e) => String(e) === v) ?? v]];
        return [[k, f.type === "string" || Number.isNaN(Number(v)) ? v : Number(v)]];
      }),
    );
  useEffect(() => {
    if (as === "form") return onChange({ value: made(), wrong: false });
    const wrong = text.trim() !== "" && flaw(text) !== undefined;
    onChange({ value: wrong || text.trim() === "" ? undefined : parse(text), wrong });
  }, [as, text, values]);
  const flip = (to: "form" | "json") => {
    if (to === "json") setText(stringify(made(), 2));
    setAs(to);
  };
  return (
    <div className="stack tight">
      {form && <Segments label="As" value={as} options={[["form", "Form"], ["json", "JSON"]]} onChange={flip} />}
      {as === "json" || !form ? (
        <JsonEditor label={label} value={text} onChange={setText} rows={6} refused={wrongOf(error, "input")} />
      ) : (
        <div className="formgrid">
          {form.map(([k, f]) => {
            const p = { label: f.title ?? k, hint: f.description, value: values[k] ?? "", onChange: (v: string) => setValues({ ...values, [k]: v }), wrong: wrongOf(error, "input." + k), required: schema?.required?.includes(k) ?? false };
            if (f.type === "boolean") return <Check key={k} label={p.label} checked={p.value === "true"} onChange={(v) => p.onChange(String(v))} />;
            if (f.enum) return <SelectField key={k} {...p} options={[["", "–"], ...f.enum.map((e): [string, string] => [String(e), String(e)])]} />;
            return <TextField key={k} {...p} inputMode={f.type === "string" ? "text" : "decimal"} />;
          })}
        </div>
      )}
    </div>
  );
}

export function TriggerDialog({ w, onClose }: { w: WorkflowOf; onClose: () => void }) {
  const [input, setInput] = useState<Input>({ value: undefined, wrong: false });
  const [unique, setUnique] = useState("");
  const key = useRef(newKey());
  const run = () =>
    post<{ workflow_run_id: string }>(`/workflows/${w.workflow_id}/trigger`, { ...(input.value === undefined ? {} : { input: input.value }), ...(unique ? { unique_key: unique } : {}) }, { key: key.current }).then(
      (r) => navigate(runPath(r.workflow_run_id)),
      (e: unknown) => {
        key.current = newKey();
        throw e;
      },
    );
  return (
    <Ask title={`Run ${w.name} now`} action="Run now" ready={!input.wrong} run={run} onClose={onClose} broad cli={`carillon workflow trigger ${w.key ?? w.workflow_id}${input.value === undefined ? "" : " --input @input.json"}`}>
      {(error) => (
        <>
          <Fields label="Input" schema={w.input_schema} error={error} onChange={setInput} />
          <TextField label="Unique key" value={unique} onChange={setUnique} hint="Only one run with the same key can be in progress. Optional." />
        </>
      )}
    </Ask>
  );
}

/** useChanges asks what an act would change. */
function useChanges(path: string, body: object): { changes: Change[] | undefined; error: unknown } {
  const of = stringify(body);
  const [got, setGot] = useState<{ of: string; changes?: Change[]; error?: unknown }>();
  useEffect(() => {
    let gone = false;
    const t = setTimeout(() => {
      post<{ changes?: Change[] }>(path, { ...(parse(of) as object), dry_run: true }).then(
        (r) => gone || setGot({ of, changes: r.changes ?? [] }),
        (error: unknown) => gone || setGot({ of, error }),
      );
    }, 150);
    return () => {
      gone = true;
      clearTimeout(t);
    };
  }, [path, of]);
  return got?.of === of ? { changes: got.changes, error: got.error } : { changes: undefined, error: undefined };
}

function Changes({ path, body }: { path: string; body: object }) {
  const { changes, error } = useChanges(path, body);
  if (error !== undefined) return <ErrorBox error={error} />;
  if (!changes) return <p className="dim">Looking at what would change…</p>;
  if (changes.length === 0) return <p className="dim">No node changes.</p>;
  return (
    <div role="status">
      <p>
        <strong>{counted(changes.length, "node")} would change:</strong>
      </p>
      <ul className="workflows-changes">
        {changes.slice(0, 50).map((c) => (
          <li key={c.node}>
            <code>{c.node}</code> {c.from ? wordOf(c.from).toLowerCase() : "new"} → {c.to ? wordOf(c.to).toLowerCase() : "gone"}
            {c.items ? `, ${counted(c.items, "item")}` : ""}
          </li>
        ))}
        {changes.length > 50 && <li className="dim">and {changes.length - 50} more</li>}
      </ul>
    </div>
  );
}

export type Act = { what: "retry" | "cancel" | "skip" | "mark" | "approve" | "reject"; node?: string };

const titles = { retry: "Retry", cancel: "Cancel", skip: "Skip", mark: "Mark as succeeded", approve: "Approve", reject: "Reject" };

/** ActDialog does something to a run or to one of its nodes. */
export function ActDialog({ run: r, act, schema, onClose, refresh }: { run: Pick<RunOf, "workflow_run_id" | "status" | "input">; act: Act; schema?: Schema | null | undefined; onClose: () => void; refresh?: () => void }) {
  const [only, setOnly] = useState(false);
  const [latest, setLatest] = useState(false);
  const [edit, setEdit] = useState(false);
  const [comment, setComment] = useState("");
  const [value, setValue] = useState<Input>({ value: undefined, wrong: false });
  const again = useRefresh();
  const key = useRef(newKey());
  const { what, node } = act;
  const path = runPath(r.workflow_run_id) + (node && what !== "retry" ? `/nodes/${encodeURIComponent(node)}` : "") + "/" + what;
  const decides = what === "approve" || what === "reject";
  const force = what === "cancel" && r.status === "CANCELLING";
  const body = {
    ...(what === "retry" && node ? { nodes: [node] } : {}),
    ...(only ? { only } : {}),
    ...(latest ? { version: "latest" } : {}),
    ...(force ? { force } : {}),
    ...(what === "retry" && edit && value.value !== undefined ? { input: value.value } : {}),
    ...(what === "mark" && value.value !== undefined ? { result: value.value } : {}),
    ...(decides && comment ? { comment } : {}),
    ...(what === "approve" && schema && value.value !== undefined ? { data: value.value } : {}),
  };
  const cli = `carillon run ${what} ${r.workflow_run_id}${node ? (what === "retry" ? ` --node ${node}` : " " + node) : ""}${only ? " --only" : ""}${latest ? " --latest" : ""}${force ? " --force" : ""}`;
  const run = () =>
    post(path, body, { key: key.current }).then(
      () => {
        void again("/workflow-runs", "/approvals", "/workflows");
        refresh?.();
        toast({ retry: "Runs again", cancel: "Cancelled", skip: `Skipped ${node}`, mark: `Marked ${node} as succeeded`, approve: `Approved ${node}`, reject: `Rejected ${node}` }[what]);
      },
      (e: unknown) => {
        key.current = newKey();
        throw e;
      },
    );
  return (
    <Ask title={`${titles[what]}${node ? (what === "retry" ? ` from ${node}` : ` ${node}`) : " this run"}`} action={force ? "Cancel by force" : titles[what]} danger={what === "cancel" || what === "reject"} ready={!value.wrong} run={run} onClose={onClose} cli={cli} dirty={comment !== ""}>
      {(error) => (
        <>
          {what === "retry" && (
            <>
              <p className="dim">{node ? "Runs this node again, and everything that depends on it." : "Runs failed and not-run nodes again, and everything that depends on them. Nodes that succeeded stay."}</p>
              {node && <Check label="Only this node, not the nodes that depend on it" checked={only} onChange={setOnly} />}
              <Check label="With the latest version of the workflow" checked={latest} onChange={setLatest} />
              <Check label="With another input" checked={edit} onChange={setEdit} />
              {edit && <Fields label="Input" schema={undefined} error={error} initial={r.input === undefined || r.input === null ? "" : stringify(r.input, 2)} onChange={setValue} />}
            </>
          )}
          {what === "cancel" && <p className="dim">{force ? "Finally nodes are skipped, too." : "Running nodes are cancelled and the rest is not run. Then the finally nodes run."}</p>}
          {what === "mark" && <Fields label="Result" schema={undefined} error={error} onChange={setValue} />}
          {what === "approve" && schema && <Fields label="Data" schema={schema} error={error} onChange={setValue} />}
          {decides ? <TextArea label="Comment" value={comment} onChange={setComment} rows={2} hint="Kept with the decision. Optional." /> : <Changes path={path} body={body} />}
        </>
      )}
    </Ask>
  );
}
