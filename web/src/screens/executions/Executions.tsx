// Executions: what ran, runs and waits, of all jobs: find, follow, choose, and do the same to many.

import { useState } from "react";
import { address, useGet, useLive, usePage, useRefresh, type Execution, type Executions as ExecutionList } from "../../api";
import { Link, navigate } from "../../router";
import { useMay } from "../../session";
import { headline, Button, CopyAs, count, Duration, duration, Empty, FilterBar, Head, LinkButton, Menu, State, Table, Time, toast, useCommands, useHotkeys, useNow, useSelection, withWord, type Column } from "../../ui";
import { Bulk, type BulkAction } from "./Bulk";
import { Facets } from "./Facets";
import { executionKeys, fitting, flagsOf, useExecutionFilter } from "./filter";
import { Operations } from "./operations";
import "./executions.css";

const formats: [format: string, word: string][] = [
  ["csv", "CSV, for spreadsheets"],
  ["jsonl", "JSON lines"],
  ["parquet", "Parquet"],
];

export default function Executions() {
  const filter = useExecutionFilter();
  const page = usePage<Execution>("/executions", "executions", { ...filter.params, limit: 50 });
  const selected = useSelection(filter.text);
  const refresh = useRefresh();
  const chosen = selected.ids.size;
  const live = useLive({ match: (c) => c.type.startsWith("execution."), refresh: () => refresh("/executions"), hold: chosen > 0 });
  const may = useMay("operator");
  const [bulk, setBulk] = useState<{ action: BulkAction; all: boolean } | undefined>();
  const total = page.pagination?.total ?? 0;
  const about = (page.pagination?.total_is_estimate ? "about " : "") + count(total);
  const pick = (key: string, value: string) => filter.set(withWord(filter.text, key, value), { push: true });
  const flags = flagsOf(filter.raw);

  const acting = may && chosen > 0;
  useHotkeys(acting ? [{ keys: "r", label: "Run the selected executions again", run: () => setBulk({ action: "retry", all: false }) }, { keys: "c", label: "Cancel the selected executions", run: () => setBulk({ action: "cancel", all: false }) }] : []);
  useHotkeys([{ keys: "f", label: "Only failed, or all", run: () => pick("status", filter.raw["status"] ? "" : "failed,timed_out") }]);
  const fetchAs = (format: string) => {
    // As a download: an export that is refused says so there, and the page stays.
    const a = document.createElement("a");
    a.href = address("/executions:export", { format, ...filter.params });
    a.download = "";
    a.click();
    toast(`Exporting ${about} as ${format}`);
  };
  useCommands([
    ...formats.map(([f, word]) => ({ label: `Export these executions as ${word}`, note: f, run: () => fetchAs(f) })),
    ...(may && filter.acts ? [{ label: `Run again all ${about} that match`, run: () => setBulk({ action: "retry", all: true }) }, { label: `Cancel all ${about} that match`, run: () => setBulk({ action: "cancel", all: true }) }] : []),
  ]);

  const columns: Column<Execution>[] = [
    { id: "status", head: "Status", cell: (e) => <Status e={e} /> },
    {
      id: "job",
      head: "Job",
      lead: true,
      cell: (e) => (
        <Link className="name wrap executions-name" to={"/executions/" + e.execution_id}>
          {e.job_name}
        </Link>
      ),
    },
    { id: "scheduled", head: "Scheduled", label: "scheduled", cell: (e) => <Time at={e.scheduled_time} /> },
    { id: "trigger", head: "Trigger", cell: (e) => <Pick value={e.trigger} word={e.trigger.replace("_", " ")} what="trigger" run={() => pick("trigger", e.trigger)} /> },
    { id: "delay", head: "Delay", num: true, label: "delay", cell: (e) => <span className={e.trigger_delay_ms > 5000 ? "warn" : ""}>{<Duration ms={e.trigger_delay_ms} />}</span> },
    { id: "took", head: "Took", num: true, label: "took", cell: (e) => <Took e={e} /> },
    { id: "attempt", head: "Attempt", num: true, label: "attempt", cell: (e) => <span data-tip={e.lost_attempts > 0 ? `${e.lost_attempts} lost with their workers` : undefined}>{e.attempt_number === 0 ? "–" : `${e.attempt_number} of ${e.max_attempts}`}</span> },
    { id: "why", head: "Why", wide: true, cell: (e) => <Why e={e} /> },
    {
      id: "more",
      head: <span className="sr">Filter by</span>,
      wideOnly: true,
      cell: (e) => (
        <Menu
          kind="ghost"
          icon="more"
          small
          label={"Filter by its values"}
          items={[
            { label: "Only this job", run: () => pick("job", e.job_id) },
            ...(e.worker_id ? [{ label: "Only this worker", run: () => pick("worker", e.worker_id ?? "") }] : []),
            { label: "Only this trigger", run: () => pick("trigger", e.trigger) },
            ...(e.error ? [{ label: "Only this kind of error", run: () => filter.set(withWord(filter.text, "status", "failed,timed_out") + " " + (e.error?.type ?? ""), { push: true }) }] : []),
            "line",
            { label: "Open its job", run: () => navigate("/jobs/" + e.job_id) },
          ]}
        />
      ),
    },
  ];
  return (
    <>
      <Head
        title="Executions"
        actions={
          <>
            <Menu label="Export" items={formats.map(([f, word]) => ({ label: word, note: `All ${about} that match the filter`, run: () => fetchAs(f) }))} />
            <CopyAs link={location.pathname + location.search} cli={`carillon execution list${flags ? " " + flags : ""}`} curl={{ method: "GET", path: address("/executions", filter.params).replace("/api/v1", "") }} />
          </>
        }
      />
      <FilterBar keys={executionKeys} name="executions" placeholder='status:failed job:"nightly report" from:-24h timeout' />
      <Facets text={filter.text} set={filter.set} raw={filter.raw} rows={page.rows} />
      <Operations kinds={["cancel_executions", "retry_executions"]} refresh="/executions" />
      <Table
        label="Executions"
        page={page}
        columns={columns}
        id={(e) => e.execution_id}
        open={(e) => "/executions/" + e.execution_id}
        {...(may ? { selected } : {})}
        live={live}
        faster="A time range, a job or a status makes it faster."
        empty={filter.text ? <NoMatch text={filter.text} raw={filter.raw} /> : <Nothing />}
      />
      {may && (chosen > 0 || (filter.acts && total > 0)) && (
        <div className="selbar" role="region" aria-label="Selected executions">
          <strong>{chosen > 0 ? `${count(chosen)} selected` : `${about} match`}</strong>
          <Button small disabled={chosen === 0 && !fitting(filter.params, "retry")} onClick={() => setBulk({ action: "retry", all: chosen === 0 })}>
            {chosen > 0 ? "Run again" : "Run all again…"}
          </Button>
          <Button small className="danger" disabled={chosen === 0 && !fitting(filter.params, "cancel")} onClick={() => setBulk({ action: "cancel", all: chosen === 0 })}>
            {chosen > 0 ? "Cancel" : "Cancel all…"}
          </Button>
          <span className="grow" />
          {chosen > 0 && (
            <Button kind="ghost" small onClick={() => selected.set(new Set())}>
              Clear
            </Button>
          )}
        </div>
      )}
      {bulk && <Bulk action={bulk.action} {...(bulk.all ? { filter: fitting(filter.params, bulk.action) ?? filter.params } : { ids: [...selected.ids] })} onClose={() => setBulk(undefined)} onBegun={() => selected.set(new Set())} />}
    </>
  );
}

function Pick({ value, word, what, run }: { value: string; word: string; what: string; run: () => void }) {
  return (
    <button type="button" className="executions-pick" data-tip={"Only this " + what} aria-label={`${word}; only this ${what}`} onClick={run} value={value}>
      {word}
    </button>
  );
}

/** Status is the state, and how far it has come where it says so. */
export function Status({ e }: { e: Execution }) {
  const p = e.status === "RUNNING" ? e.progress : null;
  return (
    <span className="executions-status">
      <State of={e.status} />
      {p && <progress className="executions-progress" max={100} value={p.percent} aria-label={`${p.percent} %`} data-tip={`${p.percent} % ${p.message}`} />}
    </span>
  );
}

/** Took is how long it took, or how long it has been running. */
function Took({ e }: { e: Execution }) {
  const now = useNow();
  if (e.duration_ms !== null || !e.started_at || e.finished_at) return <Duration ms={e.duration_ms} />;
  return <span className="nowrap dim">{duration(Math.max(0, Math.floor((now - Date.parse(e.started_at)) / 1000) * 1000))} …</span>;
}

function Why({ e }: { e: Execution }) {
  if (e.error)
    return (
      <span className="executions-why" data-tip={e.error.message}>
        <code className="executions-type">{e.error.type}</code> <bdi>{headline(e.error.message)}</bdi>
      </span>
    );
  const said = e.progress?.message || e.metadata?.["reason"];
  return said ? (
    <span className="executions-why dim">
      <bdi>{said}</bdi>
    </span>
  ) : null;
}

/** NoMatch says which part of the filter removes how many. */
function NoMatch({ text, raw }: { text: string; raw: Record<string, string> }) {
  const all = useGet<ExecutionList>("/executions", { limit: 1 });
  const parts = executionKeys.filter((k) => raw[k.param]);
  const n = all.data?.pagination.total;
  return (
    <Empty
      title="No execution matches"
      action={
        <div className="row">
          {parts.length > 1 &&
            parts.map((k) => (
              <LinkButton key={k.key} small to={"/executions?q=" + encodeURIComponent(withWord(text, k.key, ""))}>
                Without {k.key}
              </LinkButton>
            ))}
          <LinkButton small kind="primary" to="/executions">
            Clear the filter
          </LinkButton>
        </div>
      }
    >
      {n === undefined ? "The filter" : `There are ${all.data?.pagination.total_is_estimate ? "about " : ""}${count(n)} executions; the filter`} <code className="wrap">{text}</code> leaves none of them.
    </Empty>
  );
}

function Nothing() {
  return (
    <Empty title="Nothing has run yet" command={`carillon job create hello --every 10s --http ${location.origin}/demo/echo`} action={<LinkButton to="/jobs/new?sample=hello" kind="primary">Create the hello job</LinkButton>}>
      An execution is one run of a job, scheduled or manual. It appears here as soon as it is due.
    </Empty>
  );
}
