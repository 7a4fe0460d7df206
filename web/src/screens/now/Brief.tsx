// Brief is Now on a server that has no overview: what its queues and its latest executions say.

import { useGet, useLive, useRefresh, type Executions, type QueueStatus } from "../../api";
import { Link } from "../../router";
import { count, counted, Duration, Empty, Head, LinkButton, State, Time } from "../../ui";
import { helloCommand } from "../jobs/words";
import { LoadPlot } from "./plots";

export function Brief() {
  const status = useGet<QueueStatus>("/admin/queue/status", {}, { every: 10_000 });
  const latest = useGet<Executions>("/executions", { limit: 15 });
  const refresh = useRefresh();
  const live = useLive({ refresh: () => refresh("/admin/queue/status", "/executions") });
  const s = status.data;
  const rows = latest.data?.executions ?? [];
  return (
    <>
      <Head
        title="Now"
        actions={
          <LinkButton to="/jobs/new" icon="plus">
            New job
          </LinkButton>
        }
      >
        {s && (
          <p className="dim">
            {count(s.in_progress)} running, {count(s.pending)} queued, {count(s.completed_24h)} succeeded and {count(s.failed_24h)} failed in 24 h, {counted(s.dead_letters, "dead letter")}.
          </p>
        )}
      </Head>
      <LoadPlot />
      <section className="panel stack" aria-label="Latest executions" {...live.region}>
        <h2>Latest executions</h2>
        {rows.length === 0 && latest.data && <Empty title="Nothing has rung yet" command={helloCommand()} action={<LinkButton to="/jobs/new?sample=hello" kind="primary">Create the hello job</LinkButton>} />}
        <ul className="now-failures">
          {rows.map((e) => (
            <li key={e.execution_id} className="row">
              <State of={e.status} />
              <Link className="grow wrap" to={"/executions/" + e.execution_id}>
                {e.job_name}
              </Link>
              <Duration ms={e.duration_ms} />
              <Time at={e.scheduled_time} />
            </li>
          ))}
        </ul>
      </section>
    </>
  );
}
