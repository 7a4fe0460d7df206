// Workflows: all of them, with a strip of the last runs of each.

import { useMemo } from "react";
import { useGet, useLive, usePage, useRefresh, type JobRuns } from "../../api";
import { Link } from "../../router";
import { useMay } from "../../session";
import { Empty, Head, LinkButton, RunsStrip, State, Table, Time, type Column } from "../../ui";
import { scheduleWords } from "../jobs/words";
import { runPath, type WorkflowOf } from "./data";

export const when = (w: WorkflowOf) => (w.schedule ? scheduleWords(w.schedule) : "");

export function Workflows() {
  const page = usePage<WorkflowOf>("/workflows", "workflows", { limit: 50 });
  const ids = page.rows.map((w) => w.workflow_id);
  const runs = useGet<JobRuns>(ids.length ? "/jobs:runs" : undefined, { ids: ids.join(","), n: 30 });
  const byId = useMemo(() => new Map(runs.data?.jobs.map((j) => [j.job_id, j.runs])), [runs.data]);
  const may = useMay("operator");
  const refresh = useRefresh();
  const live = useLive({ match: (c) => ids.includes(c.job_id ?? "") || c.type.startsWith("job."), refresh: () => refresh("/workflows", "/jobs:runs") });
  const columns: Column<WorkflowOf>[] = [
    {
      id: "name",
      head: "Name",
      lead: true,
      cell: (w) => (
        <>
          <Link className="name wrap" to={"/workflows/" + w.workflow_id}>
            {w.name}
          </Link>{" "}
          {w.status && w.status !== "ACTIVE" && <State of={w.status} />}
          {w.key && <span className="sub mono">{w.key}</span>}
        </>
      ),
    },
    { id: "schedule", head: "Runs", cell: when },
    { id: "next", head: "Next", label: "next", cell: (w) => w.schedule?.next_run_at && <Time at={w.schedule.next_run_at} zone={w.schedule.timezone} /> },
    { id: "runs", head: "Last 30 runs", cell: (w) => <RunsStrip runs={byId.get(w.workflow_id) ?? []} to={runPath} /> },
    { id: "version", head: "Version", num: true, wideOnly: true, cell: (w) => w.version },
  ];
  return (
    <>
      <Head title="Workflows" actions={
          <>
            {may && (
              <LinkButton to="/workflows/new" kind="primary">
                New workflow
              </LinkButton>
            )}
            <LinkButton to="/approvals">Approvals</LinkButton>
          </>
        } />
      <Table
        label="Workflows"
        page={page}
        columns={columns}
        id={(w) => w.workflow_id}
        open={(w) => "/workflows/" + w.workflow_id}
        live={live}
        empty={
          <Empty title="No workflows yet" command="carillon workflow apply -f workflow.yaml">
            A workflow is a graph of jobs: each node starts when the nodes before it have ended. Write one here, or describe it in a file and apply that.
          </Empty>
        }
      />
    </>
  );
}
