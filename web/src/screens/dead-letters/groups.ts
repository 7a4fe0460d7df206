// Dead letters grouped by error, for servers that do not do it themselves: over the page that is shown.

import type { DeadLetter } from "../../api";

export type DeadGroup = {
  fingerprint: string; type: string; message: string; sample_message: string; count: number; first_seen: string; last_seen: string; sample_execution_id: string; sample_job_id: string;
  jobs: { job_id: string; name: string; count: number }[]; jobs_total: number; reasons: Record<string, number>; text: string | null; ids?: string[];
};
export type DeadGroups = { total: number; total_is_estimate?: boolean; looked_at: number; partial: boolean; oldest_at: string | null; groups: DeadGroup[] };

/** shape is a message without what differs each time: ids, addresses, numbers. */
export const shape = (message: string) =>
  message
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi, "<id>")
    .replace(/\bhttps?:\/\/[^\s"']+/g, "<addr>")
    .replace(/\b[0-9a-f]{12,}\b/gi, "<hex>")
    .replace(/\d+/g, "<n>");

/** textOf is the longest piece of a shape that is the same each time, to search for; null where there is none worth it. */
export const textOf = (message: string) => message.split(/<[a-z]+>/).map((p) => p.trim()).sort((a, b) => b.length - a.length).find((p) => p.length > 3) ?? null;

export const lastError = (d: DeadLetter) => d.errors[d.errors.length - 1]?.error ?? { type: d.reason, message: "" };

/** groupsOf groups the letters of a page, the most first. */
export function groupsOf(letters: DeadLetter[]): DeadGroup[] {
  const found = new Map<string, DeadGroup & { ids: string[] }>();
  for (const d of letters) {
    const e = lastError(d);
    const message = shape(e.message);
    const key = e.type + "\n" + message;
    let g = found.get(key);
    if (!g) {
      g = { fingerprint: key, type: e.type, message, sample_message: e.message, count: 0, first_seen: d.dead_lettered_at, last_seen: d.dead_lettered_at, sample_execution_id: d.execution_id, sample_job_id: d.job_id, jobs: [], jobs_total: 0, reasons: {}, text: textOf(message), ids: [] };
      found.set(key, g);
    }
    g.count++;
    g.ids.push(d.execution_id);
    if (d.dead_lettered_at < g.first_seen) g.first_seen = d.dead_lettered_at;
    if (d.dead_lettered_at > g.last_seen) g.last_seen = d.dead_lettered_at;
    g.reasons[d.reason] = (g.reasons[d.reason] ?? 0) + 1;
    const j = g.jobs.find((j) => j.job_id === d.job_id);
    if (j) j.count++;
    else g.jobs.push({ job_id: d.job_id, name: d.job_name, count: 1 });
    g.jobs_total = g.jobs.length;
  }
  return [...found.values()].sort((a, b) => b.count - a.count);
}
