// Sizes: what is stored, and how much room it takes up.

import { useGet } from "../../api";
import { bytes, count, ErrorBox, Loading } from "../../ui";
import type { Allowance, Sizes } from "./types";

const words: Record<string, string> = {
  jobs: "Jobs", schedules: "Schedules", live: "Waiting and running executions", executions: "Finished executions", attempts: "Failed attempts", events: "Execution events",
  logs: "Log chunks", dead_letters: "Dead letters", job_revisions: "Versions of jobs", audit: "Audit log",
};

export function SizesPanel({ allowance }: { allowance: Allowance | undefined }) {
  const q = useGet<Sizes>("/admin/sizes", undefined, { every: 60_000 });
  const s = q.data;
  const days = allowance?.quotas.history_days;
  return (
    <section className="panel stack" aria-label="Storage">
      <div className="row">
        <h2 className="grow">Storage</h2>
        {s && (
          <span className="dim small">
            {bytes(s.bytes)}
            {s.free_bytes > 0 && `, ${bytes(s.free_bytes)} of it free`}
          </span>
        )}
      </div>
      {q.isError && !s ? (
        <ErrorBox error={q.error} />
      ) : !s ? (
        <Loading lines={3} />
      ) : (
        <dl className="admin-quotas">
          {s.tables.map((t) => (
            <div key={t.name}>
              <dt>{words[t.name] ?? t.name}</dt>
              <dd>
                {t.rows_is_estimate ? (t.bytes === null ? "≥ " : "≈ ") : ""}
                {count(t.rows)}
                {t.bytes !== null && <span className="dim">, {bytes(t.bytes)}</span>}
              </dd>
            </div>
          ))}
        </dl>
      )}
      {allowance && days !== undefined && (
        <p className="dim small">
          All of it is in the database, of every tenant together. History of {allowance.tenant_id} is kept {days < 0 ? "for good" : days === 1 ? "for a day" : `for ${count(days)} days`}.
        </p>
      )}
    </section>
  );
}
