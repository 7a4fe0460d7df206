// What is done with dead letters: run some or many again, at a rate; discard them. How many is counted first.

import { useEffect, useRef, useState, type FormEvent } from "react";
import { flaw, isProblem, newKey, parse, post, useRefresh, type Begun, type DeadLetter } from "../../api";
import { headline, Button, Check, CopyAs, count, Dialog, ErrorBox, JsonEditor, leaving, Loading, State, TextField, Time, toast, wrongOf } from "../../ui";
import { lastError } from "./groups";

export type Chosen = { ids: string[] } | { filter: Record<string, string> };
type Props = { action: "redrive" | "discard"; which: Chosen; sample: DeadLetter[]; flags: string; onClose: () => void; onDone: () => void };

const titles = { redrive: "Redrive", discard: "Discard" };

export function Act({ action, which, sample, flags, onClose, onDone }: Props) {
  const [counted, setCounted] = useState<Begun>();
  const n = counted?.count;
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const [rate, setRate] = useState("");
  const [edited, setEdited] = useState(false);
  const [payload, setPayload] = useState("{}");
  const [typed, setTyped] = useState("");
  const key = useRef(newKey());
  const refresh = useRefresh();
  const ids = "ids" in which ? which.ids : undefined;
  useEffect(() => {
    // More ids than can be sent at once come from a page that is larger than any: they are all of it.
    post<Begun>("/dead-letters:" + action, { ...which, dry_run: true }).then(setCounted, setError);
  }, []);
  const wrong = edited && flaw(payload) !== undefined;
  const rated = rate !== "" && !(action === "discard" && ids) ? { rate_per_s: Number(rate) } : {};
  const body = edited && ids ? { action: "retry", ids, payload_override: wrong ? null : parse(payload), ...rated } : { ...which, ...rated };
  const path = edited && ids ? "/executions:bulk" : "/dead-letters:" + action;
  const more = counted?.count_is_minimum ? "at least " : counted?.count_is_estimate ? "about " : "";
  const about = n === undefined ? "…" : `${more}${count(n)} dead ${n === 1 ? "letter" : "letters"}`;
  const sure = action === "redrive" || n === undefined || n <= 1 || typed.trim() === String(n);
  const ready = n !== undefined && n > 0 && !busy && !wrong && sure && (rate === "" || Number(rate) > 0);
  const run = (f: FormEvent) => {
    f.preventDefault();
    if (!ready) return;
    setBusy(true);
    setError(undefined);
    const one = edited && ids?.length === 1;
    const sent = one ? post<unknown>(`/executions/${ids[0]}/retry`, { payload_override: parse(payload) }, { key: key.current }) : post<unknown>(path, body, { key: key.current });
    sent.then(
      () => {
        toast(`${titles[action]}: ${about}`);
        void refresh("/operations", "/dead-letters");
        onDone();
        onClose();
      },
      (e: unknown) => {
        if (isProblem(e, 400, 422)) key.current = newKey();
        setError(e);
        setBusy(false);
      },
    );
  };
  const some = sample.slice(0, 5);
  const leave = leaving(edited && payload.trim() !== "{}", onClose);
  return (
    <Dialog title={`${titles[action]}: ${about}`} onClose={leave}>
      <form className="stack" onSubmit={run}>
        {n === undefined && error === undefined && <Loading lines={3} />}
        {n === 0 && <p>None of them exists any more.</p>}
        {n !== undefined && n > 0 && (
          <>
            {some.length > 0 && (
              <ul className="stack tight dead-sample" aria-label="Some of them">
                {some.map((d) => (
                  <li key={d.execution_id} className="row">
                    <State of={d.reason} />
                    <span className="wrap grow">{d.job_name}</span>
                    <Time at={d.dead_lettered_at} />
                    <span className="dim small dead-message">
                      <bdi>{headline(lastError(d).message)}</bdi>
                    </span>
                  </li>
                ))}
                {n > some.length && <li className="dim small">and {more}{count(n - some.length)} more</li>}
              </ul>
            )}
            <p className="dim">
              {action === "redrive" ? "Each becomes a new execution that refers to the old one. Those that fail again come back here." : "They are removed from the dead letters. Their executions stay in the history, and you can still run them again."}
              {!ids && " Later dead letters are not included."}
            </p>
            {!(action === "discard" && ids) && (
              <TextField label="At most, per second" value={rate} onChange={setRate} inputMode="decimal" placeholder="no limit" hint={Number(rate) > 0 ? `Takes about ${Math.ceil(n / Number(rate))} s.` : action === "redrive" ? "A rate protects the targets they call." : ""} wrong={wrongOf(error, "rate_per_s")} />
            )}
            {action === "redrive" && ids && <Check label="With another payload" checked={edited} onChange={setEdited} />}
            {edited && <JsonEditor label={ids && ids.length > 1 ? "Payload for all of them" : "Payload"} value={payload} onChange={setPayload} rows={6} />}
            {action === "discard" && n > 1 && <TextField label={`Type ${n} to discard them`} value={typed} onChange={setTyped} autoComplete="off" inputMode="numeric" />}
          </>
        )}
        {error !== undefined && <ErrorBox error={error} />}
        <code className="dim small wrap">{`carillon dlq ${action} ${ids ? (ids.length > 3 ? ids.slice(0, 3).join(" ") + " …" : ids.join(" ")) : flags || "--everything"}${rate ? " --rate " + rate : ""}`}</code>
        <footer>
          <CopyAs curl={{ method: "POST", path, body }} />
          <span className="grow" />
          <Button onClick={leave}>Close</Button>
          <Button type="submit" kind="primary" className={action === "discard" ? "danger" : ""} disabled={!ready}>
            {busy ? "Working…" : `${titles[action]} ${n === undefined ? "" : count(n)}`}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
