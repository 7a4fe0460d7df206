// The form of a job as texts, and how they become a request and come from a job.

import { parse, stringify, type Job, type RateLimit, type ScheduleType, type TargetKind } from "../../api";

export type Form = {
  name: string; key: string; description: string; tags: string[]; owner: string; runbook: string;
  type: ScheduleType; cron: string; timezone: string; day: string; every: string; everyZone: string; at: string; start: string; end: string; maxRuns: string; jitter: string; calendar: string;
  target: TargetKind; url: string; method: string; headers: [string, string][]; status: string; contains: string; redirects: boolean;
  command: string[]; artifact: string; entrypoint: string; env: [string, string][]; kind: string; work: string; workMs: string; failAttempts: string;
  payload: string; timeout: string; stall: string; total: string;
  retries: string; backoff: string; delay: string; maxDelay: string; overlap: string; catchUp: string; catchUpLimit: string;
  priority: string; queue: string; labels: string; maxConcurrent: string; concurrencyKey: string; rateCount: string; ratePer: string; rateBurst: string; uniqueKey: string; expires: string; redrive: string; keepDays: string; keepFailed: string;
};

export const blank: Form = {
  name: "", key: "", description: "", tags: [], owner: "", runbook: "",
  type: "CRON", cron: "0 9 * * MON-FRI", timezone: Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC", day: "vixie", every: "10m", everyZone: "", at: "", start: "", end: "", maxRuns: "", jitter: "", calendar: "",
  target: "http", url: "", method: "POST", headers: [], status: "", contains: "", redirects: false,
  command: [], artifact: "", entrypoint: "", env: [], kind: "", work: "noop", workMs: "", failAttempts: "",
  payload: "", timeout: "", stall: "", total: "",
  retries: "", backoff: "", delay: "", maxDelay: "", overlap: "allow", catchUp: "latest", catchUpLimit: "",
  priority: "", queue: "", labels: "", maxConcurrent: "", concurrencyKey: "", rateCount: "", ratePer: "", rateBurst: "", uniqueKey: "", expires: "", redrive: "", keepDays: "", keepFailed: "",
};

/** The sample that empty screens offer: it needs nothing but the server. */
export const hello: Form = { ...blank, name: "hello", type: "INTERVAL", every: "10s", target: "simulate", payload: stringify({ hello: "world" }, 2) };

const text = (v: unknown) => (v === null || v === undefined ? "" : String(v));
const pairs = (o: Record<string, string> | undefined): [string, string][] => Object.entries(o ?? {});

// Go writes durations so: 1h30m, 1.5s, 200ms.
const units: Record<string, number> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1 };
const msOf = (span: string) => [...span.matchAll(/([\d.]+)(ms|h|m|s)/g)].reduce((sum, m) => sum + Number(m[1]) * (units[m[2] ?? ""] ?? NaN), 0);

/** burstOf is the burst of a rate where it is another than the server chooses by itself: what a tenth of a second is worth. */
function burstOf(r: RateLimit | null): string {
  if (!r?.burst) return "";
  const usual = Math.max(1, Math.floor((100 * r.count) / msOf(r.per)));
  return r.burst === usual ? "" : text(r.burst);
}

/** fromJob is the form of a job as it is. */
export function fromJob(j: Job): Form {
  const s = j.schedule;
  const x = j.execution;
  return {
    name: j.name, key: text(j.key), description: j.description, tags: j.tags, owner: text(j.owner), runbook: text(j.runbook),
    type: s.type, cron: s.cron_expression ?? blank.cron, timezone: (s.type === "CRON" && s.timezone) || blank.timezone, day: s.day ?? "vixie", every: s.every ?? blank.every, everyZone: s.type === "INTERVAL" && s.timezone !== "UTC" ? text(s.timezone) : "", at: text(s.scheduled_time), start: text(s.start_at), end: text(s.end_at),
    maxRuns: text(s.max_runs), jitter: s.jitter_ms ? text(s.jitter_ms) : "", calendar: text(s.calendar),
    target: x.target, url: text(x.callback_url), method: x.method ?? "POST", headers: pairs(x.headers), status: (x.expect?.status ?? []).join(", "), contains: text(x.expect?.body_contains), redirects: x.follow_redirects,
    command: x.command ?? [], artifact: text(x.artifact_id), entrypoint: text(x.entrypoint), env: pairs(x.env), kind: text(x.kind), work: x.work_kind ?? "noop",
    workMs: x.duration_ms ? text(x.duration_ms) : "", failAttempts: x.fail_attempts ? text(x.fail_attempts) : "",
    payload: x.payload === null || x.payload === undefined ? "" : stringify(x.payload, 2), timeout: text(x.timeout_seconds), stall: text(x.stall_timeout_seconds), total: text(x.total_timeout_seconds),
    retries: text(j.retry_policy.max_retries), backoff: j.retry_policy.backoff, delay: text(j.retry_policy.initial_delay_ms), maxDelay: text(j.retry_policy.max_delay_ms),
    overlap: j.overlap, catchUp: j.catch_up, catchUpLimit: text(j.catch_up_limit), priority: text(j.priority), queue: j.queue, labels: j.labels.join(", "),
    maxConcurrent: text(j.max_concurrent), concurrencyKey: text(j.concurrency_key), rateCount: text(j.rate_limit?.count), ratePer: text(j.rate_limit?.per), rateBurst: burstOf(j.rate_limit), uniqueKey: text(j.unique_key), expires: text(j.expires_after), redrive: text(j.auto_redrive_after), keepDays: text(j.retention?.days), keepFailed: j.retention && j.retention.failed_days !== j.retention.days ? text(j.retention.failed_days) : "",
  };
}

const redacted = "[redacted]"; // what the server shows of a credential

/** copyOf is the form of a new job like another. Credentials are not told, so they are not copied. */
export function copyOf(j: Job): Form {
  const f = fromJob(j);
  const open = (p: [string, string][]) => p.map(([k, v]): [string, string] => [k, v === redacted ? "" : v]);
  return { ...f, key: "", name: j.name + " (copy)", headers: open(f.headers), env: open(f.env) };
}

/** droppedOf says which hidden credentials a change removed. */
export const droppedOf = (j: Job) => (j.dropped_credentials?.length ? `. Credentials removed, because the job now goes elsewhere: ${j.dropped_credentials.join(", ")}` : "");

const filled = (list: string[]) => (list.some((s) => s.trim()) ? list.map((s) => s.trim()).filter(Boolean) : undefined);
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
    name: f.name.trim(), key: some(f.key), description: some(f.description), tags: filled(f.tags), owner: some(f.owner), runbook: some(f.runbook),
    schedule: clean({
      type: f.type,
      scheduled_time: f.type === "ONE_TIME" ? some(f.at) : undefined,
      cron_expression: f.type === "CRON" ? f.cron.trim() : undefined,
      timezone: f.type === "CRON" ? some(f.timezone) : f.type === "INTERVAL" ? some(f.everyZone) : undefined,
      day: f.type === "CRON" && f.day !== "vixie" ? f.day : undefined,
      every: f.type === "INTERVAL" ? f.every.trim() : undefined,
      jitter_ms: f.type !== "IMMEDIATE" && f.type !== "MANUAL" ? number(f.jitter) : undefined, start_at: recurs ? some(f.start) : undefined, end_at: recurs ? some(f.end) : undefined, max_runs: recurs ? number(f.maxRuns) : undefined, calendar: recurs ? some(f.calendar) : undefined,
    }),
    execution: clean({
      target: f.target,
      ...(f.target === "http"
        ? { callback_url: f.url.trim(), method: f.method === "POST" ? undefined : f.method, headers: record(f.headers), expect: any({ status: words(f.status).length ? words(f.status).map(number) : undefined, body_contains: f.contains || undefined }), follow_redirects: f.redirects || undefined }
        : f.target === "command"
          ? { command: f.command.length ? f.command : undefined, artifact_id: some(f.artifact), entrypoint: some(f.entrypoint), env: record(f.env) }
          : f.target === "worker"
            ? { kind: f.kind.trim() }
            : { work_kind: f.work, duration_ms: number(f.workMs), fail_attempts: number(f.failAttempts) }),
      payload: f.payload.trim() === "" ? undefined : parse(f.payload),
      timeout_seconds: number(f.timeout), stall_timeout_seconds: number(f.stall), total_timeout_seconds: number(f.total),
    }),
    retry_policy: any({ max_retries: number(f.retries), backoff: some(f.backoff), initial_delay_ms: number(f.delay), max_delay_ms: number(f.maxDelay) }),
    overlap: f.overlap === "allow" ? undefined : f.overlap, catch_up: f.catchUp === "latest" ? undefined : f.catchUp, catch_up_limit: number(f.catchUpLimit),
    priority: number(f.priority), queue: some(f.queue), labels: words(f.labels).length ? words(f.labels) : undefined, max_concurrent: number(f.maxConcurrent), concurrency_key: some(f.concurrencyKey),
    rate_limit: f.rateCount.trim() ? clean({ count: number(f.rateCount), per: some(f.ratePer) ?? "1s", burst: number(f.rateBurst) }) : undefined, unique_key: some(f.uniqueKey), expires_after: some(f.expires), auto_redrive_after: some(f.redrive),
    retention: any({ days: number(f.keepDays), failed_days: number(f.keepFailed) }),
  });
}

// What is not said is left out. An empty object is something that was said: a payload may be one.
const clean = (o: Request): Request => Object.fromEntries(Object.entries(o).filter(([, v]) => v !== undefined));
const any = (o: Request): Request | undefined => (Object.values(o).some((v) => v !== undefined) ? clean(o) : undefined);

// The objects that the server merges member by member; payload, headers and env it takes whole.
const merged = new Set(["schedule", "execution", "retry_policy", "expect", "rate_limit", "retention"]);

/** changes is what PATCH takes to get from one request to another: what differs, null for what is no longer said. */
export function changes(before: Request, after: Request): Request {
  const out: Request = {};
  for (const k of new Set([...Object.keys(before), ...Object.keys(after)])) {
    if (k === "key" || stringify(before[k]) === stringify(after[k])) continue;
    const a = after[k];
    out[k] = a !== undefined && merged.has(k) ? members(k, (before[k] ?? {}) as Request, a as Request) : (a ?? null);
  }
  return out;
}

function members(of: string, b: Request, a: Request): Request {
  // With another type or target all is said anew: the server keeps what the two have in common.
  if (b["type"] !== a["type"] || b["target"] !== a["target"]) return { ...Object.fromEntries(Object.keys(b).map((k) => [k, null])), ...a };
  const out = changes(b, a);
  // Another rate has another burst, unless one is said.
  if (of === "rate_limit" && a["burst"] === undefined) out["burst"] = null;
  return out;
}
