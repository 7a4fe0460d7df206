// What became of a job: its executions, and every instant of its schedule with its outcome.

import { executionStatuses, usePage, type Execution, type Live, type Occurrence } from "../../api";
import { Link, useParam } from "../../router";
import { headline, Duration, Empty, SelectField, State, Table, Time, wordOf, type Column } from "../../ui";

const columns: Column<Execution>[] = [
  { id: "status", head: "Status", lead: true, cell: (e) => <State of={e.status} /> },
  { id: "scheduled", head: "Scheduled", cell: (e) => <Time at={e.scheduled_time} /> },
  { id: "trigger", head: "Trigger", label: "by", cell: (e) => e.trigger },
  { id: "duration", head: "Duration", num: true, label: "took", cell: (e) => <Duration ms={e.duration_ms} /> },
  { id: "delay", head: "Delay", num: true, label: "delay", cell: (e) => <Duration ms={e.trigger_delay_ms} /> },
  { id: "attempt", head: "Attempt", num: true, label: "attempt", cell: (e) => `${e.attempt_number} of ${e.max_attempts}` },
  { id: "error", head: "Why", wide: true, cell: (e) => (e.error ? `${e.error.type}: ${headline(e.error.message)}` : (e.progress?.message ?? "")) },
];

export function Executions({ path, live }: { path: string; live: Live }) {
  const [status, setStatus] = useParam("status");
  const page = usePage<Execution>(path + "/executions", "executions", { status, limit: 50 });
  return (
    <>
      <div className="job-pick">
        <SelectField label="Status" value={status} onChange={setStatus} options={[["", "all"], ...executionStatuses.map((s): [string, string] => [s, wordOf(s)])]} />
      </div>
      <Table label="Executions" page={page} columns={columns} id={(e) => e.execution_id} open={(e) => "/executions/" + e.execution_id} live={live} empty={<Empty title={status ? `No execution is ${wordOf(status).toLowerCase()}` : "It has not run yet"}>{status ? "Choose all to see its other executions." : "It runs when its schedule fires, or when someone runs it by hand."}</Empty>} />
    </>
  );
}

const outcomes: Record<string, string> = { ran: "SUCCEEDED", waiting: "PENDING", caught_up: "SUCCEEDED", backfilled: "SUCCEEDED", skipped: "SKIPPED", missed: "FAILED", excluded: "SKIPPED", paused: "PAUSED", planned: "PENDING" };
const words: Record<string, string> = { ran: "Ran", waiting: "Waiting", caught_up: "Caught up", backfilled: "Backfilled", skipped: "Skipped", missed: "Missed", excluded: "Left out", paused: "While paused", planned: "Planned" };

export function Instants({ path, zone }: { path: string; zone: string | undefined }) {
  const page = usePage<Occurrence>(path + "/occurrences", "occurrences", { limit: 100 });
  const cols: Column<Occurrence>[] = [
    { id: "at", head: "Instant", lead: true, cell: (o) => <Time at={o.scheduled_time} zone={zone} exact /> },
    { id: "outcome", head: "Outcome", cell: (o) => (o.status && ["ran", "caught_up", "backfilled"].includes(o.outcome) ? <><State of={o.status} />{o.outcome !== "ran" && <span className="dim"> {words[o.outcome]}</span>}</> : <State of={outcomes[o.outcome] ?? "PENDING"} word={words[o.outcome] ?? o.outcome} />) },
    { id: "reason", head: "Why", wide: true, cell: (o) => o.reason ?? "" },
    { id: "open", head: "Execution", cell: (o) => (o.execution_id ? <Link to={"/executions/" + o.execution_id}>open</Link> : "") },
  ];
  return (
    <>
      <p className="dim">Every scheduled run from yesterday to tomorrow, and its outcome.</p>
      <Table label="Instants" page={page} columns={cols} id={(o) => o.scheduled_time + o.outcome} empty={<Empty title="No instants">No runs are due between yesterday and tomorrow.</Empty>} />
    </>
  );
}
