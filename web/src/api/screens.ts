// What the endpoints that are made for screens tell: overview, series, failures, calendars, runs and revisions.

import type { ExecutionStatus, Pagination, Schedule } from "./types";

export type SeriesTotal = {
  started: number; succeeded: number; failed: number; timed_out: number; cancelled: number; retried: number; dead: number; skipped: number; fired: number;
  within_1s: number; within_5s: number; average_wait_seconds: number; max_wait_seconds: number; max_delay_seconds: number; success_rate: number | null;
};
export type SeriesPoint = Omit<SeriesTotal, "success_rate"> & { at: string };
export type Series = { from: string; to: string; step_seconds: number; points: SeriesPoint[]; total: SeriesTotal };
export type DelayTotal = { fired: number; within_1s: number; within_5s: number; p50_seconds: number | null; p95_seconds?: number | null; p99_seconds: number | null; max_seconds: number | null };
export type DelaySeries = {
  from: string; to: string; step_seconds: number; bounds_seconds: number[];
  columns: { at: string; fired: number; within_1s: number; within_5s: number; max_seconds: number; counts: number[] }[]; total: DelayTotal;
};
export type QueueSeries = {
  from: string; to: string; step_seconds: number; queues: string[];
  columns: { at: string; waiting: number; running: number; oldest_seconds: number | null; queues: { queue: string; waiting: number; running: number; oldest_seconds: number | null }[] }[];
};
export type FailureGroup = {
  fingerprint: string; type: string; message: string; sample_message: string; failed: number; retried: number; first_seen: string; last_seen: string;
  sample_execution_id: string; sample_job_id: string; jobs: { job_id: string; name: string; failed: number; retried: number }[]; jobs_total: number; text: string | null;
};
export type Failures = { from: string; to: string; failed: number; retried: number; partial: boolean; groups: FailureGroup[] };
export type Overview = {
  sentence: string; health: "ok" | "warning" | "critical"; findings: { about: string; health: "ok" | "warning" | "critical"; text: string }[]; schedules: number; schedules_is_estimate?: boolean; paused: number; late_jobs: number; late_jobs_is_minimum?: boolean;
  late: { job_id: string; name: string; next_run_at: string; late_seconds: number }[];
  delay: DelayTotal; failing_jobs: number; failing_is_minimum?: boolean;
  failing: { job_id: string; name: string; last_status: ExecutionStatus; failed_24h: number; last_failed_at: string; type: string; message: string; last_execution_id: string | null }[];
  running: number; queued: number; oldest_queued_seconds: number | null; dead_letters: number; dead_letters_is_estimate?: boolean; workers: number; last_hour: SeriesTotal;
};
export type CalendarDay = { date: string; succeeded: number; failed: number; timed_out: number; cancelled: number; skipped: number; late: number };
export type JobCalendar = { job_id: string; from: string; to: string; total: Omit<CalendarDay, "date">; days: CalendarDay[] };
export type JobRun = { execution_id: string; status: ExecutionStatus; scheduled_time: string; started_at: string | null; duration_ms: number | null };
export type JobRuns = { jobs: { job_id: string; runs: JobRun[]; total_runs: number; success_rate: number | null; avg_duration_ms: number | null; p95_duration_ms: number | null; last_status: ExecutionStatus | null }[] };
export type Revision = {
  revision: number; at: string; by: string | null; role: string | null; action: string | null; current: boolean;
  changes: { field: string; before: unknown; after: unknown }[] | null; spec: Record<string, unknown> & { schedule?: Schedule }; status: string;
};
export type Revisions = { revisions: Revision[]; pagination: Pagination };
