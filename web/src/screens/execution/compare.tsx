// Compare: this execution beside the last one that succeeded, what differs first.

import { isProblem, stringify, useGet, type Execution, type Executions, type Job, type Report } from "../../api";
import { Link, useParam } from "../../router";
import { duration, Empty, ErrorBox, exactTime, Loading, State } from "../../ui";
import { useZone } from "../../prefs";
import { payloadOf, type Whole } from "./actions";
import type { Host } from "./parts";

type Line = { what: string; a: string; b: string; note?: string };

const ratio = (a: number, b: number) => (b > 0 && a > 0 && (a / b >= 1.5 || b / a >= 1.5) ? (a > b ? `${(a / b).toFixed(1)} × longer` : `${(b / a).toFixed(1)} × shorter`) : "");

/** isLater reports whether the payload that is shown may be another than it ran with: the job's, which was changed since. */
const isLater = (e: Whole, j: Job | undefined) => e.payload_override === undefined && j !== undefined && Date.parse(j.updated_at) > Date.parse(e.started_at ?? e.scheduled_time);

export function Compare({ e, j, report, host }: { e: Whole; j: Job | undefined; report: Report; host: Host }) {
  const [other] = useParam("with");
  const search = useGet<Executions>(other ? undefined : "/executions", { job_id: e.job_id, status: "SUCCEEDED", limit: 2 }) /* nodes of workflows have no job to ask */;
  const last = search.data?.executions.find((x) => x.execution_id !== e.execution_id);
  const id = other || last?.execution_id;
  const that = useGet<Whole>(id ? "/executions/" + encodeURIComponent(id) : undefined);
  const thatReport = useGet<Report>(id ? `/executions/${encodeURIComponent(id)}/report` : undefined);
  const elsewhere = that.data !== undefined && that.data.job_id !== e.job_id;
  const thatJob = useGet<Job>(elsewhere ? "/jobs/" + that.data?.job_id : undefined);
  const [zone] = useZone();
  if (search.isError) return <ErrorBox error={search.error} />;
  if (!other && search.data && !last) return <Empty title="Nothing to compare with">No other execution of this job has succeeded.</Empty>;
  if (that.isError) return <ErrorBox error={that.error} {...(isProblem(that.error, 404) ? { what: "The other execution does not exist" } : {})} />;
  if (!that.data || !thatReport.data) return <Loading />;
  const o = that.data;
  const r = thatReport.data;
  const n = (v: number | null) => (v === null ? "–" : duration(v));
  const json = (v: unknown) => (v === null || v === undefined ? "–" : stringify(v, 2));
  const at = (s: string | null) => (s ? exactTime(Date.parse(s), zone, j?.schedule.timezone) : "–");
  const error = (x: Execution) => (x.error ? `${x.error.type}: ${x.error.message}` : "–");
  const lines: Line[] = [
    { what: "Error", a: error(e), b: error(o) },
    { what: "HTTP status", a: String(e.callback_response?.http_status ?? "–"), b: String(o.callback_response?.http_status ?? "–") },
    { what: "Payload", a: json(payloadOf(e, j)), b: json(payloadOf(o, elsewhere ? thatJob.data : j)), note: isLater(e, j) || isLater(o, elsewhere ? thatJob.data : j) ? "from the current job, which has changed since" : "" },
    { what: "Took", a: n(e.duration_ms), b: n(o.duration_ms), note: ratio(e.duration_ms ?? 0, o.duration_ms ?? 0) },
    { what: "Delay", a: n(e.trigger_delay_ms), b: n(o.trigger_delay_ms) },
    { what: "Wait for the first start", a: n(report.queue_wait_ms), b: n(r.queue_wait_ms), note: ratio(report.queue_wait_ms, r.queue_wait_ms) },
    { what: "Attempts", a: String(report.attempts.length), b: String(r.attempts.length) },
    { what: "Lost attempts", a: String(e.lost_attempts), b: String(o.lost_attempts) },
    { what: "Worker", a: host(e.worker_id), b: host(o.worker_id) },
    { what: "Trigger", a: e.trigger, b: o.trigger },
    { what: "Priority", a: String(e.priority), b: String(o.priority) },
    { what: "Scheduled", a: at(e.scheduled_time), b: at(o.scheduled_time) },
    { what: "Response", a: e.callback_response?.body_preview ?? "–", b: o.callback_response?.body_preview ?? "–" },
    { what: "Result", a: json(e.result), b: json(o.result) },
  ];
  const differ = lines.filter((l) => l.a !== l.b);
  const same = lines.filter((l) => l.a === l.b && l.a !== "–");
  return (
    <div className="stack">
      <p>
        {differ.length === 0 ? "They do not differ." : `${differ.length} of ${differ.length + same.length} fields differ.`} <span className="dim">Times and ids always differ.</span>
      </p>
      <div className="tablebox">
        <table className="table execution-compare" aria-label="Compared">
          <thead>
            <tr>
              <th scope="col">What</th>
              <th scope="col">
                This one <State of={e.status} />
              </th>
              <th scope="col">
                <Link to={"/executions/" + o.execution_id}>{other ? "The other" : "Last success"}</Link> <State of={o.status} />
              </th>
            </tr>
          </thead>
          <tbody>
            {[...differ, ...same].map((l) => (
              <tr key={l.what} data-differs={l.a !== l.b ? "" : undefined}>
                <th scope="row">
                  {l.a !== l.b && <span aria-hidden="true">≠ </span>}
                  {l.what}
                  {l.note && <span className="warn small execution-ratio">{l.note}</span>}
                </th>
                <td>
                  <pre>{l.a}</pre>
                </td>
                <td>
                  <pre>{l.b}</pre>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}
