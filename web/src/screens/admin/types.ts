// What administration reads and writes, as the Go package client has it.

import type { Calendar, Pagination } from "../../api";

export type Quotas = {
  active_jobs: number; executions_per_minute: number; executions_burst: number; payload_bytes: number; history_days: number; max_retries: number; shortest_interval_ms: number;
  best_priority: number; dead_letters: boolean; notification_rules: boolean; requests_per_second: number; weight: number;
};
export type Usage = { active_jobs: number | null };
export type Tier = "free" | "pro" | "enterprise";
export type Allowance = { tenant_id: string; tier: Tier; quotas: Quotas; overridden: string[]; usage: Usage };
export type Tenant = { tenant_id: string; name: string; tier: Tier; quotas: Quotas; overridden: string[]; usage?: Usage; created_at: string; callbacks_allow: string[]; callbacks_https_only: boolean };
export type Role = "viewer" | "operator" | "admin" | "worker" | "system";
export type ApiKey = {
  key_id: string; tenant_id: string; name: string; role: Role; prefix: string; status: "ACTIVE" | "EXPIRED" | "REVOKED"; key?: string;
  created_at: string; expires_at: string | null; revoked_at: string | null; last_used_at: string | null;
};
export type SignIn = {
  sign_in_id: string; tenant_id: string; name: string; role: Role; kind: "key" | "token"; key_id: string | null; current: boolean;
  signed_in_at: string; last_used_at: string; idle_expires_at: string; expires_at: string;
};
export type Secret = { name: string; version: number; created_at: string; updated_at: string };
export type SigningSecret = { id: string; algorithm: "hmac-sha256" | "ed25519"; prefix: string; shown: boolean; public_key?: string; created_at: string; expires_at: string | null; secret?: string };
export type SigningSecrets = { signing_secrets: SigningSecret[]; pagination: Pagination };
export type Badge = { badge_id: string; job_id: string; job_name: string; label: string | null; created_at: string; svg?: string; json?: string };
export type Rule = { name: string; events: string[]; jobs: string[]; tags: string[]; callback_url: string; late_after_seconds: number; silence_until: string | null; blocked: string | null; created_at: string; updated_at: string };
export type Calendars = { calendars: Calendar[]; pagination: Pagination };
export type AuditEntry = {
  seq: number; at: string; principal: string; role: string; key_id: string | null; action: string; object: string; count: number;
  also?: { request_id: string; object: string; count: number }[]; before?: Record<string, string>; after?: Record<string, string>; ip: string; request_id: string;
};
export type Verification = {
  ok: boolean; entries: number; seals: number; first_seal: number; last_seal: number; last_seal_at: string | null; head: string | null; unsealed: number;
  broken?: { seal: number; seq: number | null; reason: string }; next_cursor: string | null;
};
export type Sizes = { bytes: number; free_bytes: number; tables: { name: string; rows: number; rows_is_estimate?: boolean; bytes: number | null }[] };
export type ArchiveDay = { day: string; settled: boolean; files: number; executions: number; log_lines: number; bytes: number };
export type Archive = {
  place: string; layout: "shared" | "per-tenant"; hot_days: number; lag_seconds: number; checked_at: string | null; overdue_since: string | null; moving: { day: string; step: string; rows: number } | null;
  moved: number; error: string | null; foreign_files: string[]; days: ArchiveDay[];
};
export type ArchiveCheck = { files: number; bytes: number; problems: { file: string; problem: string }[]; next: string };
