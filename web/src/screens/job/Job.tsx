// Job: what it is, when it fires, how it did, and everything one can do with it.

import { lazy, Suspense, useState, type ReactNode } from "react";
import { del, isProblem, post, useGet, useLive, useRefresh, type Dependencies, type Executions as ExecutionList, type Job as JobType, type Preview } from "../../api";
import { Link, navigate } from "../../router";
import { useZone } from "../../prefs";
import { useMay } from "../../session";
import { Button, Confirm, CopyAs, count, duration, ErrorBox, failed, Head, Id, LinkButton, Loading, Menu, percent, State, Tabs, Tags, Time, toast, shortTime, useCommands, useHotkeys, useNow, zoneName } from "../../ui";
import { isLate, policyWords, scheduleWords, tagged, targetWords } from "../jobs/words";
import { BackfillDialog, PauseDialog, RunDialog } from "./actions";
import { DurationPlot, RunsPlot, YearPlot } from "./plots";
import { Executions, Instants } from "./history";
import { afterOf, DependenciesPanel } from "./dependencies";
import { Definition, specOf } from "./definition";
import type { ScreenProps } from "..";
import "./job.css";

type Open = "run" | "pause" | "backfill" | "depend" | "delete" | undefined;

// What few people open is loaded when somebody does.
const DependDialog = lazy(() => import("../job-form/Depend"));
const Versions = lazy(() => import("./versions"));

export default function Job({ params }: ScreenProps) {
  const id = params["id"] ?? "";
  const path = "/jobs/" + encodeURIComponent(id);
  const query = useGet<JobType>(path);
  const refresh = useRefresh();
  const j = query.data;
  const on = useGet<Dependencies>(j && path + "/dependencies");
  const live = useLive({ match: (c) => c.job_id !== undefined && (c.job_id === j?.job_id || (j?.depends_on ?? []).includes(c.job_id)), refresh: () => refresh(path, "/jobs:runs") });
  const may = useMay("operator");
  const now = useNow();
  const [open, setOpen] = useState<Open>();
  const [stop, setStop] = useState(false);
  const paused = j?.status === "PAUSED";
  const alive = j !== undefined && j.status !== "DELETED";

  const resume = () =>
    post<JobType>(path + "/resume").then(() => {
      void refresh(path);
      toast("Resumed");
    }, failed);
  const can = may && alive;
  useHotkeys(can ? [{ keys: "r", label: "Run now", run: () => setOpen("run") }, { keys: "p", label: paused ? "Resume" : "Pause", run: () => (paused ? void resume() : setOpen("pause")) }, { keys: "e", label: "Edit", run: () => navigate(path + "/edit") }] : []);
  useCommands(can && j ? [{ label: `Run ${j.name} now`, note: "r", run: () => setOpen("run") }, { label: paused ? `Resume ${j.name}` : `Pause ${j.name}`, note: "p", run: () => (paused ? void resume() : setOpen("pause")) }, { label: `Edit ${j.name}`, note: "e", run: () => navigate(path + "/edit") }, { label: `Clone ${j.name}`, run: () => navigate("/jobs/new?clone=" + j.job_id) }] : []);

  if (!j)
    return (
      <>
        <Head title="Job" crumb={<Link to="/jobs">Jobs</Link>} />
        {query.isError ? <ErrorBox error={query.error} what={isProblem(query.error, 404) ? "No such job" : undefined} retry={() => void query.refetch()} /> : <Loading />}
        {isProblem(query.error, 404) && <NodeOf id={id} />}
      </>
    );
  const ref = j.key ?? j.job_id;
  return (
    <>
      <Head
        title={j.name}
        crumb={
          <>
            <Link to="/jobs">Jobs</Link> / <Id of={j.job_id} />
          </>
        }
        actions={
          <>
            {j.execution.target === "workflow" && <LinkButton to={"/workflows/" + j.job_id}>Open the graph</LinkButton>}
            {can && (
              <>
                <Button kind="primary" icon="play" onClick={() => setOpen("run")}>
                  Run now
                </Button>
                {paused ? (
                  <Button onClick={() => void resume()}>Resume</Button>
                ) : (
                  j.status === "ACTIVE" && (
                    <Button icon="pause" onClick={() => setOpen("pause")}>
                      Pause
                    </Button>
                  )
                )}
                <LinkButton to={path + "/edit"}>Edit</LinkButton>
              </>
            )}
            <CopyAs link={"/x/" + j.job_id} cli={`carillon job get ${ref}`} curl={{ method: "GET", path: "/jobs/" + j.job_id }} yaml={{ jobs: [{ key: j.key ?? undefined, ...specOf(j), ...afterOf(on.data) }] }} />
            {may && (
              <Menu
                label="More"
                icon="more"
                kind="ghost"
                items={[
                  { label: "Clone", run: () => navigate("/jobs/new?clone=" + j.job_id) },
                  ...(alive && (j.schedule.type === "CRON" || j.schedule.type === "INTERVAL") ? [{ label: "Backfill…", run: () => setOpen("backfill") }] : []),
                  ...(alive ? [{ label: "Run after others…", run: () => setOpen("depend") }] : []),
                  ...(alive ? ["line" as const, { label: "Delete…", danger: true, run: () => setOpen("delete") }] : []),
                ]}
              />
            )}
          </>
        }
      >
        <div className="row">
          <State of={isLate(j, now) ? "LATE" : j.status} />
          <span>{scheduleWords(j.schedule, j.depends_on?.length)}</span>
          {j.schedule.next_run_at && (
            <span className="dim">
              next <Time at={j.schedule.next_run_at} zone={j.schedule.timezone} />
            </span>
          )}
          <Tags of={j.tags} to={tagged} />
        </div>
        {j.description && <p className="dim wrap">{j.description}</p>}
      </Head>
      {paused && (
        <p className="job-note warn" role="status">
          Paused{j.pause_reason ? `: ${j.pause_reason}` : ""}.{" "}
          {j.paused_until ? (
            <>
              It is resumed by itself <Time at={j.paused_until} zone={j.schedule.timezone} />.
            </>
          ) : (
            "It fires again when someone resumes it."
          )}
        </p>
      )}
      {query.isError && <ErrorBox error={query.error} what="This job could not be refreshed" />}
      <Tabs
        label="Parts of the job"
        tabs={[
          { id: "overview", label: "Overview", content: () => <Overview j={j} path={path} region={live.region} on={on.data} edit={can ? () => setOpen("depend") : undefined} /> },
          { id: "executions", label: "Executions", content: () => <Executions path={path} live={live} /> },
          ...(j.schedule.type === "CRON" || j.schedule.type === "INTERVAL" ? [{ id: "instants", label: "Instants", content: () => <Instants path={path} zone={j.schedule.timezone} /> }] : []),
          { id: "versions", label: "Versions", content: () => <Suspense fallback={<Loading />}><Versions j={j} path={path} may={can} /></Suspense> },
          { id: "definition", label: "Definition", content: () => <Definition j={j} on={on.data} /> },
        ]}
      />
      {open === "run" && <RunDialog j={j} path={path} onClose={() => setOpen(undefined)} />}
      {open === "pause" && <PauseDialog j={j} path={path} onClose={() => setOpen(undefined)} />}
      {open === "backfill" && <BackfillDialog j={j} path={path} onClose={() => setOpen(undefined)} />}
      {open === "depend" && on.data && (
        <Suspense>
          <DependDialog of={on.data} path={path} onClose={() => setOpen(undefined)} />
        </Suspense>
      )}
      {open === "delete" && (
        <Confirm
          title={`Delete ${j.name}`}
          name={j.name}
          action="Delete"
          danger
          cli={`carillon job delete ${ref}${stop ? " --running cancel" : ""}`}
          onClose={() => setOpen(undefined)}
          run={() =>
            del(path, stop ? { running: "cancel" } : undefined).then(() => {
              toast(`Deleted ${j.name}`);
              void refresh("/jobs");
              navigate("/jobs");
            })
          }
        >
          <p>Waiting executions are cancelled. Running ones continue unless you choose otherwise. The history stays. You cannot undo this.</p>
          <label className="check">
            <input type="checkbox" checked={stop} onChange={(x) => setStop(x.target.checked)} /> Cancel what runs
          </label>
        </Confirm>
      )}
    </>
  );
}

function Overview({ j, path, region, on, edit }: { j: JobType; path: string; region: object; on: Dependencies | undefined; edit: (() => void) | undefined }) {
  const s = j.stats;
  return (
    <div className="stack" {...region}>
      <div className="job-top">
        <RunsPlot j={j} />
        <div className="job-stats panel">
          <Stat label="Executions" value={count(s.total_runs)} />
          <Stat label="Succeeded" value={s.total_runs ? percent(s.success_rate) : "–"} tone={s.total_runs > 0 && s.success_rate < 0.95 ? "bad" : ""} />
          <Stat label="On average" value={s.total_runs ? duration(s.avg_duration_ms) : "–"} />
          <Stat label="95 % within" value={s.total_runs ? duration(s.p95_duration_ms) : "–"} />
          <Stat label="Last">
            {s.last_status ? (
              <>
                <State of={s.last_status} /> <Time at={j.schedule.last_run_at} zone={j.schedule.timezone} />
              </>
            ) : (
              "never"
            )}
          </Stat>
        </div>
      </div>
      <div className="cols">
        {(j.schedule.type === "CRON" || j.schedule.type === "INTERVAL") && <Next j={j} path={path} />}
        <section className="panel stack" aria-label="What it does">
          <h2>What it does</h2>
          <p className="mono wrap">{targetWords(j)}</p>
          <ul className="job-policies">
            {policyWords(j).map((w) => (
              <li key={w}>{w}</li>
            ))}
          </ul>
          <dl className="facts">
            <dt>Queue</dt>
            <dd>
              <Link to={"/queues?q=" + encodeURIComponent(j.queue)}>{j.queue}</Link>
            </dd>
            <dt>Priority</dt>
            <dd>{j.priority} (1 is first, 10 last)</dd>
            {j.owner && (
              <>
                <dt>Owner</dt>
                <dd>{j.owner}</dd>
              </>
            )}
            {j.key && (
              <>
                <dt>Key</dt>
                <dd className="mono">{j.key}</dd>
              </>
            )}
          </dl>
          {j.runbook && <Runbook text={j.runbook} />}
        </section>
        {on && <DependenciesPanel of={on} edit={edit} />}
      </div>
      <div className="cols">
        <YearPlot j={j} path={path} />
        <DurationPlot path={path} />
      </div>
    </div>
  );
}

function Stat({ label, value, tone, children }: { label: string; value?: string; tone?: string; children?: ReactNode }) {
  return (
    <div className="stack tight">
      <span className="dim small">{label}</span>
      {value !== undefined ? <span className={"job-number " + (tone ?? "")}>{value}</span> : <span>{children}</span>}
    </div>
  );
}

/** Runbook is what to do when it fails: text, or a link where it is an address. */
function Runbook({ text }: { text: string }) {
  const safe = /^https?:\/\/\S+$/.test(text);
  return (
    <div className="stack tight">
      <h3>When it fails</h3>
      {safe ? (
        <a href={text} rel="noreferrer noopener" target="_blank" className="wrap">
          {text}
        </a>
      ) : (
        <p className="wrap job-runbook">{text}</p>
      )}
    </div>
  );
}

const flags: Record<string, string> = {
  gap: "skipped hour: the local time does not exist that day, so it fires right after the gap",
  "first-of-two": "the hour comes twice that day: this is the first one",
  "second-of-two": "the hour comes twice that day: this is the second one",
  excluded: "excluded by the calendar",
};

/** weekday is a local time as it was written, with the day of the week before it and without its offset. */
function weekday(local: string): string {
  const day = new Date(local.slice(0, 10) + "T00:00:00Z").toLocaleString("en", { weekday: "short", timeZone: "UTC" });
  return `${day} ${local.slice(0, 10)} ${local.slice(11, 19)}`;
}

/** Next lists the next instants in the job's zone and the viewer's, with what clocks do on those days. */
function Next({ j, path }: { j: JobType; path: string }) {
  const q = useGet<Preview>(path + "/next", { n: 10 });
  const p = q.data;
  const zone = j.schedule.timezone ?? "UTC";
  const [chosen] = useZone();
  const mine = zoneName(chosen === "job" ? "local" : chosen);
  return (
    <section className="panel stack" aria-label="Next runs">
      <h2>Next 10</h2>
      {p && <p className="dim">{p.description}</p>}
      {p?.warnings.map((w) => (
        <p key={w.code + w.message} className="warn small">
          {w.message}
        </p>
      ))}
      {q.isError && !p && <ErrorBox error={q.error} />}
      {!p && !q.isError && <Loading />}
      {p && p.next.length > 0 && (
        <table className="table compact job-next">
          <thead>
            <tr>
              <th scope="col">{zone}</th>
              {mine !== zone && <th scope="col" className="job-mine">{mine}</th>}
              <th scope="col">
                <span className="sr">From now</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {p.next.map((m) => (
              <tr key={m.utc}>
                <td className="nowrap">
                  {weekday(m.local)}
                  {m.flag && (
                    <>
                      {" "}
                      <State of={m.flag === "excluded" ? "SKIPPED" : "LATE"} word={m.flag === "excluded" ? "left out" : "DST"} tip={flags[m.flag] ?? m.flag} />
                    </>
                  )}
                </td>
                {mine !== zone && <td className="nowrap dim job-mine">{shortTime(Date.parse(m.utc), chosen === "job" ? "local" : chosen)}</td>}
                <td>
                  <Time at={m.utc} zone={zone} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {p && p.next.length === 0 && <p className="dim">No runs planned.</p>}
    </section>
  );
}

/** NodeOf leads to the executions of what looks like a job but is a node that a workflow describes in itself. */
function NodeOf({ id }: { id: string }) {
  const last = useGet<ExecutionList>(/^[0-9a-f-]{36}$/.test(id) ? "/executions" : undefined, { job_id: id, limit: 1 }).data?.executions[0];
  return last?.trigger === "workflow" ? (
    <p>
      It is the node {last.job_name} of a workflow. <Link to={"/executions/" + last.execution_id}>Open its last execution</Link>
    </p>
  ) : null;
}
