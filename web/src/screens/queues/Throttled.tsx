// Throttled: who waits, and what each waits for, in the server's own words.

import { useGet, type Execution, type Executions, type Explanation } from "../../api";
import { Link } from "../../router";
import { Loading, Time } from "../../ui";

/** Throttled asks for the reasons of a few executions that wait; of one queue, if it is named: those that are to start first. */
export function Throttled({ queue }: { queue?: string }) {
  const all = useGet<Executions>(queue === undefined ? "/executions" : undefined, { status: "PENDING,WAITING,RETRYING", limit: 8 }, { every: 10_000 });
  const its = useGet<{ executions: Execution[] }>(queue === undefined ? undefined : `/queues/${encodeURIComponent(queue)}/waiting`, { limit: 12 }, { every: 10_000 });
  const q = queue === undefined ? all : its;
  const rows = q.data?.executions ?? [];
  return (
    <section className="panel stack" aria-label="What waits, and why">
      <h2>{queue === undefined ? "What waits, and why" : "What is to start first, and why it waits"}</h2>
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
