// What a job runs after, which of these it still waits for, and what runs after it.

import type { Dependencies } from "../../api";
import { Link } from "../../router";
import { Button, count, State, Time } from "../../ui";

/** ended is what has become of the others when the job runs. */
const ended = { success: "succeeded", failure: "failed", always: "ended" };

/** afterOf is what a file says of it. */
export const afterOf = (of: Dependencies | undefined) =>
  of?.condition ? { depends_on: of.depends_on.map((p) => p.key ?? { job: p.job_id }), ...(of.condition === "success" ? {} : { condition: of.condition }) } : {};

const most = 20;

export function DependenciesPanel({ of, edit }: { of: Dependencies; edit: (() => void) | undefined }) {
  const on = of.depends_on, more = of.dependants.length - most;
  if (on.length + of.dependants.length === 0) return null;
  const missing = on.filter((p) => !p.execution_id).length;
  return (
    <section className="panel stack" aria-label="Dependencies">
      <div className="row">
        <h2 className="grow">Dependencies</h2>
        {edit && (
          <Button small onClick={edit}>
            Edit…
          </Button>
        )}
      </div>
      {on.length > 0 && (
        <>
          <p className="dim">
            {on.length === 1 ? `Runs each time that this job has ${ended[of.condition ?? "success"]}.` : `Runs each time that all of these have ${ended[of.condition ?? "success"]}${missing ? `; ${missing} ${missing === 1 ? "is" : "are"} missing` : ""}.`}
          </p>
          <ul className="job-edges">
            {on.map((p) => (
              <li key={p.job_id}>
                <State of={p.execution_id ? "SUCCEEDED" : "WAITING"} word={p.execution_id ? "Ended" : "Missing"} />
                <Link to={"/jobs/" + p.job_id}>
                  <bdi>{p.name}</bdi>
                </Link>
                {p.execution_id && (
                  <Link to={"/executions/" + p.execution_id}>
                    <Time at={p.ended_at} />
                  </Link>
                )}
              </li>
            ))}
          </ul>
        </>
      )}
      {of.dependants.length > 0 && (
        <div className="stack tight">
          <h3>Run after it</h3>
          <ul className="job-edges">
            {of.dependants.slice(0, most).map((c) => (
              <li key={c.job_id}>
                <Link to={"/jobs/" + c.job_id}>
                  <bdi>{c.name}</bdi>
                </Link>
              </li>
            ))}
          </ul>
          {more > 0 && <p className="dim">and {count(more)} more</p>}
        </div>
      )}
    </section>
  );
}
