// The filter of executions: its keys, and how it becomes parameters of the API and flags of the command line.

import { useRef } from "react";
import { executionStatuses, get, triggers, type Jobs, type Workers } from "../../api";
import { useParam } from "../../router";
import { useFilter, useNow, type FilterKey } from "../../ui";

const lower = (v: string) => v.toLowerCase();

async function jobNames(typed: string): Promise<string[]> {
  return [...new Set((await get<Jobs>("/jobs", { q: typed, limit: 12 })).jobs.map((j) => j.name))];
}

async function tagNames(): Promise<string[]> {
  return [...new Set((await get<Jobs>("/jobs", { limit: 200 })).jobs.flatMap((j) => j.tags))].sort();
}

const spans = ["-15m", "-1h", "-6h", "-24h", "-7d", "-30d"];

export const executionKeys: FilterKey[] = [
  { key: "status", param: "status", hint: "one or more, separated by commas", values: executionStatuses.map(lower), write: (v) => v.toUpperCase() },
  { key: "job", param: "job", hint: "the name, id or key:… of a job", values: jobNames },
  { key: "tag", param: "tag", hint: "of jobs with this tag", values: tagNames },
  { key: "trigger", param: "trigger", hint: "what caused it", values: triggers, write: lower },
  { key: "worker", param: "worker_id", hint: "held by this worker now or last", values: async () => (await get<Workers>("/workers", { limit: 100 })).workers.map((w) => w.worker_id) },
  { key: "from", param: "from", hint: "scheduled at or after: -1h, a date or a time", values: spans },
  { key: "to", param: "to", hint: "scheduled before: -1h, a date or a time", values: spans },
];

export const isUuid = (s: string) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(s);

const units: Record<string, number> = { s: 1000, m: 60_000, min: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** instantOf reads -1h and the like as an instant before now; what is none of them is left to the server to judge. */
export function instantOf(text: string, now: number): string {
  const m = /^-(\d{1,6})(s|m|min|h|d|w)$/.exec(text);
  return m ? new Date(now - Number(m[1]) * (units[m[2] ?? "s"] ?? 0)).toISOString() : text;
}

export type ExecutionParams = Record<string, string>;

/** useExecutionFilter is the filter in the address. Spans such as -1h follow the clock, by the minute. */
export function useExecutionFilter() {
  const f = useFilter(executionKeys);
  const minute = Math.floor(useNow() / 60_000) * 60_000;
  const [cursor] = useParam("cursor");
  const { job, from, to, ...rest } = f.params;
  const params: ExecutionParams = { ...rest };
  if (job) params[isUuid(job) || job.startsWith("key:") ? "job_id" : "job_name"] = job;
  const begun = useRef(minute);
  if (!cursor) begun.current = minute; // while pages are turned the list stays the one that was begun
  const now = begun.current;
  if (from) params["start_date"] = instantOf(from, now);
  if (to) params["end_date"] = instantOf(to, now);
  return { ...f, params, raw: f.params };
}

const ended = ["SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED", "EXPIRED"];

/** fitting is the filter with only the statuses that fit an action; undefined where none does. Without a status the server chooses. */
export function fitting(params: ExecutionParams, action: "retry" | "cancel"): ExecutionParams | undefined {
  const status = params["status"];
  if (!status) return params;
  const left = status.split(",").filter((s) => s && ended.includes(s) === (action === "retry"));
  return left.length ? { ...params, status: left.join(",") } : undefined;
}

const shell = (s: string) => (/^[\w@%+=:,./-]+$/.test(s) ? s : "'" + s.replaceAll("'", "'\\''") + "'");

/** flagsOf is the filter as flags of the command line. */
export function flagsOf(raw: Record<string, string>): string {
  const flags: [string, string][] = [["status", "--status"], ["job", "--job"], ["tag", "--tag"], ["trigger", "--trigger"], ["worker_id", "--worker"], ["from", "--from"], ["to", "--to"], ["q", "--query"]];
  return flags.flatMap(([k, flag]) => (raw[k] ? [`${flag} ${shell(raw[k])}`] : [])).join(" ");
}

/** tally counts what is the same, the most first. */
export function tally(rows: string[]): [string, number][] {
  const n = new Map<string, number>();
  for (const r of rows) n.set(r, (n.get(r) ?? 0) + 1);
  return [...n].sort((a, b) => b[1] - a[1]);
}
