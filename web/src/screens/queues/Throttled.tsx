// Throttled: who waits, and what each waits for, in the server's own words.

import { useEffect, useRef } from "react";
import { serverNow, useFollowing, useGet, type Execution, type Executions, type Explanation } from "../../api";
import { Link } from "../../router";
import { Loading, Time, useNow } from "../../ui";

/** Throttled asks for the reasons of a few executions that wait; of one queue, if it is named: those that are to start first. */
export function Throttled({ queue }: { queue?: string }) {
  const now = useNow();
  // What is not due yet does not wait, though it is there already: the counts leave it out, too.
  const at = useRef(now);
  if (useFollowing().refetchOnReconnect) at.current = now;
  const until = new Date(Math.ceil(at.current / 10_000) * 10_000).toISOString().replace(".000", "");
  const all = useGet<Executions>(queue === undefined ? "/executions" : undefined, { status: "PENDING,WAITING,RETRYING", end_date: until, limit: 50 });
  const its = useGet<{ executions: Execution[] }>(queue === undefined ? undefined : `/queues/${encodeURIComponent(queue)}/waiting`, { limit: 12 }, { every: 10_000 });
  const q = queue === undefined ? all : its;
  const rows = (q.data?.executions ?? []).filter((e) => Date.parse(e.due_at) <= now).slice(0, queue === undefined ? 8 : 12);
  return (
    <section className="panel stack" aria-label="What waits, and why">
      <h2>{queue === undefined ? "What waits, and why" : "What starts next, and why it waits"}</h2>
      {q.isPending ? <Loading lines={2} /> : rows.length === 0 ? <p className="dim">Nothing waits.</p> : null}
      <ul className="queues-why">
        {rows.map((e) => (
          <Reason key={e.execution_id} id={e.execution_id} name={e.job_name} due={e.due_at} />
        ))}
      </ul>
    </section>
  );
}

function Reason({ id, name, due }: { id: string; name: string; due: string }) {
  const q = useGet<Explanation>(`/executions/${id}/explain`, undefined, { every: 10_000 });
  // A reason from before it was due is read anew: it says "not due until …".
  const old = q.dataUpdatedAt > 0 && q.dataUpdatedAt + serverNow() - Date.now() <= Date.parse(due);
  useEffect(() => {
    if (old) void q.refetch();
  }, [old]);
  return (
    <li className="row top">
      <span className="grow">
        <Link className="wrap" to={"/executions/" + id}>
          {name}
        </Link>
        <span className="dim small wrap queues-reason">{(!old && q.data?.summary) || "…"}</span>
      </span>
      <span className="dim small">
        due <Time at={due} />
      </span>
    </li>
  );
}
