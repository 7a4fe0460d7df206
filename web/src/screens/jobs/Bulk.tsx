// Bulk: the same done to many jobs. How many and which comes first, then the doing, which can be watched and stopped.

import { useEffect, useRef, useState, type FormEvent } from "react";
import { get, isProblem, newKey, post, type BulkBegun, type Operation } from "../../api";
import { Button, count, Dialog, ErrorBox, ListField, Loading, State, TextField, wrongOf } from "../../ui";

export type BulkAction = "pause" | "resume" | "trigger" | "tag" | "untag" | "delete";

const titles: Record<BulkAction, string> = { pause: "Pause", resume: "Resume", trigger: "Run now", tag: "Tag", untag: "Remove tags", delete: "Delete" };

type Props = { action: BulkAction; ids?: string[]; filter?: Record<string, string>; onClose: () => void; onDone: (o: Operation) => void };

export function Bulk({ action, ids, filter, onClose, onDone }: Props) {
  const [sample, setSample] = useState<BulkBegun>();
  const [error, setError] = useState<unknown>();
  const [reason, setReason] = useState("");
  const [tags, setTags] = useState([""]);
  const [rate, setRate] = useState("");
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const [begun, setBegun] = useState(false);
  const [operation, setOperation] = useState<Operation>();
  const key = useRef(newKey());
  const tagList = tags.map((t) => t.trim()).filter(Boolean);
  const tagging = action === "tag" || action === "untag";
  const body = {
    action,
    ...(ids ? { ids } : { filter: { ...filter, ...(filter?.["late"] ? { late: true } : {}) } }),
    ...(action === "pause" && reason ? { reason } : {}),
    ...(tagging ? { tags: tagList.length ? tagList : ["x"] } : {}),
    ...(rate ? { rate_per_s: Number(rate) } : {}),
  };
  useEffect(() => {
    post<BulkBegun>("/jobs:bulk", { ...body, dry_run: true }).then(setSample, setError);
  }, []);
  const run = (e: FormEvent) => {
    e.preventDefault();
    if (busy || !ready) return;
    setBusy(true);
    setError(undefined);
    post<BulkBegun>("/jobs:bulk", body, { key: key.current })
      .then((b) => {
        setBegun(true);
        return watch(b.operation_id ?? "");
      })
      .catch((e: unknown) => {
        if (isProblem(e, 400, 422)) key.current = newKey();
        setError(e);
        setBusy(false);
      });
  };
  const alive = useRef(true);
  useEffect(() => {
    alive.current = true;
    return () => void (alive.current = false);
  }, []);
  const watch = async (id: string) => {
    for (;;) {
      try {
        const o = await get<Operation>("/operations/" + id);
        onDone(o);
        if (!alive.current) return;
        setOperation(o);
        setError(undefined);
        if (o.state !== "RUNNING") return;
      } catch (e) {
        // It goes on whether or not it can be watched.
        if (!alive.current || !isProblem(e, 0, 429, 502, 503, 504)) throw e;
        setError(e);
      }
      await new Promise((r) => setTimeout(r, 500));
    }
  };
  const n = sample?.count ?? 0;
  const about = (sample?.count_is_estimate ? "about " : "") + count(n) + (n === 1 ? " job" : " jobs");
  const ready = n > 0 && (!tagging || tagList.length > 0) && (action !== "delete" || typed === String(n)) && (rate === "" || Number(rate) > 0);
  return (
    <Dialog title={`${titles[action]}: ${sample ? about : "…"}`} onClose={onClose}>
      {begun ? (
        <div className="stack">
          {operation && (
            <>
              <div className="row">
                <State of={operation.state} />
                <span>
                  {count(operation.done)} of {count(operation.total)} done
                  {operation.passed > 0 && `, ${count(operation.passed)} skipped`}
                </span>
              </div>
              <progress max={Math.max(1, operation.total)} value={operation.done + operation.passed} aria-label="Progress" />
              {operation.error && <p className="warn wrap">{operation.error}</p>}
            </>
          )}
          {error !== undefined && <ErrorBox error={error} what="It is still running, but its progress could not be loaded" />}
          <footer>
            {operation?.state === "RUNNING" && (
              <Button className="danger" onClick={() => void post<Operation>(`/operations/${operation.operation_id}/cancel`).catch(setError)}>
                Stop
              </Button>
            )}
            <Button kind="primary" onClick={onClose}>
              {operation?.state !== "SUCCEEDED" && operation?.state !== "FAILED" && operation?.state !== "CANCELLED" ? "Continue in the background" : "Close"}
            </Button>
          </footer>
        </div>
      ) : (
        <form className="stack" onSubmit={run}>
          {!sample && error === undefined && <Loading lines={3} />}
          {sample && n === 0 && <p>No job matches.</p>}
          {sample?.sample && n > 0 && (
            <ul className="stack tight" aria-label="Some of them">
              {sample.sample.slice(0, 6).map((j) => (
                <li key={j.job_id} className="row">
                  <State of={j.status} />
                  <span className="wrap grow">{j.name}</span>
                </li>
              ))}
              {n > 6 && <li className="dim small">and {count(n - 6)} more</li>}
            </ul>
          )}
          {action === "pause" && <TextField label="Reason" value={reason} onChange={setReason} maxLength={1000} placeholder="Warehouse is moving" />}
          {tagging && <ListField label="Tags" inline value={tags} onChange={setTags} add="Another tag" wrong={wrongOf(error, "tags")} wrongAt={(i) => wrongOf(error, `tags[${i}]`)} />}
          {action === "trigger" && <TextField label="At most, per second" value={rate} onChange={setRate} inputMode="decimal" hint="No limit when empty." />}
          {action === "delete" && (
            <TextField label={`Type ${n} to delete ${n === 1 ? "it" : "them"}`} value={typed} onChange={setTyped} autoComplete="off" hint="Waiting executions are cancelled, running ones continue, the history stays. You cannot undo this." />
          )}
          {error !== undefined && <ErrorBox error={error} />}
          <footer>
            <Button onClick={onClose}>Cancel</Button>
            <Button type="submit" kind="primary" className={action === "delete" ? "danger" : ""} disabled={!ready || busy}>
              {busy ? "Working…" : `${titles[action]} ${sample ? count(n) : ""}`}
            </Button>
          </footer>
        </form>
      )}
    </Dialog>
  );
}
