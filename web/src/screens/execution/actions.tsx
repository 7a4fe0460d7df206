// What is done with an execution in a dialog: run it again with another payload, cancel it.

import { useRef, useState, type FormEvent } from "react";
import { flaw, isProblem, newKey, parse, post, stringify, useRefresh, type Execution, type Job, type Triggered } from "../../api";
import { Link, navigate } from "../../router";
import { useDeadLetters } from "../../session";
import { asCurl, Button, copy, Dialog, ErrorBox, failed, JsonEditor, leaving, TextField, toast } from "../../ui";

export type Whole = Execution & { payload_override?: unknown };

/** payloadOf is what it ran with: its own payload, or the job's. */
export function payloadOf(e: Whole, j: Job | undefined): unknown {
  return e.payload_override !== undefined ? e.payload_override : j?.execution.payload;
}

/** retryNow runs a finished execution again and goes to the new one. */
export function retryNow(id: string, body: object, key: string, refresh: (...p: string[]) => Promise<void>, path = `/executions/${id}/retry`): Promise<void> {
  return post<Triggered>(path, body, { key }).then((t) => {
    void refresh("/executions/" + id, "/dead-letters");
    toast("Runs again, as a new execution");
    navigate("/executions/" + t.execution_id);
  });
}

/** redriveNow runs a dead letter again. stay says where it is, instead of going there. */
export function redriveNow(id: string, refresh: (...p: string[]) => Promise<void>, stay = false) {
  const path = `/dead-letters/${id}/redrive`;
  if (!stay) return void retryNow(id, {}, newKey(), refresh, path).catch(failed);
  post<Triggered>(path, {}).then((t) => {
    void refresh("/dead-letters");
    toast(
      <>
        Runs again as <Link to={"/executions/" + t.execution_id}>…{t.execution_id.slice(-12)}</Link>
      </>,
    );
  }, failed);
}

/** RerunDialog runs it again with an edited payload, as a new execution that names this one. */
export function RerunDialog({ e, j, onClose }: { e: Whole; j: Job | undefined; onClose: () => void }) {
  const letters = useDeadLetters();
  const had = payloadOf(e, j);
  const own = had === null || had === undefined ? "" : stringify(had, 2);
  const [text, setText] = useState(own);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const key = useRef(newKey());
  const refresh = useRefresh();
  const empty = text.trim() === "" || text.trim() === "null"; // which is none to the server
  const wrong = !empty && flaw(text) !== undefined;
  const edited = text.trim() !== own.trim();
  const leave = leaving(edited, onClose);
  const body = edited && !empty && !wrong ? { payload_override: parse(text) } : {};
  const run = (f: FormEvent) => {
    f.preventDefault();
    if (busy || wrong) return;
    setBusy(true);
    setError(undefined);
    retryNow(e.execution_id, body, key.current, refresh).then(onClose, (x: unknown) => {
      if (isProblem(x, 400, 422)) key.current = newKey();
      setError(x);
      setBusy(false);
    });
  };
  return (
    <Dialog title={`Run ${e.job_name} again`} onClose={leave} broad>
      <form className="stack" onSubmit={run}>
        <p className="dim">A new execution that names this one; this one never changes{letters?.has && ["FAILED", "TIMED_OUT"].includes(e.status) ? ", and leaves the dead letters" : ""}. Target and policies are the job's as they are now.</p>
        <JsonEditor label="Payload" value={text} onChange={setText} rows={10} hint={empty && own !== "" ? "An override cannot be empty: it runs with the payload it had." : edited ? "Edited, for the new execution only." : e.payload_override !== undefined ? "The payload of this execution." : "The job's payload."} />
        {error !== undefined && <ErrorBox error={error} />}
        <code className="dim small wrap">{`carillon execution retry ${e.execution_id}${edited && !empty ? " --payload @payload.json" : ""}`}</code>
        <footer>
          <Button onClick={() => copy(asCurl({ method: "POST", path: `/executions/${e.execution_id}/retry`, body }), "curl line copied")} icon="copy">
            curl
          </Button>
          <span className="grow" />
          {edited && (
            <Button kind="ghost" onClick={() => setText(own)}>
              Original
            </Button>
          )}
          <Button onClick={leave}>Close</Button>
          <Button type="submit" kind="primary" disabled={busy || wrong}>
            {busy ? "Working…" : edited ? "Run with this payload" : "Run again"}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

/** CancelDialog asks one that runs to stop. */
export function CancelDialog({ e, onClose }: { e: Execution; onClose: () => void }) {
  const [reason, setReason] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const refresh = useRefresh();
  const run = (f: FormEvent) => {
    f.preventDefault();
    if (busy) return;
    setBusy(true);
    post<Execution>(`/executions/${e.execution_id}/cancel`, reason ? { reason } : {}).then(
      (x) => {
        void refresh("/executions");
        onClose();
        toast(x.status === "CANCELLING" ? "Asked to stop" : "Cancelled");
      },
      (x: unknown) => {
        setError(x);
        setBusy(false);
      },
    );
  };
  return (
    <Dialog title={`Cancel ${e.job_name}`} onClose={onClose}>
      <form className="stack" onSubmit={run}>
        <p className="dim">It is running. Its worker is asked to stop it, and after 30 s it is killed. Its effects so far remain.</p>
        <TextField label="Reason" value={reason} onChange={setReason} maxLength={1000} autoFocus hint="Kept with the execution." />
        {error !== undefined && <ErrorBox error={error} />}
        <code className="dim small wrap">{`carillon execution cancel ${e.execution_id}${reason ? ` --reason '${reason.replaceAll("'", "'\\''")}'` : ""}`}</code>
        <footer>
          <Button onClick={onClose}>Let it run</Button>
          <Button type="submit" kind="primary" className="danger" disabled={busy}>
            {busy ? "Working…" : "Cancel it"}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

/** cancelWaiting cancels one that waits; for ten seconds it can be taken back, by running it as a new one. */
export function cancelWaiting(e: Execution, refresh: (...p: string[]) => Promise<void>) {
  post<Execution>(`/executions/${e.execution_id}/cancel`, {}).then((x) => {
    void refresh("/executions");
    if (x.status === "CANCELLING") toast("Asked to stop");
    else toast("Cancelled. Undo runs it again, as a new execution.", { undo: () => void retryNow(e.execution_id, {}, newKey(), refresh).catch(failed) });
  }, failed);
}
