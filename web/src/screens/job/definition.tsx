// The definition of a job, as it would be created again.

import { stringify, type Dependencies, type Job } from "../../api";
import { asYaml, Button, copy, JsonView, Segments } from "../../ui";
import { useParam } from "../../router";
import { afterOf } from "./dependencies";

const readOnly = new Set(["job_id", "execution_id", "key", "status", "stats", "created_at", "updated_at", "revision", "pause_reason", "paused_until", "depends_on"]);

/** specOf is what has to be sent to create the job anew; what is empty is left out. */
export function specOf(j: Job): Record<string, unknown> {
  const { next_run_at: _n, last_run_at: _l, description: _d, ...schedule } = j.schedule;
  const out: Record<string, unknown> = {};
  for (const [k, v] of Object.entries({ ...j, schedule })) if (!readOnly.has(k) && !empty(v)) out[k] = k === "execution" ? compact(v as Record<string, unknown>) : v;
  return out;
}

const empty = (v: unknown) => v === null || v === undefined || v === "" || (Array.isArray(v) && v.length === 0);
const compact = (o: Record<string, unknown>) => Object.fromEntries(Object.entries(o).filter(([k, v]) => !empty(v) && v !== false && !(k === "headers" && Object.keys(v as object).length === 0)));

export function Definition({ j, on }: { j: Job; on: Dependencies | undefined }) {
  const [as, setAs] = useParam("as", "yaml");
  const spec = { ...(j.key ? { key: j.key } : {}), ...specOf(j) };
  const text = as === "yaml" ? asYaml({ jobs: [{ ...spec, ...afterOf(on) }] }).replace(/^\n/, "") + "\n" : stringify(spec, 2);
  return (
    <>
      <div className="row">
        <Segments label="Form" value={as} options={[["yaml", "YAML"], ["json", "JSON"]]} onChange={setAs} />
        <Button icon="copy" onClick={() => copy(text)}>
          Copy
        </Button>
        <span className="dim small">
          {as === "yaml" ? (
            <>
              For <code>carillon apply -f</code>; credentials are hidden.{j.key ? "" : " Files identify jobs by key, and this job has none. If you add a key, applying the file creates a new job."}
            </>
          ) : (
            "For POST /jobs; credentials are hidden."
          )}
        </span>
      </div>
      <JsonView text={text} whole />
    </>
  );
}
