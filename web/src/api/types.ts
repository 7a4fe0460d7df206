// What travels, as the Go package client has it. Times are RFC 3339 in UTC, ids are strings.

export type Pagination = { limit: number; total: number; total_is_estimate?: boolean; next_cursor: string | null; partial?: boolean };
export type Json = unknown;

export type ScheduleType = "IMMEDIATE" | "ONE_TIME" | "CRON" | "INTERVAL" | "MANUAL";
export type JobStatus = "ACTIVE" | "PAUSED" | "COMPLETED" | "DELETED";
export type ExecutionStatus = "WAITING" | "PENDING" | "RUNNING" | "RETRYING" | "CANCELLING" | "SUCCEEDED" | "FAILED" | "TIMED_OUT" | "CANCELLED" | "SKIPPED" | "EXPIRED";
export const executionStatuses: ExecutionStatus[] = ["WAITING", "PENDING", "RUNNING", "RETRYING", "CANCELLING", "SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED", "EXPIRED"];
export const finalStatuses: ExecutionStatus[] = ["SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED", "EXPIRED"];
export const triggers = ["api", "schedule", "manual", "catch_up", "backfill", "retry", "redrive", "workflow"];
export const jobStatuses: JobStatus[] = ["ACTIVE", "PAUSED", "COMPLETED", "DELETED"];
export const scheduleTypes: ScheduleType[] = ["IMMEDIATE", "ONE_TIME", "CRON", "INTERVAL", "MANUAL"];

export type Schedule = {
  type: ScheduleType; scheduled_time?: string; cron_expression?: string; timezone?: string; day?: "vixie" | "or" | "and"; every?: string;
  jitter_ms?: number; start_at?: string; end_at?: string; max_runs?: number; calendar?: string;
};
export type JobSchedule = Schedule & { description?: string; next_run_at: string | null; last_run_at: string | null };
export type Expect = { status?: number[]; body_contains?: string | null };
export type TargetKind = "http" | "command" | "worker" | "simulate" | "workflow";
export type JobTarget = {
  target: TargetKind; callback_url?: string; method?: string; headers: Record<string, string>; payload: Json; timeout_seconds: number;
  stall_timeout_seconds: number | null; total_timeout_seconds: number | null; expect: Expect | null; follow_redirects: boolean;
  command?: string[]; artifact_id?: string; entrypoint?: string; env?: Record<string, string>; kind?: string; work_kind?: string; duration_ms?: number; fail_attempts?: number;
};
export type RetryPolicy = { max_retries: number; backoff: "FIXED" | "LINEAR" | "EXPONENTIAL"; initial_delay_ms: number; max_delay_ms: number };
export type RateLimit = { count: number; per: string; burst?: number };
export type Stats = { total_runs: number; success_rate: number; avg_duration_ms: number; p95_duration_ms: number; last_status: ExecutionStatus | null };
export type Job = {
  job_id: string; execution_id?: string; key: string | null; name: string; description: string; status: JobStatus; schedule: JobSchedule; execution: JobTarget;
  retry_policy: RetryPolicy; priority: number; tags: string[]; owner: string | null; runbook: string | null; stats: Stats;
  overlap: string; catch_up: string; catch_up_limit: number; labels: string[]; queue: string;
  max_concurrent: number | null; concurrency_key: string | null; rate_limit: RateLimit | null; unique_key: string | null; expires_after: string | null; auto_redrive_after: string | null; retention: { days: number; failed_days: number } | null;
  depends_on?: string[]; pause_reason?: string; paused_until?: string; dropped_credentials?: string[]; created_at: string; updated_at: string; revision: number;
};
export type Dependency = { job_id: string; key: string | null; name: string; execution_id: string | null; ended_at: string | null };
export type Dependencies = {
  job_id: string; key: string | null; name: string; revision: number; condition: "success" | "failure" | "always" | null; depends_on: Dependency[]; dependants: { job_id: string; name: string }[];
};
export type Jobs = { jobs: Job[]; pagination: Pagination };
export type Triggered = { execution_id: string; job_id: string; status: ExecutionStatus; scheduled_time: string };

export type ExecutionError = { type: string; message: string; http_status?: number };
export type Progress = { percent: number; message: string };
export type Execution = {
  execution_id: string; job_id: string; job_name: string; status: ExecutionStatus; trigger: string; scheduled_time: string; due_at: string; started_at: string | null;
  finished_at: string | null; duration_ms: number | null; trigger_delay_ms: number; attempt_number: number; max_attempts: number; lost_attempts: number;
  metadata: Record<string, string> | null; worker_id: string | null; priority: number; idempotency_key: string;
  callback_response: { http_status: number; body_preview: string } | null; result: Json; error: ExecutionError | null; progress: Progress | null; retry_of: string | null;
};
export type Executions = { executions: Execution[]; pagination: Pagination };
export type AttemptStatus = "RUNNING" | "PARKED" | "SUCCEEDED" | "FAILED" | "TIMED_OUT" | "CANCELLED" | "LOST";
export type ExecutionAttempt = {
  attempt_number: number; fencing_token: number; worker_id: string | null; status: AttemptStatus; started_at: string; finished_at: string | null; duration_ms: number; error: ExecutionError | null;
};
export type DeadLetter = {
  execution_id: string; job_id: string; job_name: string; status: "FAILED" | "TIMED_OUT"; reason: "ATTEMPTS_EXHAUSTED" | "NOT_RETRYABLE" | "POISON";
  dead_lettered_at: string; total_attempts: number; errors: ExecutionAttempt[];
};
export type DeadLetters = { dead_letters: DeadLetter[]; pagination: Pagination };
export type Event = { at: string; type: string; attempt: number | null; fencing_token: number | null; worker_id: string | null; detail?: string };
export type Events = { events: Event[]; pagination: Pagination };
export type Report = {
  execution_id: string; job_id: string; job_name: string; status: ExecutionStatus; trigger: string; scheduled_time: string; started_at: string | null; finished_at: string | null;
  trigger_delay_ms: number; queue_wait_ms: number; running_ms: number; between_attempts_ms: number; total_ms: number; lost_attempts: number; max_attempts: number;
  attempts: ExecutionAttempt[]; errors: ExecutionError[]; callback_response: { http_status: number; body_preview: string } | null; result: Json;
};
export type Explanation = {
  execution_id: string; job_id: string; status: ExecutionStatus; code: string; summary: string; since: string | null; estimated_start: string | null;
  details: {
    until?: string; attempt: number; max_attempts: number; error?: ExecutionError; exit_code?: number; reason?: string; worker_id?: string; progress?: Progress;
    needs?: { target: string; kind?: string; queue: string; labels: string[] }; lacks?: string[]; workflow_run_id?: string; node?: string; item?: number; workers?: number; matching_workers?: number; slots?: number; busy_slots?: number;
    limit?: { scope: string; queue?: string; concurrency_key?: string; max_concurrent?: number; current?: number; rate_limit?: RateLimit }; ahead?: number; ahead_is_minimum?: boolean;
  };
};
export type LoggedLine = { id: string; attempt: number; line: number; at: string; stream: "stdout" | "stderr" | "log" | "system"; text: string };
export type Log = { lines: LoggedLine[]; pagination: Pagination };

export type Begun = { operation_id?: string; count: number; count_is_estimate?: boolean; count_is_minimum?: boolean };
export type BulkBegun = Begun & { sample?: { job_id: string; name: string; status: string }[] };
export type Operation = {
  operation_id: string; kind: string; state: "RUNNING" | "SUCCEEDED" | "FAILED" | "CANCELLED"; total: number; done: number; passed: number; rate_per_s: number | null;
  created_by: string; created_at: string; updated_at: string; finished_at: string | null; error: string | null;
};
export type Operations = { operations: Operation[]; pagination: Pagination };

export type PreviewMoment = { utc: string; local: string; flag: "gap" | "first-of-two" | "second-of-two" | "excluded" | null };
export type Preview = { description: string; warnings: { code: string; field?: string; message: string }[]; next: PreviewMoment[] };
export type Occurrence = { scheduled_time: string; outcome: "ran" | "waiting" | "caught_up" | "backfilled" | "skipped" | "missed" | "excluded" | "paused" | "planned"; reason: string | null; execution_id: string | null; status: ExecutionStatus | null };
export type Occurrences = { occurrences: Occurrence[]; pagination: Pagination };
export type Herd = { at: string; count: number; jobs: { job_id: string; name: string; count: number }[] };
export type Forecast = { minutes: { at: string; count: number }[]; herds: Herd[]; truncated: boolean };
export type Calendar = { name: string; dates: string[]; yearly: string[]; weekdays: string[]; windows: { from: string; to: string }[]; timezone: string | null; updated_at: string };

export type Worker = {
  worker_id: string; host: string; version: string; labels: string[]; queues: string[]; targets: string[]; kinds: string[]; capacity: number; running: number;
  status: "ACTIVE" | "IDLE" | "BUSY" | "DRAINING" | "CORDONED" | "DEAD"; completed: number; failed: number; started_at: string; last_beat_at: string;
  /** Left out where they are unknown. */
  memory_used_bytes?: number; memory_limit_bytes?: number;
};
export type Workers = { workers: Worker[]; pagination: Pagination };
export type QueueDepth = { queue: string; pending: number; paused: number; in_progress: number; slots: number; oldest_pending_seconds: number | null };
export type QueueMinute = {
  at: string; started: number; completed: number; failed: number; retried: number; average_wait_seconds: number; max_wait_seconds: number;
  average_trigger_delay_seconds: number; max_trigger_delay_seconds: number;
};
export type QueueStatus = {
  pending: number; paused: number; in_progress: number; completed_24h: number; failed_24h: number; retried_24h: number; active_workers: number; draining_workers: number;
  slots: number; average_wait_seconds: number; average_wait_seconds_5m: number; max_wait_seconds: number; average_trigger_delay_seconds: number; oldest_pending_seconds: number | null;
  dead_letters: number; dead_letters_is_estimate?: boolean; overdue_jobs: number; overdue_jobs_is_minimum?: boolean; queues: QueueDepth[]; minutes?: QueueMinute[];
};
export type Limit = { queue: string | null; max_concurrent: number | null; rate_limit: RateLimit | null; pause: PausedQueue | null };
export type PausedQueue = { at: string; until: string | null; by: string; reason: string | null };
export type QueueOf = { queue: string; waiting: number; running: number; slots: number; oldest_waiting_seconds: number | null; max_concurrent: number | null; rate_limit: RateLimit | null; pause: PausedQueue | null };
export type QueuesOf = { queues: QueueOf[]; pagination: Pagination };
export type Limits = { limits: Limit[]; pagination: Pagination };

/** Change is something that happened, as the stream of events tells it. */
export type Change = {
  at: string;
  type:
    | "execution.created" | "execution.started" | "execution.retrying" | "execution.released" | "execution.cancelling" | "execution.finished"
    | "job.created" | "job.changed" | "job.paused" | "job.deleted" | "run.changed" | "worker.joined" | "worker.draining" | "worker.left";
  execution_id?: string; job_id?: string; workflow_run_id?: string; worker_id?: string; status?: string;
};
