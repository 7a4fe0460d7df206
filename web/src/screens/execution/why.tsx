// Why: why it waits, what it does, or how it ended, in one sentence; the facts in it; and what one can do about it.

import type { ReactNode } from "react";
import { type Execution, type Explanation, type Job } from "../../api";
import { Link } from "../../router";
import { CommandLine, count, Time, type Tone } from "../../ui";

const tones: Record<string, Tone> = {
  SUCCEEDED: "good", RUNNING: "busy", AWAITING_COMPLETION: "busy", READY: "busy", CANCELLING: "warn", RETRY_BACKOFF: "warn", SNOOZED: "calm", NOT_DUE: "calm", OVERLAP: "calm", JOB_PAUSED: "warn", WAITING_FOR_PARENTS: "calm", QUEUE_PAUSED: "warn", CIRCUIT_OPEN: "warn",
  NO_WORKERS: "bad", NO_MATCHING_WORKER: "bad", CONCURRENCY_LIMIT: "warn", RATE_LIMIT: "warn", ALL_SLOTS_BUSY: "warn", ATTEMPTS_EXHAUSTED: "bad", NOT_RETRYABLE: "bad", TIMED_OUT: "bad", STALLED: "bad", POISON: "bad",
  CANCELLED: "calm", EXPIRED: "calm", SKIPPED: "calm",
};

const ended = ["SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED", "EXPIRED"];

function title(e: Execution): string {
  switch (e.status) {
    case "FAILED":
    case "TIMED_OUT":
      return "Why it failed";
    case "RETRYING":
      return "Why it waits";
    case "RUNNING":
    case "CANCELLING":
      return "What it is doing";
    case "SUCCEEDED":
      return "How it went";
    case "SKIPPED":
    case "EXPIRED":
      return "Why it did not run";
    case "CANCELLED":
      return "Why it was cancelled";
  }
  return "Why it waits";
}

export function Why({ e, x, j, at }: { e: Execution; x: Explanation; j: Job | undefined; at: string }) {
  const d = x.details;
  const facts: [string, ReactNode][] = [];
  if (x.since) facts.push([ended.includes(e.status) ? "Ended" : "Since", <Time key="s" at={x.since} zone={j?.schedule.timezone} />]);
  if (d.until) facts.push(["Until", <Time key="u" at={d.until} zone={j?.schedule.timezone} />]);
  if (x.estimated_start && x.estimated_start !== d.until) facts.push(["Estimated start", <Time key="e" at={x.estimated_start} zone={j?.schedule.timezone} />]);
  if (d.ahead !== undefined) facts.push(["Ahead of it", `${count(d.ahead)}${d.ahead_is_minimum ? " or more" : ""}`]);
  if (d.slots !== undefined) facts.push(["Slots", `${count(d.busy_slots ?? 0)} of ${count(d.slots)} busy`]);
  if (d.workers !== undefined) facts.push(["Workers", `${count(d.matching_workers ?? 0)} of ${count(d.workers)} can run it`]);
  if (d.needs) facts.push(["It needs", [d.needs.target, d.needs.kind && "kind " + d.needs.kind, "queue " + d.needs.queue, d.needs.labels.length > 0 && "labels " + d.needs.labels.join(", ")].filter(Boolean).join(", ")]);
  if (d.lacks && d.lacks.length > 0) facts.push(["No worker has", d.lacks.join(", ")]);
  if (d.limit) facts.push(["Limit", limitWords(d.limit)]);
  if (d.error?.http_status) facts.push(["HTTP status", String(d.error.http_status)]);
  if (d.exit_code !== undefined) facts.push(["Exit code", String(d.exit_code)]);
  if (d.reason) facts.push(["Reason", <bdi key="r">{d.reason}</bdi>]);
  if (e.lost_attempts > 0) facts.push(["Lost attempts", `${e.lost_attempts}; they used up no retry`]);
  return (
    <section className={"panel stack execution-why " + (tones[x.code] ?? "calm")} aria-label={title(e)}>
      <div className="row">
        <h2 className="grow">{title(e)}</h2>
        <code className="dim">{x.code}</code>
      </div>
      <p className="execution-summary wrap">
        <bdi>{x.summary}</bdi>
      </p>
      {facts.length > 0 && (
        <dl className="execution-facts">
          {facts.map(([k, v]) => (
            <div key={k}>
              <dt>{k}</dt>
              <dd className="wrap">{v}</dd>
            </div>
          ))}
        </dl>
      )}
      <Advice e={e} x={x} j={j} at={at} />
    </section>
  );
}

function limitWords(l: NonNullable<Explanation["details"]["limit"]>): string {
  const whose = l.scope === "queue" && l.queue ? "queue " + l.queue : l.scope === "key" && l.concurrency_key ? "key " + l.concurrency_key : l.scope;
  if (l.rate_limit) return `${whose}: ${l.rate_limit.count} in ${l.rate_limit.per}`;
  return `${whose}: ${l.current ?? "?"} of ${l.max_concurrent ?? "?"} run`;
}

/** Advice is what one can do about it, where there is something. */
function Advice({ e, x, j, at }: { e: Execution; x: Explanation; j: Job | undefined; at: string }) {
  const job = (
    <Link to={at}>
      <bdi>{e.job_name}</bdi>
    </Link>
  );
  switch (x.code) {
    case "NO_WORKERS":
    case "NO_MATCHING_WORKER": {
      const n = x.details.needs;
      if (n?.target === "worker")
        return (
          <p className="dim">
            Connect a worker whose program has a handler of kind <code>{n.kind}</code>
            {n.queue !== "default" && (
              <>
                {" "}
                and takes from the queue <code>{n.queue}</code>
              </>
            )}
            : with the Go package <code>worker</code>, or in any language by the <a href="/docs">worker protocol</a>. It starts the moment one is there.
          </p>
        );
      const more = [n && n.queue !== "default" && " --queues " + n.queue, n && n.labels.length > 0 && " --labels " + n.labels.join(",")].filter(Boolean).join("");
      return (
        <div className="stack tight">
          <span className="dim">Start a worker that can run it:</span>
          <CommandLine>{`carillon worker --server ${location.origin} --token KEY${more}`}</CommandLine>
        </div>
      );
    }
    case "WAITING_FOR_PARENTS":
      return <p className="dim">See {job} for all that it depends on.</p>;
    case "JOB_PAUSED":
      return <p className="dim">Resume {job} and it goes on.</p>;
    case "QUEUE_PAUSED":
      return (
        <p className="dim">
          Resume <Link to={"/queues/" + encodeURIComponent(x.details.needs?.queue ?? "default")}>its queue</Link> and it goes on.
        </p>
      );
    case "CONCURRENCY_LIMIT":
    case "RATE_LIMIT":
    case "ALL_SLOTS_BUSY":
      return (
        <p className="dim">
          See <Link to="/queues">queues and their limits</Link>, and <Link to="/workers">who is busy</Link>.
        </p>
      );
    case "POISON":
      return <p className="dim">It took down its worker each time, so it is not retried. Read its log before you run it again: it may take down the next worker.</p>;
  }
  if (j?.runbook && ["FAILED", "TIMED_OUT", "RETRYING"].includes(e.status)) {
    const safe = /^https?:\/\/\S+$/.test(j.runbook);
    return (
      <p className="wrap">
        <span className="dim">When it fails: </span>
        {safe ? (
          <a href={j.runbook} rel="noreferrer noopener" target="_blank">
            {j.runbook}
          </a>
        ) : (
          j.runbook
        )}
      </p>
    );
  }
  return null;
}
