// Bulk: cancel or run again many executions. How many and which comes first.

import { useEffect, useRef, useState, type FormEvent } from "react";
import { flaw, isProblem, newKey, parse, post, useRefresh, type Begun, type ExecutionStatus } from "../../api";
import { Button, Check, CopyAs, count, Dialog, ErrorBox, JsonEditor, leaving, Loading, State, TextField, Time, toast, wrongOf } from "../../ui";

export type BulkAction = "retry" | "cancel";
type Counted = Begun & { sample?: { execution_id: string; job_id: string; job_name: string; status: ExecutionStatus; scheduled_time: string }[] };
type Props = { action: BulkAction; ids?: string[]; filter?: Record<string, string>; onClose: () => void; onBegun: () => void };

const titles = { retry: "Run again", cancel: "Cancel" };

export function Bulk({ action, ids, filter, onClose, onBegun }: Props) {
  const [counted, setCounted] = useState<Counted>();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const [reason, setReason] = useState("");
  const [rate, setRate] = useState("");
  const [edited, setEdited] = useState(false);
  const [payload, setPayload] = useState("{}");
  const key = useRef(newKey());
  const refresh = useRefresh();
  const which = ids ? { ids } : { filter: filter ?? {} };
  const wrong = edited && flaw(payload) !== undefined;
  const body = {
    action,
    ...which,
    ...(action === "cancel" && reason ? { reason } : {}),
    ...(action === "retry" && edited && !wrong ? { payload_override: parse(payload) } : {}),
    ...(rate ? { rate_per_s: Number(rate) } : {}),
  };
  useEffect(() => {
    post<Counted>("/executions:bulk", { action, ...which, dry_run: true }).then(setCounted, setError);
  }, []);
  const leave = leaving(edited && payload.trim() !== "{}", onClose);
  const n = counted?.count ?? 0;
  const some = counted?.sample?.slice(0, 6) ?? [];
  const about = `${counted?.count_is_estimate ? "about " : ""}${count(n)} ${n === 1 ? "execution" : "executions"}`;
  const ready = n > 0 && !wrong && !busy && (rate === "" || Number(rate) > 0);
  const run = (e: FormEvent) => {
    e.preventDefault();
    if (!ready) return;
    setBusy(true);
    setError(undefined);
    post<Begun>("/executions:bulk", body, { key: key.current }).then(
      () => {
        toast(`${titles[action]}: ${about}`);
        void refresh("/operations");
        onBegun();
        onClose();
      },
      (e: unknown) => {
        // A request that was refused may be corrected: what is sent then is another one.
        if (isProblem(e, 400, 422)) key.current = newKey();
        setError(e);
        setBusy(false);
      },
    );
  };
  return (
    <Dialog title={`${titles[action]}: ${counted ? about : "…"}`} onClose={leave}>
      <form className="stack" onSubmit={run}>
        {!counted && error === undefined && <Loading lines={4} />}
        {counted && n === 0 && <p>{action === "cancel" ? "None of them can be cancelled: they have all ended." : "None of them can be run again: none has failed or timed out."}</p>}
        {some.length > 0 && (
          <ul className="stack tight executions-sample" aria-label="Some of them">
            {some.map((x) => (
              <li key={x.execution_id} className="row">
                <State of={x.status} />
                <span className="wrap grow">{x.job_name}</span>
                <Time at={x.scheduled_time} />
              </li>
            ))}
            {n > some.length && <li className="dim small">and {count(n - some.length)} more</li>}
          </ul>
        )}
        {n > 0 && (
          <>
            <p className="dim">
              {action === "cancel"
                ? "Waiting executions end at once. Running ones are asked to stop, and after 30 s are killed."
                : "Each becomes a new execution that refers to the old one. The old ones do not change, except that they are no longer dead letters."}{" "}
              {filter && "Executions scheduled from now on are not included."}
            </p>
            {action === "cancel" && <TextField label="Reason" value={reason} onChange={setReason} maxLength={1000} hint="Kept with each execution." wrong={wrongOf(error, "reason")} />}
            <TextField label="At most, per second" value={rate} onChange={setRate} inputMode="decimal" placeholder="no limit" hint={Number(rate) > 0 ? `Takes about ${Math.ceil(n / Number(rate))} s.` : "A rate protects the targets they call."} wrong={wrongOf(error, "rate_per_s")} />
            {action === "retry" && <Check label="With another payload" checked={edited} onChange={setEdited} />}
            {edited && <JsonEditor label="Payload for all of them" value={payload} onChange={setPayload} rows={5} />}
          </>
        )}
        {error !== undefined && <ErrorBox error={error} />}
        <footer>
          <CopyAs curl={{ method: "POST", path: "/executions:bulk", body: { ...body, dry_run: true } }} />
          <span className="grow" />
          <Button onClick={leave}>Close</Button>
          <Button type="submit" kind="primary" className={action === "cancel" ? "danger" : ""} disabled={!ready}>
            {busy ? "Working…" : `${titles[action]} ${counted ? count(n) : ""}`}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
