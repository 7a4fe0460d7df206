// What travels for workflows, and what follows from it: when nodes could have started, how a node is told in a few words.

import type { Json, JobSchedule, JobTarget, Pagination } from "../../api";
import { count, duration } from "../../ui";

export type Box = { key: string; x: number; y: number; w: number; h: number; layer: number; kind?: string; text?: string; marks?: string[]; finally?: boolean };
export type Edge = { from: string; to: string; points: [number, number][] };
export type Layout = { width: number; height: number; direction: "right" | "down"; nodes: Box[]; edges: Edge[]; finally?: { x: number; y: number; w: number; h: number } };
export type NodeDef = { key: string; job_id?: string; execution?: Partial<JobTarget>; depends_on?: string[]; trigger?: string; if?: string; map?: Json; finally?: boolean; timeout?: string; max_parallel?: number; tolerate?: Json; wait?: { approval?: { roles?: string[]; min?: number; schema?: Json }; timer?: string; event?: string } };
export type WorkflowOf = { workflow_id: string; key: string | null; name: string; description?: string; version: number; revision: number; status?: string; schedule?: JobSchedule | null; nodes?: NodeDef[]; input_schema?: Schema | null; tags?: string[] };
export type Version = { version: number; created_at: string; created_by?: string | null; nodes?: NodeDef[] | number };
export type MapCounts = { total: number; succeeded: number; failed: number; running: number; skipped?: number };
export type RunNode = { key: string; status: string; reason?: string | null; error?: Failed | null; execution_id?: string | null; started_at?: string | null; finished_at?: string | null; map?: MapCounts | null; wait?: Wait | null };
export type Failed = { type: string; message: string };
export type Wait = { kind?: string; until?: string | null; roles?: string[]; min?: number; votes?: { approved: boolean; by: string; at: string; comment?: string }[]; event?: string; schema?: Schema | null };
export type RunOf = {
  workflow_run_id: string; workflow_id: string; workflow_name?: string; execution_id?: string; status: string; attempt: number; version: number; input?: Json; output?: Json; nodes?: RunNode[]; critical_path?: string[] | null;
  scheduled_time?: string | null; started_at?: string | null; finished_at?: string | null; error?: Failed | null;
};
export type Runs = { workflow_runs: RunOf[]; pagination: Pagination };
export type Item = { index: number; status: string; execution_id?: string | null; error?: Failed | null };
export type Approval = { workflow_run_id: string; workflow_id: string; workflow_name?: string; node: string; since?: string | null; until?: string | null; roles?: string[]; min?: number; approved?: number; schema?: Schema | null };
export type Change = { node: string; from: string | null; to: string | null; items?: number };

/** Schema is as much of JSON Schema as a form is made of. */
export type Schema = { type?: string; title?: string; description?: string; required?: string[]; properties?: Record<string, Schema>; enum?: Json[]; default?: Json };

export const ended = (status: string) => ["SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED", "EXPIRED", "NOT_RUN"].includes(status);
export const broken = (status: string) => ["FAILED", "TIMED_OUT", "EXPIRED", "CANCELLED"].includes(status);

export const runPath = (id: string) => "/workflow-runs/" + encodeURIComponent(id);
export const began = (r: RunOf) => r.started_at ?? r.scheduled_time ?? null;

export type Span = { node: RunNode; box: Box; ready: number; start: number; end: number; open: boolean };

/** spans are the nodes that have started, the earliest first. A node was ready when the last of its parents had ended. */
export function spans(r: RunOf, layout: Layout, now: number): { spans: Span[]; from: number; to: number } {
  const byKey = new Map((r.nodes ?? []).map((n) => [n.key, n]));
  const at = (t: string | null | undefined) => (t ? Date.parse(t) : undefined);
  const started = (r.nodes ?? []).flatMap((n) => at(n.started_at) ?? []);
  const from = at(began(r)) ?? Math.min(...started, now);
  const ready = new Map<string, number>();
  for (const e of layout.edges) ready.set(e.to, Math.max(ready.get(e.to) ?? from, at(byKey.get(e.from)?.finished_at) ?? from));
  const others = Math.max(from, ...layout.nodes.flatMap((b) => (b.finally ? [] : (at(byKey.get(b.key)?.finished_at) ?? []))));
  const out = layout.nodes.flatMap((box) => {
    const node = byKey.get(box.key);
    const start = at(node?.started_at);
    if (!node || start === undefined) return [];
    const end = at(node.finished_at);
    return [{ node, box, ready: Math.min(ready.get(box.key) ?? (box.finally ? others : from), start), start, end: Math.max(end ?? now, start), open: end === undefined }];
  });
  out.sort((a, b) => a.start - b.start);
  return { spans: out, from: Math.min(from, ...out.map((s) => s.ready)), to: Math.max(from + 1, at(r.finished_at) ?? 0, ...out.map((s) => s.end)) };
}

/** mayDecide says whether a role may approve or reject what names these roles. Until the role is known it says yes: the server decides in any case. */
export const mayDecide = (role: string | undefined, roles: string[] | undefined) => role === undefined || role === "admin" || role === "system" || (roles?.length ? roles.includes(role) : role === "operator");

/** progress is how far a map has come. */
export const progress = (m: MapCounts) => `${count(m.succeeded + m.failed + (m.skipped ?? 0))} of ${count(m.total)}${m.failed > 0 ? `, ${count(m.failed)} failed` : ""}`;

/** saying is a few words below a node's key in a run. */
export function saying(n: RunNode, box: Box, now: number): string {
  if (n.map) return progress(n.map);
  if (!n.started_at) return box.text ?? "";
  return (n.wait && !n.finished_at ? "waits " : "") + duration(Math.max(0, (n.finished_at ? Date.parse(n.finished_at) : now) - Date.parse(n.started_at)));
}
