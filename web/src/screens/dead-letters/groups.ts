// Dead letters grouped by error, as the server tells them.

import type { DeadLetter } from "../../api";

export type DeadGroup = {
  fingerprint: string; type: string; message: string; sample_message: string; count: number; first_seen: string; last_seen: string; sample_execution_id: string; sample_job_id: string;
  jobs: { job_id: string; name: string; count: number }[]; jobs_total: number; reasons: Record<string, number>; text: string | null;
};
export type DeadGroups = { total: number; total_is_estimate?: boolean; looked_at: number; partial: boolean; groups: DeadGroup[] };

/** lastError is what a dead letter died of. */
export const lastError = (d: DeadLetter) => d.errors[d.errors.length - 1]?.error ?? { type: d.reason, message: "" };
