// Now: is everything well, and where is it not? One sentence, then what it rests on.

import { useState } from "react";
import { useGet, useLive, useRefresh, type Failures, type Overview } from "../../api";
import { Link, navigate } from "../../router";
import { useDeadLetters, useMay } from "../../session";
import { Button, count, counted, Duration, duration, Empty, ErrorBox, Head, headline, LinkButton, Loading, percent, State, Time } from "../../ui";
import { helloCommand } from "../jobs/words";
import { DelayPlot, LoadPlot, QueuePlot } from "./plots";
import { Silence } from "./Silence";
import { Verdict } from "./verdict";
import "./now.css";

const executions = (q: string) => "/executions?q=" + encodeURIComponent(q);

export default function Now() {
  const overview = useGet<Overview>("/overview", undefined, { every: 15_000 });
  const failures = useGet<Failures>("/failures", { hours: 24, limit: 8 }, { every: 60_000 });
  const refresh = useRefresh();
  const letters = useDeadLetters();
  const live = useLive({ refresh: () => refresh("/overview", "/failures", "/executions") });
  const o = overview.data;
  if (!o)
    return (
      <>
        <Head title="Now" />
        {overview.isError ? <ErrorBox error={overview.error} retry={() => void overview.refetch()} /> : <Loading />}
      </>
    );
  const fresh = o.schedules === 0 && o.last_hour.started === 0 && o.running === 0 && o.queued === 0;
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
        <p className={"now-sentence " + o.health} role="status">
          <Verdict of={o.health} />
          {o.sentence}
        </p>
      </Head>
      {overview.isError && <ErrorBox error={overview.error} what="These numbers could not be refreshed" />}
      {fresh && (
        <div className="panel">
          <Empty title="No jobs yet" command={helloCommand()} action={<LinkButton to="/jobs/new?sample=hello" kind="primary">Create the hello job</LinkButton>}>
            A job says what to run and when. This one pretends to work, every ten seconds.
          </Empty>
        </div>
      )}
      <div className="now-tiles" {...live.region}>
        <Tile to="/jobs?q=late%3Atrue" label="Late" value={some(o.late_jobs, o.late_jobs_is_minimum)} tone={o.late_jobs > 0 ? "warn" : undefined} note={o.late_jobs > 0 ? "due more than 5 s ago" : "every schedule on time"} />
        <Tile to={executions("status:failed,timed_out from:-24h")} label="Jobs failing" value={some(o.failing_jobs, o.failing_is_minimum)} tone={o.failing_jobs > 0 ? "bad" : undefined} note={`${counted(o.last_hour.failed + o.last_hour.timed_out, "execution")} failed in the last hour`} />
        <Tile to={executions("status:running")} label="Running" value={count(o.running)} note={counted(o.workers, "worker")} />
        <Tile to={executions("status:pending")} label="Queued" value={count(o.queued)} tone={o.queued > 0 && o.workers === 0 ? "bad" : undefined} note={o.oldest_queued_seconds === null ? "nothing waits" : "the oldest for " + duration(o.oldest_queued_seconds * 1000)} />
        {letters && !letters.has ? (
          <Tile to="/dead-letters" label="Dead letters" value="–" note={`not in the tier ${letters.tier}`} />
        ) : (
          <Tile to="/dead-letters" label="Dead letters" value={(o.dead_letters_is_estimate ? "≈ " : "") + count(o.dead_letters)} tone={o.dead_letters > 0 ? "warn" : undefined} note={o.dead_letters > 0 ? "failed for good" : "none"} />
        )}
        <Tile to={executions("status:succeeded from:-1h")} label="Succeeded, last hour" value={o.last_hour.success_rate === null ? "–" : percent(o.last_hour.success_rate)} note={counted(o.last_hour.succeeded, "execution")} />
      </div>
      <div className="now-plots">
        <DelayPlot />
        <QueuePlot waiting={o.queued} />
        <LoadPlot />
      </div>
      <div className="cols">
        <FailurePanel query={failures} />
        <Trouble o={o} />
      </div>
    </>
  );
}

const some = (n: number, more?: boolean) => (more ? "≥ " : "") + count(n);

function Tile({ label, value, note, to, tone }: { label: string; value: string; note: string; to: string; tone?: "bad" | "warn" | undefined }) {
  return (
    <Link to={to} className={"panel now-tile" + (tone ? " " + tone : "")}>
      <span className="dim small">{label}</span>
      <span className="big">{value}</span>
      <span className="dim small">{note}</span>
    </Link>
  );
}

/** FailurePanel shows what fails, grouped by what went wrong, so that a thousand failures of one cause are one line. */
function FailurePanel({ query }: { query: { data: Failures | undefined; error: Error | null } }) {
  const f = query.data;
  return (
    <section className="panel stack" aria-label="Failures">
      <div className="row">
        <h2 className="grow">Failures, 24 h</h2>
        {f && f.failed + f.retried > 0 && (
          <span className="dim small">
            {count(f.failed)} failed, {count(f.retried)} tried again
          </span>
        )}
      </div>
      {query.error && !f ? (
        <ErrorBox error={query.error} />
      ) : !f ? (
        <Loading lines={3} />
      ) : f.groups.length === 0 ? (
        <p className="dim">Nothing failed in the last 24 hours.</p>
      ) : (
        <ul className="now-failures">
          {f.groups.map((g) => (
            <li key={g.fingerprint}>
              <div className="row top">
                <span className="now-count bad" data-tip={`${count(g.failed)} failed for good, ${count(g.retried)} attempts were retried`}>
                  {count(g.failed || g.retried)}
                </span>
                <div className="grow">
                  <Link className="wrap" to={executions(`status:failed,timed_out,retrying from:-24h ${g.text ? JSON.stringify(g.text) : g.type}`)}>
                    <strong>{g.type || "Others"}</strong> <span data-tip={"This group contains every error of the form\n" + g.message.slice(0, 200)}>{headline(g.sample_message || g.message)}</span>
                  </Link>
                  <div className="dim small">
                    {g.jobs.slice(0, 2).map((j, i) => (
                      <span key={j.job_id}>
                        {i > 0 && ", "}
                        <Link to={"/jobs/" + j.job_id}>{j.name}</Link>
                      </span>
                    ))}
                    {g.jobs_total > 2 && ` and ${count(g.jobs_total - Math.min(2, g.jobs.length))} more`}
                    {" · last "}
                    <Time at={g.last_seen} />
                    {" · "}
                    <Link to={"/executions/" + g.sample_execution_id}>an example</Link>
                  </div>
                </div>
              </div>
            </li>
          ))}
        </ul>
      )}
      {f?.partial && <p className="dim small">There are too many kinds of failures to list them all.</p>}
    </section>
  );
}

/** Trouble lists the jobs that are late or whose last execution failed. */
function Trouble({ o }: { o: Overview }) {
  const may = useMay("admin");
  const [silence, setSilence] = useState<{ job_id: string; name: string }>();
  const quieten = (j: { job_id: string; name: string }) =>
    may && (
      <Button small kind="ghost" onClick={() => setSilence(j)} aria-label={"Silence " + j.name}>
        Silence
      </Button>
    );
  return (
    <section className="panel stack" aria-label="Jobs to look at">
      <h2>Jobs to look at</h2>
      {o.late.length + o.failing.length === 0 ? (
        <p className="dim">{o.schedules > 0 ? `All ${count(o.schedules)} schedules are on time and every job's last execution succeeded.` : "No job is late or failing."}</p>
      ) : (
        <ul className="now-failures">
          {o.late.map((j) => (
            <li key={"l" + j.job_id} className="row">
              <State of="LATE" />
              <Link className="grow wrap" to={"/jobs/" + j.job_id}>
                {j.name}
              </Link>
              <span className="dim small">
                by <Duration ms={j.late_seconds * 1000} />
              </span>
              {quieten(j)}
            </li>
          ))}
          {o.failing.map((j) => (
            <li key={"f" + j.job_id} className="row top">
              <State of={j.last_status} />
              <div className="grow">
                <Link className="wrap" to={"/jobs/" + j.job_id}>
                  {j.name}
                </Link>
                <div className="dim small wrap">
                  {j.type} {headline(j.message)}
                  {j.last_execution_id && (
                    <>
                      {" · "}
                      <Link to={"/executions/" + j.last_execution_id}>the last one</Link>
                    </>
                  )}
                </div>
              </div>
              <button type="button" className="btn ghost small" onClick={() => navigate(executions(`job:${j.job_id} status:failed,timed_out from:-24h`))}>
                {count(j.failed_24h)} in 24 h
              </button>
              {quieten(j)}
            </li>
          ))}
        </ul>
      )}
      {silence && <Silence id={silence.job_id} name={silence.name} onClose={() => setSilence(undefined)} />}
    </section>
  );
}
