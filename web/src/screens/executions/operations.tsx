// Operations that go on in the background: how far each has come, and a way to stop it. They are there for everyone who
// looks, also after the page was closed.

import { useEffect, useRef, useState } from "react";
import { post, serverNow, useGet, useRefresh, type Operation, type Operations as OperationList } from "../../api";
import { useMay } from "../../session";
import { Button, count, duration, failed, State, Time, useNow } from "../../ui";
import "./operations.css";

const words: Record<string, string> = {
  cancel_executions: "Cancelling executions",
  retry_executions: "Running executions again",
  redrive: "Redriving dead letters",
  discard: "Discarding dead letters",
};

const shownFor = 60_000; // ms after its end

/** Operations shows those of some kinds that run, or have just ended. When one ends, what it changed is read anew. */
export function Operations({ kinds, refresh }: { kinds: string[]; refresh: string }) {
  const [eager, setEager] = useState(false);
  const q = useGet<OperationList>("/operations", { limit: 20 }, { every: eager ? 1000 : 15_000 });
  const [gone, setGone] = useState<Set<string>>(new Set());
  const now = useNow();
  const mine = (q.data?.operations ?? []).filter((o) => kinds.includes(o.kind) && !gone.has(o.operation_id) && (o.state === "RUNNING" || now - Date.parse(o.finished_at ?? o.updated_at) < shownFor));
  const running = mine.filter((o) => o.state === "RUNNING").length;
  useEffect(() => setEager(running > 0), [running > 0]);
  const reread = useRefresh();
  const before = useRef(running);
  useEffect(() => {
    if (running < before.current) void reread(refresh);
    before.current = running;
  }, [running]);
  if (mine.length === 0) return null;
  return (
    <section className="panel stack tight" aria-label="Operations">
      {mine.map((o) => (
        <Row key={o.operation_id} o={o} onHide={() => setGone(new Set([...gone, o.operation_id]))} />
      ))}
    </section>
  );
}

function Row({ o, onHide }: { o: Operation; onHide: () => void }) {
  const may = useMay("operator");
  const refresh = useRefresh();
  const did = o.done + o.passed;
  const took = (Date.parse(o.finished_at ?? "") || serverNow()) - Date.parse(o.created_at);
  const left = o.state === "RUNNING" && did > 0 && o.total > did ? (took / did) * (o.total - did) : undefined;
  const stop = () => void post<Operation>(`/operations/${o.operation_id}/cancel`).then(() => refresh("/operations"), failed);
  return (
    <div className="operation">
      <State of={o.state} />
      <span className="operation-name">
        {words[o.kind] ?? o.kind} <span className="dim">by {o.created_by}</span> <Time at={o.created_at} />
      </span>
      <progress max={Math.max(1, o.total)} value={did} aria-label={(words[o.kind] ?? o.kind) + ", progress"} />
      <span className="operation-count">
        {count(o.done)} of {count(o.total)}
        {o.passed > 0 && <span className="dim" data-tip="Their state had changed, so they were left alone." tabIndex={0}>{`, ${count(o.passed)} skipped`}</span>}
        {left !== undefined && <span className="dim">, about {duration(left)} left</span>}
        {o.rate_per_s !== null && <span className="dim">, {o.rate_per_s} a second</span>}
      </span>
      {o.state === "RUNNING" ? (
        may && (
          <Button small className="danger" onClick={stop}>
            Stop
          </Button>
        )
      ) : (
        <Button small kind="ghost" icon="close" aria-label="Hide" onClick={onHide} />
      )}
      {o.error && <p className="warn wrap">{o.error}</p>}
    </div>
  );
}
