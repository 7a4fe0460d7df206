// Attempts, request and response, and everything that happened, as tables.

import type { ReactNode } from "react";
import { type Event, type Execution, type Job, type Report, stringify } from "../../api";
import { Link } from "../../router";
import { count, Duration, Empty, Id, JsonView, State, Time } from "../../ui";
import type { NodeDef, WorkflowOf } from "../workflows/data";
import { payloadOf, type Whole } from "./actions";
import { tokenText } from "./story";

export type Host = (id: string | null) => string;

export function Worker({ id, host }: { id: string | null; host: Host }) {
  if (!id) return <span className="dim">–</span>;
  return (
    <Link to={"/executions?q=" + encodeURIComponent("worker:" + id)} data-tip={id + "\nOther executions of this worker"} className="nowrap">
      {host(id)}
    </Link>
  );
}

export function Attempts({ e, report, events, host }: { e: Execution; report: Report; events: Event[]; host: Host }) {
  if (report.attempts.length === 0) return <Empty title="No attempt yet">It has not started.</Empty>;
  const refused = events.filter((x) => x.type === "result_refused");
  const known = new Set(report.attempts.map((a) => tokenText(a.fencing_token)));
  const others = refused.filter((x) => x.fencing_token === null || !known.has(tokenText(x.fencing_token)));
  return (
    <div className="tablebox">
      <table className="table cards" aria-label="Attempts">
        <thead>
          <tr>
            <th scope="col">Attempt</th>
            <th scope="col">Status</th>
            <th scope="col">Started</th>
            <th scope="col" className="num">
              Took
            </th>
            <th scope="col">Worker</th>
            <th scope="col">Token</th>
            <th scope="col">Error</th>
          </tr>
        </thead>
        <tbody>
          {report.attempts.map((a) => {
            const stale = refused.filter((x) => x.fencing_token !== null && tokenText(x.fencing_token) === tokenText(a.fencing_token));
            return (
              <tr key={tokenText(a.fencing_token) + a.started_at}>
                <td className="lead">
                  {a.attempt_number} <span className="dim">of {e.max_attempts + e.lost_attempts}</span>
                </td>
                <td>
                  <State of={a.status} />
                </td>
                <td data-label="started">
                  <Time at={a.started_at} />
                </td>
                <td className="num" data-label="took">
                  <Duration ms={a.duration_ms} />
                </td>
                <td data-label="worker">
                  <Worker id={a.worker_id} host={host} />
                </td>
                <td data-label="token">
                  <code>{tokenText(a.fencing_token)}</code>
                </td>
                <td className="wide execution-error">
                  {a.error && (
                    <div>
                      <code className="bad">{a.error.type}</code> {a.error.http_status ? <span className="dim">{a.error.http_status} </span> : null}
                      <bdi>{a.error.message}</bdi>
                    </div>
                  )}
                  {stale.map((x) => (
                    <div key={x.at} className="warn small">
                      ◇ A stale result was refused <Time at={x.at} />
                      {x.detail && <>: {x.detail}</>}
                    </div>
                  ))}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {others.map((x) => (
        <p key={x.at} className="pager warn">
          <span>
            ◇ A stale result was refused <Time at={x.at} />
            {x.worker_id && <> of {host(x.worker_id)}</>}
            {x.fencing_token !== null && (
              <>
                , token <code>{tokenText(x.fencing_token)}</code>
              </>
            )}
            {x.detail && <>: {x.detail}</>}
          </span>
        </p>
      ))}
    </div>
  );
}

/** Pretty shows text as JSON where it is JSON. */
function Pretty({ text }: { text: string }) {
  let shown = text;
  try {
    if (/^\s*[[{]/.test(text)) {
      JSON.parse(text);
      shown = text.length < 100_000 ? indent(text) : text;
    }
  } catch {
    // Not JSON: as it came.
  }
  return <JsonView text={shown} />;
}

/** indent writes JSON over several lines, numbers and strings as they were. */
function indent(text: string): string {
  let depth = 0;
  const nl = () => "\n" + "  ".repeat(depth);
  return text.trim().replace(/"(?:[^"\\]|\\.)*"|[[{]\s*[\]}]|[{[\]},:]|\s+/g, (m) => {
    switch (m) {
      case "{":
      case "[":
        depth++;
        return m + nl();
      case "}":
      case "]":
        depth--;
        return nl() + m;
      case ",":
        return "," + nl();
      case ":":
        return ": ";
    }
    return /^\s/.test(m) ? "" : m.startsWith('"') ? m : m.replace(/\s/g, "");
  });
}

/** InNode is the node of a workflow that an execution belongs to, where the workflow itself says what it runs. */
export type InNode = { key: string; run: string; at: string; flow: WorkflowOf | undefined; def: NodeDef | undefined } | undefined;

export function Exchange({ e, j, node, report }: { e: Whole; j: Job | undefined; node: InNode; report: Report | undefined }) {
  const t = j?.execution ?? node?.def?.execution;
  const payload = payloadOf(e, j);
  const last = report?.attempts[report.attempts.length - 1];
  const newer = j !== undefined && Date.parse(j.updated_at) > Date.parse(e.started_at ?? e.scheduled_time) + 1000 && j.revision > 1;
  return (
    <div className="cols">
      <section className="panel stack" aria-label="Request">
        <h2>{t?.target === "command" ? "Command" : t?.target === "http" || !t ? "Request" : "Work"}</h2>
        {node && <p className="dim small">As defined in the workflow; expressions are rendered when the node starts.</p>}
        {newer && <p className="warn small">The job was changed after this execution started; target and headers are shown as they are now.</p>}
        {t?.target === "http" && (
          <>
            <p className="mono wrap">
              <strong>{t.method ?? "POST"}</strong> {t.callback_url}
            </p>
            <Pairs
              of={[
                ...Object.entries(t.headers ?? {}),
                ["X-Job-ID", e.job_id],
                ["X-Execution-ID", e.execution_id],
                ...(last ? [["X-Attempt-Number", String(last.attempt_number)] as [string, string]] : []),
                ["X-Idempotency-Key", e.idempotency_key],
                ["X-Scheduled-Time", e.scheduled_time],
                ...(last ? [["X-Fencing-Token", tokenText(last.fencing_token)] as [string, string]] : []),
              ]}
            />
          </>
        )}
        {t?.target === "command" && (
          <>
            <p className="mono wrap">{[t.entrypoint, ...(t.command ?? [])].filter(Boolean).map((a) => (/^[\w@%+=:,./-]+$/.test(a ?? "") ? a : JSON.stringify(a))).join(" ")}</p>
            {t.env && Object.keys(t.env).length > 0 && <Pairs of={Object.entries(t.env)} />}
          </>
        )}
        {t?.target === "worker" && <p>Handler of kind <code>{t.kind}</code></p>}
        {t?.target === "simulate" && <p>Simulated: <code>{t.work_kind}</code></p>}
        <h3>Payload {node ? <span className="dim">as it was rendered</span> : e.payload_override !== undefined ? <span className="dim">of this execution, in place of the job's</span> : <span className="dim">of the job</span>}</h3>
        {payload === null || payload === undefined ? <p className="dim">None.</p> : <Pretty text={stringify(payload, 2)} />}
      </section>
      <section className="panel stack" aria-label="Response">
        <h2>{e.callback_response ? "Response" : "Result"}</h2>
        {e.callback_response && (
          <>
            <p>
              <State of={e.callback_response.http_status < 300 ? "SUCCEEDED" : "FAILED"} word={"HTTP " + e.callback_response.http_status} />
            </p>
            {e.callback_response.body_preview === "" ? <p className="dim">An empty body.</p> : <Pretty text={e.callback_response.body_preview} />}
            {e.callback_response.body_preview.length >= 4096 && <p className="dim small">The first 4 KiB are kept.</p>}
          </>
        )}
        {e.result !== null && e.result !== undefined ? (
          <>
            {e.callback_response && <h3>Result</h3>}
            <Pretty text={stringify(e.result, 2)} />
          </>
        ) : (
          !e.callback_response && <p className="dim">{e.finished_at ? "It has none." : "None yet."}</p>
        )}
        {e.error && (
          <>
            <h3>Error</h3>
            <p className="wrap">
              <code className="bad">{e.error.type}</code> <bdi>{e.error.message}</bdi>
            </p>
          </>
        )}
      </section>
    </div>
  );
}

function Pairs({ of }: { of: [string, string][] }) {
  return (
    <dl className="facts mono small">
      {of.map(([k, v]): ReactNode => [<dt key={k + "k"}>{k}</dt>, <dd key={k}>{v === "[redacted]" ? <span className="dim">hidden</span> : v}</dd>])}
    </dl>
  );
}

const eventWords: Record<string, string> = {
  created: "Fired", started: "Leased and started", attempt_failed: "Attempt failed", attempt_lost: "Attempt lost with its worker", released: "Handed back", snoozed: "Snoozed", parked: "Answered 202, to be completed later",
  result_refused: "Stale result refused", cancel_requested: "Asked to stop", forced: "Ended by force", finished: "Finished", rerun: "Run again", discarded: "Discarded from the dead letters",
};

export function EventTable({ events, total, host }: { events: Event[]; total: number; host: Host }) {
  return (
    <div className="tablebox">
      <table className="table compact cards" aria-label="Events">
        <thead>
          <tr>
            <th scope="col">When</th>
            <th scope="col">What</th>
            <th scope="col">Attempt</th>
            <th scope="col">Worker</th>
            <th scope="col">Token</th>
            <th scope="col">Detail</th>
          </tr>
        </thead>
        <tbody>
          {events.map((x, i) => (
            <tr key={i}>
              <td className="lead">
                <Time at={x.at} exact />
              </td>
              <td>{x.type === "result_refused" ? <span className="warn">◇ {eventWords[x.type]}</span> : (eventWords[x.type] ?? x.type)}</td>
              <td data-label={x.attempt === null ? undefined : "attempt"}>{x.attempt ?? ""}</td>
              <td>{x.worker_id ? <Worker id={x.worker_id} host={host} /> : ""}</td>
              <td>{x.type !== "rerun" && x.fencing_token !== null ? <code>{tokenText(x.fencing_token)}</code> : ""}</td>
              <td className="wide execution-error">{x.type === "rerun" && x.detail ? <Link to={"/executions/" + x.detail}>{x.detail}</Link> : <bdi>{x.detail}</bdi>}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {total > events.length && <p className="pager">The first {count(events.length)} of {count(total)}.</p>}
    </div>
  );
}

export function Facts({ e, j, node, host, jobZone }: { e: Whole; j: Job | undefined; node: InNode; host: Host; jobZone: string | undefined }) {
  return (
    <dl className="execution-facts panel">
      <Fact k="Scheduled">
        <Time at={e.scheduled_time} zone={jobZone} exact />
      </Fact>
      <Fact k="Started">
        <Time at={e.started_at} zone={jobZone} />
      </Fact>
      <Fact k="Finished">
        <Time at={e.finished_at} zone={jobZone} />
      </Fact>
      <Fact k="Took">
        <Duration ms={e.duration_ms} />
      </Fact>
      <Fact k="Trigger">{e.trigger.replace("_", " ")}</Fact>
      <Fact k="Attempt">
        {e.attempt_number} of {e.max_attempts}
        {e.lost_attempts > 0 && <span className="dim">, {e.lost_attempts} lost</span>}
      </Fact>
      <Fact k="Worker">
        <Worker id={e.worker_id} host={host} />
      </Fact>
      {node && (
        <Fact k="Node">
          <Link to={node.at}>{node.key}</Link>
          {node.flow && (
            <>
              {" "}
              <span className="dim">of</span> <Link to={"/workflows/" + node.flow.workflow_id}>{node.flow.name}</Link>
            </>
          )}
        </Fact>
      )}
      {j && (
        <Fact k="Queue">
          <Link to={"/queues?q=" + encodeURIComponent(j.queue)}>{j.queue}</Link> <span className="dim">priority {e.priority}</span>
        </Fact>
      )}
      <Fact k="Idempotency key">
        <Id of={e.idempotency_key} />
      </Fact>
    </dl>
  );
}

function Fact({ k, children }: { k: string; children: ReactNode }) {
  return (
    <div>
      <dt>{k}</dt>
      <dd>{children}</dd>
    </div>
  );
}
