// The story of an execution as spans and marks on one line of time: what it waited for, who had it, how each attempt
// ended, and which results came too late to count.

import type { Event, Execution, ExecutionAttempt, Report } from "../../api";
import { duration } from "../../ui";

export type Span = { kind: "delay" | "queue" | "between" | "planned" | "run"; from: number; to: number; name: string; outcome?: string };
export type Mark = { at: number; kind: "due" | "queued" | "started" | "refused" | "beat" | "released" | "snoozed" | "parked" | "cancel_requested" | "forced" | "next"; name: string; detail?: string };
export type Row = { label: string; attempt?: ExecutionAttempt; spans: Span[]; marks: Mark[] };
export type Story = { rows: Row[]; from: number; to: number; summary: string; refused: number };

const t = (s: string | null | undefined) => (s ? Date.parse(s) : NaN);
const live = ["WAITING", "PENDING", "RUNNING", "RETRYING", "CANCELLING"];

/** isFinal reports whether an execution has ended. */
export const isFinal = (status: string) => !live.includes(status);

const markWords: Record<string, string> = {
  result_refused: "a stale result was refused",
  released: "handed back by its worker",
  snoozed: "snoozed by its worker",
  parked: "answered 202: its target completes it later",
  cancel_requested: "asked to stop",
  forced: "ended by force",
};

/** tokenText is a fencing token as it was sent: it may be more than a double holds. */
export const tokenText = (token: unknown) => (typeof token === "object" && token !== null && "rawJSON" in token ? String((token as { rawJSON: unknown }).rawJSON) : String(token));

/** storyOf puts together what the API tells of an execution; beat is when its worker was last heard of. */
export function storyOf(e: Execution, r: Report, events: Event[], now: number, beat?: number): Story {
  const alive = live.includes(e.status);
  const scheduled = t(e.scheduled_time);
  const created = Math.max(scheduled, t(events.find((x) => x.type === "created")?.at) || scheduled);
  const fired = Math.max(created, scheduled + e.trigger_delay_ms);
  const end = t(e.finished_at) || now;
  const first: Row = { label: "Fired", spans: [], marks: [{ at: scheduled, kind: "due", name: "due" }] };
  if (fired > scheduled) first.spans.push({ kind: "delay", from: scheduled, to: fired, name: `fired ${duration(fired - scheduled)} after it was due` });
  first.marks.push({ at: fired, kind: "queued", name: "queued" });
  const start = t(r.attempts[0]?.started_at);
  const queued = Number.isNaN(start) ? (e.started_at ? t(e.started_at) : end) : start;
  const waits = e.status === "WAITING" ? "waits for others" : alive && Number.isNaN(start) ? "waits for a worker" : "in the queue";
  if (queued > fired) first.spans.push({ kind: "queue", from: fired, to: queued, name: `${duration(queued - fired)} ${waits}` });
  const rows: Row[] = [first];
  const used = new Set<Event>();
  r.attempts.forEach((a, i) => {
    const row: Row = { label: "Attempt " + a.attempt_number, attempt: a, spans: [], marks: [] };
    const from = t(a.started_at);
    const to = Math.max(from, t(a.finished_at) || end);
    const prev = r.attempts[i - 1];
    if (prev) {
      const gap = t(prev.finished_at);
      if (from > gap) row.spans.push({ kind: "between", from: gap, to: from, name: `${duration(from - gap)} until the next attempt` });
    }
    row.spans.push({ kind: "run", from, to, name: `${a.status === "RUNNING" ? "running for" : a.status === "PARKED" ? "waiting for its target for" : outcomeWord(a.status) + " after"} ${duration(to - from)}`, outcome: a.status });
    row.marks.push({ at: from, kind: "started", name: "leased and started" });
    for (const x of events) {
      const name = markWords[x.type];
      if (!name || used.has(x) || x.fencing_token === null || tokenText(x.fencing_token) !== tokenText(a.fencing_token)) continue;
      used.add(x);
      row.marks.push({ at: t(x.at), kind: (x.type === "result_refused" ? "refused" : x.type) as Mark["kind"], name, ...(x.detail ? { detail: x.detail } : {}) });
    }
    if (a.status === "RUNNING" && beat !== undefined && beat >= from) row.marks.push({ at: Math.min(beat, now), kind: "beat", name: "last heartbeat" });
    rows.push(row);
  });
  // What names no attempt that is told, such as one that was handed back, stands with the last one before it.
  for (const x of events) {
    const name = markWords[x.type];
    if (!name || used.has(x)) continue;
    const at = t(x.at);
    const row = [...rows].reverse().find((r) => r.spans.some((s) => s.from <= at)) ?? first;
    row.marks.push({ at, kind: (x.type === "result_refused" ? "refused" : x.type) as Mark["kind"], name, ...(x.detail ? { detail: x.detail } : {}) });
  }
  let to = Math.max(end, ...rows.flatMap((r) => [...r.spans.map((s) => s.to), ...r.marks.map((m) => m.at)]));
  const due = t(e.due_at);
  const lastEnd = t(r.attempts[r.attempts.length - 1]?.finished_at);
  if (e.status === "RETRYING" && due > 0) {
    const base = Number.isNaN(lastEnd) ? now : lastEnd;
    const until = Math.max(due, now);
    rows.push({ label: "Next try", spans: [{ kind: "planned", from: base, to: until, name: due > now ? `next try in ${duration(due - now)}` : "due, waiting for a worker" }], marks: [{ at: due, kind: "next", name: "next try" }] });
    to = Math.max(to, until);
  }
  const refused = rows.reduce((n, r) => n + r.marks.filter((m) => m.kind === "refused").length, 0);
  const begin = Math.min(scheduled, ...rows.flatMap((r) => r.spans.map((s) => s.from)));
  return { rows, from: begin, to: Math.max(to, begin + 1), summary: sentence(e, r, refused, fired - scheduled, queued - fired), refused };
}

const outcomeWord = (o: string) => ({ SUCCEEDED: "succeeded", FAILED: "failed", TIMED_OUT: "timed out", CANCELLED: "cancelled", LOST: "lost" })[o] ?? o.toLowerCase();

function sentence(e: Execution, r: Report, refused: number, delay: number, wait: number): string {
  const parts = [`Fired ${delay <= 0 ? "on time" : duration(delay) + " after it was due"}`];
  parts.push(r.attempts.length === 0 ? `waited ${duration(Math.max(0, wait))}` : `waited ${duration(Math.max(0, wait))} to start`);
  if (r.attempts.length === 1) parts.push(`ran ${duration(r.running_ms)}`);
  else if (r.attempts.length > 1) parts.push(`ran ${duration(r.running_ms)} in ${r.attempts.length} attempts with ${duration(r.between_attempts_ms)} between them`);
  if (e.lost_attempts > 0) parts.push(`${e.lost_attempts} ${e.lost_attempts === 1 ? "attempt was" : "attempts were"} lost with ${e.lost_attempts === 1 ? "its worker" : "their workers"}`);
  if (refused > 0) parts.push(`${refused} stale ${refused === 1 ? "result was" : "results were"} refused`);
  return parts.join(", ") + ".";
}

/** scaleOf spreads the instants over a width. Where the shortest part would vanish beside the longest, parts are drawn closer in size than they are; even says that they are not. */
export function scaleOf(story: Story, width: number): { x: (at: number) => number; even: boolean } {
  const all = [...new Set(story.rows.flatMap((r) => [...r.spans.flatMap((s) => [s.from, s.to])]).concat(story.from, story.to))].sort((a, b) => a - b);
  const parts = all.slice(1).map((b, i) => b - (all[i] ?? b));
  const total = story.to - story.from;
  const even = !parts.some((p) => p > 0 && (p / total) * width < 8);
  const weight = (d: number) => (even ? d : Math.pow(d, 0.35) + 1);
  const sum = parts.reduce((n, p) => n + weight(p), 0) || 1;
  const at: number[] = [0];
  for (const p of parts) at.push((at[at.length - 1] ?? 0) + (weight(p) / sum) * width);
  return {
    even,
    x: (instant) => {
      let i = all.findIndex((a) => a >= instant);
      if (i < 0) i = all.length - 1;
      if (i === 0) return 0;
      const a = all[i - 1] ?? 0;
      const b = all[i] ?? 1;
      const share = b > a ? Math.min(1, Math.max(0, (instant - a) / (b - a))) : 0;
      return (at[i - 1] ?? 0) + share * ((at[i] ?? 0) - (at[i - 1] ?? 0));
    },
  };
}
