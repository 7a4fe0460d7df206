// Jobs: all of them, one page at a time, with how each does.

import { useMemo, useState } from "react";
import { get, jobStatuses, scheduleTypes, useGet, useLive, usePage, useRefresh, type Job, type JobRuns, type Jobs as JobList, type Operation } from "../../api";
import { Link, useParam } from "../../router";
import { useMay } from "../../session";
import { Button, count, Duration, Empty, FilterBar, Head, LinkButton, percent, quoted, RunsStrip, Segments, State, Table, Tags, Time, useFilter, useHotkeys, useNow, useSelection, type Column, type FilterKey } from "../../ui";
import { Bulk, type BulkAction } from "./Bulk";
import { helloCommand, isLate, scheduleWords, tagged } from "./words";
import "./jobs.css";

const upper = (v: string) => v.toUpperCase();

async function tagsLike(): Promise<string[]> {
  const page = await get<JobList>("/jobs", { limit: 200 });
  return [...new Set(page.jobs.flatMap((j) => j.tags))].sort();
}

async function owners(): Promise<string[]> {
  const page = await get<JobList>("/jobs", { limit: 200 });
  return [...new Set(page.jobs.flatMap((j) => j.owner ?? []))].sort();
}

const keys: FilterKey[] = [
  { key: "status", param: "status", hint: "active, paused, completed or deleted", values: jobStatuses.map((s) => s.toLowerCase()), write: upper },
  { key: "tag", param: "tag", hint: "carries this tag", values: tagsLike },
  { key: "type", param: "schedule_type", hint: "cron, interval, one_time or immediate", values: scheduleTypes.map((s) => s.toLowerCase()), write: upper },
  { key: "owner", param: "owner", hint: "exactly this owner", values: owners },
  { key: "late", param: "late", hint: "true: due more than 5 s ago and not fired", values: ["true"], write: (v) => v.toLowerCase() },
  { key: "name", param: "name", hint: "exactly this name", values: async (typed) => (await get<JobList>("/jobs", { q: typed, limit: 10 })).jobs.map((j) => j.name) },
];

// The jobs by which notifications are sent carry this tag; one for each notification.
const notifications = "carillon-notification";

export default function Jobs() {
  const filter = useFilter(keys);
  const [show, setShow] = useParam("show");
  // A list, and what is done to all of it, leaves out notifications unless they are asked for.
  const hides = show !== "all" && filter.params["tag"] !== notifications && !filter.params["name"];
  const params: Record<string, string> = { ...filter.params, ...(hides ? { without_tag: notifications } : {}) };
  const page = usePage<Job>("/jobs", "jobs", { ...params, limit: 50 });
  const ids = page.rows.map((j) => j.job_id);
  const runs = useGet<JobRuns>(ids.length ? "/jobs:runs" : undefined, { ids: ids.join(","), n: 30 });
  const byJob = useMemo(() => new Map(runs.data?.jobs.map((j) => [j.job_id, j])), [runs.data]);
  const selected = useSelection(filter.text + show);
  const refresh = useRefresh();
  const live = useLive({ match: (c) => c.job_id !== undefined || c.type.startsWith("job."), refresh: () => refresh("/jobs"), hold: selected.ids.size > 0 });
  const may = useMay("operator");
  const now = useNow();
  const [bulk, setBulk] = useState<{ action: BulkAction; all: boolean } | undefined>();
  const total = page.pagination?.total ?? 0;
  const chosen = selected.ids.size;
  useHotkeys(may && chosen > 0 ? [{ keys: "p", label: "Pause the selected jobs", run: () => setBulk({ action: "pause", all: false }) }, { keys: "r", label: "Run the selected jobs now", run: () => setBulk({ action: "trigger", all: false }) }] : []);

  const columns: Column<Job>[] = [
    {
      id: "name",
      head: "Name",
      lead: true,
      cell: (j) => (
        <>
          <span className="jobs-name">
            <Link className="name wrap" to={"/jobs/" + j.job_id}>
              {j.name}
            </Link>
            {isLate(j, now) ? <State of="LATE" /> : j.status !== "ACTIVE" && <State of={j.status} tip={j.status === "PAUSED" && j.pause_reason ? j.pause_reason : ""} />}
          </span>
          {j.key && <span className="sub mono">{j.key}</span>}
        </>
      ),
    },
    {
      id: "schedule",
      head: "Schedule",
      cell: (j) => (
        <span className="jobs-words" data-tip={j.schedule.cron_expression && `${j.schedule.description ?? ""}\n${j.schedule.cron_expression}`} tabIndex={j.schedule.cron_expression ? 0 : undefined}>
          {scheduleWords(j.schedule, j.depends_on?.length)}
        </span>
      ),
    },
    { id: "next", head: "Next", label: "next", cell: (j) => j.schedule.next_run_at && <Time at={j.schedule.next_run_at} zone={j.schedule.timezone} /> },
    { id: "runs", head: "Last 30", cell: (j) => <RunsStrip runs={byJob.get(j.job_id)?.runs ?? []} /> },
    { id: "success", head: "Success", num: true, label: "success", cell: (j) => j.stats.total_runs > 0 && percent(j.stats.success_rate) },
    { id: "p95", head: "p95", num: true, label: "p95", cell: (j) => j.stats.total_runs > 0 && <Duration ms={j.stats.p95_duration_ms} /> },
    { id: "owner", head: "Owner", wideOnly: true, roomy: true, cell: (j) => j.owner && <Link to={"/jobs?q=" + encodeURIComponent("owner:" + quoted(j.owner))}>{j.owner}</Link> },
    { id: "tags", head: "Tags", cell: (j) => j.tags.length > 0 && <Tags of={j.tags.slice(0, 4)} to={tagged} /> },
  ];
  return (
    <>
      <Head
        title="Jobs"
        actions={
          <>
            <Segments label="Which" value={show} options={[["", "Your jobs"], ["all", "Include notifications"]]} onChange={(v) => setShow(v)} />
            {may && (
              <LinkButton to="/jobs/new" kind="primary" icon="plus">
                New job
              </LinkButton>
            )}
          </>
        }
      />
      <FilterBar keys={keys} name="jobs" placeholder="status:paused tag:nightly report" />
      <Table
        label="Jobs"
        page={page}
        columns={columns}
        id={(j) => j.job_id}
        open={(j) => "/jobs/" + j.job_id}
        {...(may ? { selected } : {})}
        live={live}
        empty={
          filter.text ? (
            <NoMatch text={filter.text} />
          ) : (
            <Empty
              title="No jobs yet"
              command={helloCommand()}
              action={
                <LinkButton to="/jobs/new?sample=hello" kind="primary">
                  Create the hello job
                </LinkButton>
              }
            >
              A job says what to run and when. Create one here, with the command line, or from a file with <code>carillon apply -f jobs.yaml</code>.
            </Empty>
          )
        }
      />
      {may && (chosen > 0 || (filter.acts && total > 0)) && (
        <div className="selbar" role="region" aria-label="Selected jobs">
          <strong>{chosen > 0 ? `${count(chosen)} selected` : `${page.pagination?.total_is_estimate ? "About " : ""}${count(total)} match`}</strong>
          {actions.map(([action, label]) => (
            <Button key={action} small className={action === "delete" ? "danger" : ""} onClick={() => setBulk({ action, all: chosen === 0 })}>
              {label}
            </Button>
          ))}
          <span className="grow" />
          {chosen > 0 && (
            <Button kind="ghost" small onClick={() => selected.set(new Set())}>
              Clear
            </Button>
          )}
        </div>
      )}
      {bulk && (
        <Bulk
          action={bulk.action}
          {...(bulk.all ? { filter: params } : { ids: [...selected.ids] })}
          onClose={() => setBulk(undefined)}
          onDone={(o: Operation) => {
            selected.set(new Set());
            if (o.state !== "RUNNING") void refresh("/jobs");
          }}
        />
      )}
    </>
  );
}

const actions: [BulkAction, string][] = [
  ["pause", "Pause"],
  ["resume", "Resume"],
  ["trigger", "Run now"],
  ["tag", "Tag"],
  ["untag", "Untag"],
  ["delete", "Delete"],
];

/** NoMatch says how many jobs the filter has removed. */
function NoMatch({ text }: { text: string }) {
  const all = useGet<JobList>("/jobs", { limit: 1 });
  const n = all.data?.pagination.total;
  return (
    <Empty title="No job matches" action={<LinkButton to="/jobs">Clear the filter</LinkButton>}>
      {n === undefined ? "The filter" : `There are ${count(n)} jobs; the filter`} <code>{text}</code> leaves none of them.
    </Empty>
  );
}
