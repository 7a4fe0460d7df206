// Throttled: who waits, and what each waits for, in the server's own words.

import { useGet, type Executions, type Explanation } from "../../api";
import { Link } from "../../router";
import { Loading, Time } from "../../ui";

/** Throttled asks for the reasons of a few executions that wait; of one queue, if it is named. */
export function Throttled({ queue }: { queue?: string }) {
  const q = useGet<Executions>("/executions", { status: "PENDING,WAITING,RETRYING", limit: queue ? 20 : 8 }, { every: 10_000 });
  const rows = q.data?.executions ?? [];
  return (
    <section className="panel stack" aria-label="What waits, and why">
      <h2>What waits, and why</h2>
      {q.isPending ? <Loading lines={2} /> : rows.length === 0 ? <p className="dim">Nothing waits.</p> : null}
      <ul className="queues-why">
        {rows.map((e) => (
          <Reason key={e.execution_id} id={e.execution_id} name={e.job_name} due={e.due_at} queue={queue} />
        ))}
      </ul>
    </section>
  );
}

function Reason({ id, name, due, queue }: { id: string; name: string; due: string; queue: string | undefined }) {
  const q = useGet<Explanation>(`/executions/${id}/explain`, undefined, { every: 10_000 });
  const d = q.data?.details;
  const of = d?.needs?.queue ?? d?.limit?.queue;
  if (queue !== undefined && of !== undefined && of !== queue) return null;
  return (
    <li className="row top">
      <span className="grow">
        <Link className="wrap" to={"/executions/" + id}>
          {name}
        </Link>
        <span className="dim small wrap queues-reason">{q.data?.summary ?? "…"}</span>
      </span>
      <span className="dim small">
        due <Time at={due} />
      </span>
    </li>
  );
}
