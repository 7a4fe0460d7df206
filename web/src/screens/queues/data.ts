// What is known of queues: of the whole installation for the role system, of the tenant for everyone else.

import type { UseQueryResult } from "@tanstack/react-query";
import { useGet, type Limit, type Limits, type Page, type PausedQueue, type QueuesOf, type QueueStatus } from "../../api";
import type { Session } from "../../session";

export type Queue = { queue: string; waiting: number | null; running: number | null; slots: number | null; oldest: number | null; limit: Limit | undefined; pause: PausedQueue | null };

/** useSystem is whether the session may look at the whole installation; undefined while that is not known. */
export function useSystem(): boolean | undefined {
  const s = useGet<Session>("/session");
  if (s.data) return s.data.role === "system";
  return s.isError ? true : undefined; // no sign-in: everyone may
}

export type Queues = { rows: Queue[]; own: Limit | undefined; limits: Limit[]; status: QueueStatus | undefined; system: boolean | undefined; query: UseQueryResult<unknown, Error>; counted: boolean };

export function useQueues(): Queues {
  const system = useSystem();
  const status = useGet<QueueStatus>(system === true ? "/admin/queue/status" : undefined, { minutes: 1440 }, { every: 5000 });
  const own = useGet<QueuesOf>(system === false ? "/queues" : undefined, { limit: 1000 }, { every: 5000 });
  const limits = useGet<Limits>("/limits", { limit: 1000 }, { every: 10_000 });
  const known = limits.data?.limits ?? [];
  const rows = new Map<string, Queue>();
  const row = (queue: string) => {
    const limit = known.find((l) => l.queue === queue);
    const r = rows.get(queue) ?? { queue, waiting: null, running: null, slots: null, oldest: null, limit, pause: limit?.pause ?? null };
    rows.set(queue, r);
    return r;
  };
  row("default");
  for (const l of known) if (l.queue !== null) row(l.queue);
  // What the server does not name has neither work nor workers of its own.
  if (status.data) for (const r of rows.values()) Object.assign(r, { waiting: 0, running: 0 });
  for (const q of status.data?.queues ?? []) Object.assign(row(q.queue), { waiting: q.pending, running: q.in_progress, slots: q.slots, oldest: q.oldest_pending_seconds });
  for (const q of own.data?.queues ?? []) Object.assign(row(q.queue), { waiting: q.waiting, running: q.running, slots: q.slots, oldest: q.oldest_waiting_seconds });
  const query = system === false ? own : status;
  return {
    rows: [...rows.values()].sort((a, b) => (b.waiting ?? 0) - (a.waiting ?? 0) || a.queue.localeCompare(b.queue)),
    own: known.find((l) => l.queue === null),
    limits: known,
    status: status.data,
    system,
    query,
    counted: status.data !== undefined || own.data !== undefined,
  };
}

/** limitWords says a limit. */
export function limitWords(l: Limit | undefined): string {
  if (!l || (l.max_concurrent === null && l.rate_limit === null)) return "none";
  const out: string[] = [];
  if (l.max_concurrent !== null) out.push(`${l.max_concurrent.toLocaleString("en")} at once`);
  if (l.rate_limit) out.push(`${l.rate_limit.count.toLocaleString("en")} in ${l.rate_limit.per}`);
  return out.join(", ");
}

export type Holding = { state: string; word: string; why: string };

/** pauseWords says a pause. */
export function pauseWords(p: PausedQueue): string {
  const day = (t: string) => t.slice(0, 16).replace("T", " ") + " UTC";
  return `Paused since ${day(p.at)}${p.by ? " by " + p.by : ""}${p.until ? ", until " + day(p.until) : ""}${p.reason ? ": " + p.reason.replace(/\.$/, "") : ""}.`;
}

/** holding says what holds a queue back, if anything does. */
export function holding(q: Queue): Holding {
  if (q.pause) return { state: "PAUSED", word: "Paused", why: pauseWords(q.pause) };
  if (!q.waiting) return { state: "IDLE", word: q.running ? "Flowing" : "Empty", why: "Nothing waits." };
  if (q.limit?.max_concurrent && (q.running ?? 0) >= q.limit.max_concurrent) return { state: "PAUSED", word: "At its limit", why: `${q.limit.max_concurrent} are running, the maximum that its limit allows.` };
  if (q.slots === 0) return { state: "DEAD", word: "No worker", why: "No worker serves this queue." };
  if (q.slots !== null && (q.running ?? 0) >= q.slots) return { state: "BUSY", word: "Workers are full", why: `All ${q.slots} slots of its workers are taken.` };
  if (q.limit?.rate_limit) return { state: "PAUSED", word: "Rate limited", why: `At most ${q.limit.rate_limit.count} start per ${q.limit.rate_limit.per}.` };
  return { state: "RUNNING", word: "Flowing", why: "Workers are processing it." };
}

/** whole is a list that is all there: one page of it. */
export function whole<T>(rows: T[], query: UseQueryResult<unknown, Error>): Page<T> {
  const stay = () => {};
  return { rows, query, pagination: { limit: rows.length, total: rows.length, next_cursor: null }, first: true, next: undefined, back: stay, toFirst: stay };
}
