// The form of a job as texts, and how they become a request and come from a job.

import { parse, stringify, type Job, type ScheduleType, type TargetKind } from "../../api";

export type Form = {
  name: string; key: string; description: string; tags: string; owner: string; runbook: string;
  type: ScheduleType; cron: string; timezone: string; day: string; every: string; at: string; start: string; end: string; maxRuns: string; jitter: string; calendar: string;
  target: TargetKind; url: string; method: string; headers: [string, string][]; status: string; contains: string; redirects: boolean;
  command: string; artifact: string; entrypoint: string; env: [string, string][]; kind: string; work: string; workMs: string; failAttempts: string;
  payload: string; timeout: string; stall: string; total: string;
  retries: string; backoff: string; delay: string; maxDelay: string; overlap: string; catchUp: string; catchUpLimit: string;
  priority: string; queue: string; labels: string; maxConcurrent: string; concurrencyKey: string; rateCount: string; ratePer: string; uniqueKey: string; expires: string; redrive: string;
};

export const blank: Form = {
  name: "", key: "", description: "", tags: "", owner: "", runbook: "",
  type: "CRON", cron: "0 9 * * MON-FRI", timezone: Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC", day: "vixie", every: "10m", at: "", start: "", end: "", maxRuns: "", jitter: "", calendar: "",
  target: "http", url: "", method: "POST", headers: [], status: "", contains: "", redirects: false,
  command: "", artifact: "", entrypoint: "", env: [], kind: "", work: "noop", workMs: "", failAttempts: "",
  payload: "", timeout: "", stall: "", total: "",
  retries: "", backoff: "EXPONENTIAL", delay: "", maxDelay: "", overlap: "allow", catchUp: "latest", catchUpLimit: "",
  priority: "", queue: "", labels: "", maxConcurrent: "", concurrencyKey: "", rateCount: "", ratePer: "", uniqueKey: "", expires: "", redrive: "",
};

/** The sample that empty screens offer: it needs nothing but the server. */
export const hello: Form = { ...blank, name: "hello", type: "INTERVAL", every: "10s", target: "simulate", payload: stringify({ hello: "world" }, 2) };

const text = (v: unknown) => (v === null || v === undefined ? "" : String(v));
const pairs = (o: Record<string, string> | undefined): [string, string][] => Object.entries(o ?? {});

/** fromJob is the form of a job as it is. */
export function fromJob(j: Job): Form {
  const s = j.schedule;
  const x = j.execution;
  return {
    name: j.name, key: text(j.key), description: j.description, tags: j.tags.join(", "), owner: text(j.owner), runbook: text(j.runbook),
    type: s.type, cron: s.cron_expression ?? blank.cron, timezone: s.timezone ?? blank.timezone, day: s.day ?? "vixie", every: s.every ?? blank.every, at: text(s.scheduled_time), start: text(s.start_at), end: text(s.end_at),
    maxRuns: text(s.max_runs), jitter: s.jitter_ms ? text(s.jitter_ms) : "", calendar: text(s.calendar),
    target: x.target, url: text(x.callback_url), method: x.method ?? "POST", headers: pairs(x.headers), status: (x.expect?.status ?? []).join(", "), contains: text(x.expect?.body_contains), redirects: x.follow_redirects,
    command: (x.command ?? []).join("\n"), artifact: text(x.artifact_id), entrypoint: text(x.entrypoint), env: pairs(x.env), kind: text(x.kind), work: x.work_kind ?? "noop",
    workMs: x.duration_ms ? text(x.duration_ms) : "", failAttempts: x.fail_attempts ? text(x.fail_attempts) : "",
    payload: x.payload === null || x.payload === undefined ? "" : stringify(x.payload, 2), timeout: text(x.timeout_seconds), stall: text(x.stall_timeout_seconds), total: text(x.total_timeout_seconds),
    retries: text(j.retry_policy.max_retries), backoff: j.retry_policy.backoff, delay: text(j.retry_policy.initial_delay_ms), maxDelay: text(j.retry_policy.max_delay_ms),
    overlap: j.overlap, catchUp: j.catch_up, catchUpLimit: text(j.catch_up_limit), priority: text(j.priority), queue: j.queue, labels: j.labels.join(", "),
    maxConcurrent: text(j.max_concurrent), concurrencyKey: text(j.concurrency_key), rateCount: text(j.rate_limit?.count), ratePer: text(j.rate_limit?.per), uniqueKey: text(j.unique_key), expires: text(j.expires_after), redrive: text(j.auto_redrive_after),
  };
}

const words = (s: string) => s.split(/[\s,]+/).filter(Boolean);
// A number is sent as it was typed: what is none the server refuses, with the field.
const number = (s: string): unknown => (s.trim() === "" ? undefined : /^-?\d+(\.\d+)?$/.test(s.trim()) ? parse(s.trim()) : s.trim());
const some = (s: string) => (s.trim() === "" ? undefined : s.trim());
const record = (p: [string, string][]) => (p.some(([k]) => k.trim()) ? Object.fromEntries(p.filter(([k]) => k.trim()).map(([k, v]) => [k.trim(), v])) : undefined);

type Request = Record<string, unknown>;

/** toRequest is what POST /jobs takes; what is empty is left out, so that it has its default. */
export function toRequest(f: Form): Request {
  const recurs = f.type === "CRON" || f.type === "INTERVAL";
  return clean({
    name: f.name.trim(), key: some(f.key), description: some(f.description), tags: words(f.tags).length ? words(f.tags) : undefined, owner: some(f.owner), runbook: some(f.runbook),
    schedule: clean({
      type: f.type,
      scheduled_time: f.type === "ONE_TIME" ? some(f.at) : undefined,
      cron_expression: f.type === "CRON" ? f.cron.trim() : undefined,
      timezone: f.type === "CRON" ? some(f.timezone) : undefined,
      day: f.type === "CRON" && f.day !== "vixie" ? f.day : undefined,
      every: f.type === "INTERVAL" ? f.every.trim() : undefined,
      jitter_ms: recurs ? number(f.jitter) : undefined, start_at: recurs ? some(f.start) : undefined, end_at: recurs ? some(f.end) : undefined, max_runs: recurs ? number(f.maxRuns) : undefined, calendar: recurs ? some(f.calendar) : undefined,
    }),
    execution: clean({
      target: f.target,
      ...(f.target === "http"
        ? { callback_url: f.url.trim(), method: f.method === "POST" ? undefined : f.method, headers: record(f.headers), expect: f.status.trim() || f.contains ? clean({ status: words(f.status).length ? words(f.status).map(number) : undefined, body_contains: f.contains || undefined }) : undefined, follow_redirects: f.redirects || undefined }
        : f.target === "command"
          ? { command: f.command.trim() ? f.command.split("\n").map((l) => l.replace(/\r$/, "")).filter((l) => l !== "") : undefined, artifact_id: some(f.artifact), entrypoint: some(f.entrypoint), env: record(f.env) }
          : f.target === "worker"
            ? { kind: f.kind.trim() }
            : { work_kind: f.work, duration_ms: number(f.workMs), fail_attempts: f.work === "flaky" ? number(f.failAttempts) : undefined }),
      payload: f.payload.trim() === "" ? undefined : parse(f.payload),
      timeout_seconds: number(f.timeout), stall_timeout_seconds: number(f.stall), total_timeout_seconds: number(f.total),
    }),
    retry_policy: clean({ max_retries: number(f.retries), backoff: f.backoff === "EXPONENTIAL" ? undefined : f.backoff, initial_delay_ms: number(f.delay), max_delay_ms: number(f.maxDelay) }),
    overlap: f.overlap === "allow" ? undefined : f.overlap, catch_up: f.catchUp === "latest" ? undefined : f.catchUp, catch_up_limit: f.catchUp === "all" ? number(f.catchUpLimit) : undefined,
    priority: number(f.priority), queue: some(f.queue), labels: words(f.labels).length ? words(f.labels) : undefined, max_concurrent: number(f.maxConcurrent), concurrency_key: some(f.concurrencyKey),
    rate_limit: f.rateCount.trim() ? { count: number(f.rateCount), per: some(f.ratePer) ?? "1s" } : undefined, unique_key: some(f.uniqueKey), expires_after: some(f.expires), auto_redrive_after: some(f.redrive),
  });
}

function clean(o: Request): Request {
  return Object.fromEntries(Object.entries(o).filter(([, v]) => v !== undefined && !(typeof v === "object" && v !== null && !Array.isArray(v) && Object.keys(v).length === 0)));
}

const merged = new Set(["schedule", "execution", "retry_policy"]);

/** changes is what PATCH takes to get from one request to another: what differs, null for what is no longer said. */
export function changes(before: Request, after: Request): Request {
  const out: Request = {};
  for (const k of new Set([...Object.keys(before), ...Object.keys(after)])) {
    if (k === "key" || stringify(before[k]) === stringify(after[k])) continue;
    if (merged.has(k)) {
      const b = (before[k] ?? {}) as Request;
      const a = (after[k] ?? {}) as Request;
      // With another type or target what was said of the old one is dropped by the server.
      const anew = b["type"] !== a["type"] || b["target"] !== a["target"];
      out[k] = anew ? a : changes(b, a);
    } else out[k] = after[k] ?? null;
  }
  return out;
}
