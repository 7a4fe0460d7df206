// A job's schedule and policies in words.

import type { Job, JobSchedule } from "../../api";
import { duration, quoted } from "../../ui";

/** scheduleWords says when a job fires, in a few words; after is how many jobs it depends on. */
export function scheduleWords(s: JobSchedule, after = 0): string {
  const others = after === 1 ? "after another job" : `after ${after} others`;
  if (after > 0) return s.type === "MANUAL" ? "A" + others.slice(1) : `${scheduleWords(s)}, ${others}`;
  switch (s.type) {
    case "IMMEDIATE":
      return "At once, when created";
    case "ONE_TIME":
      return "Once";
    case "MANUAL":
      return "When you run it";
    case "INTERVAL":
      return "Every " + (s.every ?? "?").replace(/(\d)([a-z]+)/g, "$1 $2 ").replace(/ 0 s | 0 m /g, " ").trim().replace(/\bm\b/, "min");
    case "CRON":
      return s.description?.replace(/ \(UTC\)$/, "") ?? s.cron_expression ?? "";
  }
}

/** targetWords says what a job runs. */
export function targetWords(j: Job): string {
  const t = j.execution;
  switch (t.target) {
    case "http":
      return `${t.method ?? "POST"} ${t.callback_url ?? ""}`;
    case "command":
      return [t.entrypoint, ...(t.command ?? [])].filter(Boolean).join(" ");
    case "worker":
      return `a worker's handler “${t.kind ?? ""}”`;
    case "simulate":
      return `pretends ${t.work_kind ?? ""}${t.duration_ms ? " for " + duration(t.duration_ms) : ""}`;
    case "workflow":
      return "a workflow";
  }
}

const overlaps: Record<string, string> = {
  allow: "If an earlier run has not finished, both run.",
  skip: "If an earlier run has not finished, the new one is skipped.",
  queue: "If an earlier run has not finished, the new one waits.",
  replace: "If an earlier run has not finished, it is cancelled.",
};

/** policyWords says in sentences how a job behaves. */
export function policyWords(j: Job): string[] {
  const r = j.retry_policy;
  const out: string[] = [];
  const grows = r.backoff === "FIXED" ? `${duration(r.initial_delay_ms)} apart` : `first after ${duration(r.initial_delay_ms)}, then ${r.backoff === "LINEAR" ? "growing steadily" : "doubling"} up to ${duration(r.max_delay_ms)}`;
  out.push(r.max_retries === 0 ? "Failures are not retried." : `A failure is retried up to ${r.max_retries} ${r.max_retries === 1 ? "time" : "times"}, ${grows}.`);
  out.push(`An attempt times out after ${duration(j.execution.timeout_seconds * 1000)}.` + (j.execution.total_timeout_seconds ? ` All attempts together time out after ${duration(j.execution.total_timeout_seconds * 1000)}.` : ""));
  if (j.execution.stall_timeout_seconds) out.push(`An attempt that reports no progress for ${duration(j.execution.stall_timeout_seconds * 1000)} has stalled.`);
  if (j.schedule.type === "CRON" || j.schedule.type === "INTERVAL") {
    out.push(overlaps[j.overlap] ?? j.overlap);
    out.push(j.catch_up === "none" ? "Missed runs are skipped." : j.catch_up === "all" ? `After an outage, the latest ${j.catch_up_limit} missed runs are executed.` : "After an outage, only the latest missed run is executed.");
  }
  if (j.max_concurrent) out.push(`At most ${j.max_concurrent} at once${j.concurrency_key ? ` for each value of ${j.concurrency_key}` : ""}.`);
  if (j.rate_limit) out.push(`At most ${j.rate_limit.count} start per ${j.rate_limit.per}${j.concurrency_key ? ` for each value of ${j.concurrency_key}` : ""}.`);
  if (j.unique_key) out.push(`Only one execution with the key “${j.unique_key}” is unfinished at a time.`);
  if (j.expires_after) out.push(`An execution that has not started after ${j.expires_after} expires.`);
  if (j.auto_redrive_after) out.push(`A dead letter is redriven once, after ${j.auto_redrive_after}.`);
  if (j.retention) out.push(`History is kept for ${j.retention.days} days${j.retention.failed_days === j.retention.days ? "" : `, that of failures for ${j.retention.failed_days}`}, or as long as the tenant's if that is shorter.`);
  if (j.schedule.jitter_ms) out.push(`Fires up to ${duration(j.schedule.jitter_ms)} after its instant, to spread load.`);
  if (j.schedule.calendar) out.push(`Skips what the calendar “${j.schedule.calendar}” excludes.`);
  if (j.labels.length) out.push(`Runs on workers with ${j.labels.map((l) => "“" + l + "”").join(", ")}.`);
  return out;
}

/** isLate reports whether a job's instant has come more than five seconds ago and has not fired. */
export const isLate = (j: Job, now: number) => j.status === "ACTIVE" && j.schedule.next_run_at !== null && Date.parse(j.schedule.next_run_at) < now - 5000;

/** helloCommand is the line that makes the first job. */
export const helloCommand = () => "carillon job create hello --every 10s --simulate noop" + (location.host === "127.0.0.1:8080" || location.host === "localhost:8080" ? "" : " --server " + location.origin);

/** tagged is the address of the jobs that carry a tag. */
export const tagged = (tag: string) => "/jobs?q=" + encodeURIComponent("tag:" + quoted(tag));
