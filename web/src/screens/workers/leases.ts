// Worker activity, when: the leases of workers as far as executions tell of them.

import { serverNow, type Execution, type Worker } from "../../api";

export type Span = { from: number; to: number; status: string; id: string; name: string; lane: number };
export type Row = {
  id: string;
  name: string;
  /** null: of one that is listed no more, how many slots it had and how long it lived is not known. */
  capacity: number | null;
  gone: boolean;
  /** Since when it is known to live, and until when it was. */
  from: number;
  to: number;
  spans: Span[];
  lanes: number;
  busy: number; // ms of slots, within the window
  failed: number;
};

/** rowsOf sorts executions by the worker that ran their last attempt. Overlapping ones get a lane each. */
export function rowsOf(workers: Worker[], executions: Execution[], from: number, to: number): Row[] {
  const now = serverNow();
  const rows = new Map<string, Row>();
  for (const w of workers)
    rows.set(w.worker_id, { id: w.worker_id, name: w.host || w.worker_id, capacity: Math.max(1, w.capacity), gone: w.status === "DEAD", from: Date.parse(w.started_at), to: w.status === "DEAD" ? Date.parse(w.last_beat_at) : now, spans: [], lanes: 1, busy: 0, failed: 0 });
  for (const e of [...executions].sort((a, b) => (a.started_at ?? "").localeCompare(b.started_at ?? ""))) {
    if (!e.worker_id || !e.started_at) continue;
    const begun = Date.parse(e.started_at);
    const ended = e.finished_at ? Date.parse(e.finished_at) : now;
    if (ended < from || begun > to) continue;
    let r = rows.get(e.worker_id);
    if (r?.capacity === null) r.to = Math.max(r.to, ended);
    if (!r) {
      r = { id: e.worker_id, name: e.worker_id.slice(0, 8) + "… (gone)", capacity: null, gone: true, from: begun, to: ended, spans: [], lanes: 1, busy: 0, failed: 0 };
      rows.set(e.worker_id, r);
    }
    const ends: number[] = [];
    for (const s of r.spans) ends[s.lane] = Math.max(ends[s.lane] ?? 0, s.to);
    let lane = ends.findIndex((t) => (t ?? 0) <= begun);
    if (lane < 0) lane = ends.length;
    r.spans.push({ from: begun, to: ended, status: e.status, id: e.execution_id, name: e.job_name, lane });
    r.lanes = Math.max(r.lanes, lane + 1);
    r.busy += Math.max(0, Math.min(ended, to) - Math.max(begun, from));
    if (e.status === "FAILED" || e.status === "TIMED_OUT") r.failed++;
  }
  return [...rows.values()].filter((r) => r.spans.length > 0 || r.to >= from);
}

/** merged is all of several lists; what is in two of them is as the later one has it. */
export function merged(...lists: Execution[][]): Execution[] {
  const all = new Map<string, Execution>();
  for (const e of lists.flat()) all.set(e.execution_id, e);
  return [...all.values()];
}

/** share is how much of its slots a worker used while it lived within the window; null where its slots are not known. */
export function share(r: Row, from: number, to: number): number | null {
  if (r.capacity === null) return null;
  const lived = Math.max(1, Math.min(r.to, to) - Math.max(r.from, from));
  return Math.min(1, r.busy / (lived * r.capacity));
}
