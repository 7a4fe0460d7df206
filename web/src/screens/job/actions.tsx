// What is done with a job in a dialog: run it, pause it, make up for what it missed.

import { useRef, useState } from "react";
import { flaw, newKey, parse, post, serverNow, stringify, useRefresh, type Begun, type Job, type Triggered } from "../../api";
import { navigate } from "../../router";
import { asCurl, Check, count, failed, JsonEditor, JsonView, SelectField, TextField, toast } from "../../ui";
import { Ask, sh } from "../../ui/ask";

type Props = { j: Job; path: string; onClose: () => void };

/** RunDialog runs a job now, with its payload or an edited one; first it shows what will be sent. */
export function RunDialog({ j, path, onClose }: Props) {
  const own = j.execution.payload === null || j.execution.payload === undefined ? "" : stringify(j.execution.payload, 2);
  const [text, setText] = useState(own);
  const [dry, setDry] = useState(false);
  const key = useRef(newKey());
  // null is no payload to the server: it stands for the job's own.
  const none = text.trim() === "" || text.trim() === "null";
  const edited = !none && text.trim() !== own.trim();
  const wrong = !none && flaw(text) !== undefined;
  const override = edited && !wrong ? { payload_override: parse(text) } : {};
  const run = () => post<Triggered>(path + "/trigger", override, { key: key.current }).then((t) => navigate("/executions/" + t.execution_id));
  const t = j.execution;
  return (
    <Ask title={`Run ${j.name} now`} action="Run now" ready={!wrong} dirty={text.trim() !== own.trim()} run={run} onClose={onClose} broad cli={`carillon job trigger ${j.key ?? j.job_id}${edited ? " --payload @payload.json" : ""}`}>
      <p className="dim">
        It runs beside its schedule, two priorities higher{j.status === "PAUSED" ? ", although the job is paused" : ""}.
      </p>
      <JsonEditor label="Payload" value={text} onChange={setText} hint={none && own !== "" ? "An override cannot be empty: it runs with the job's payload." : edited ? "For this execution only; the job keeps its own." : "The job's payload."} />
      <Check label="Show what will be sent" checked={dry} onChange={setDry} />
      {dry && (
        <div className="stack tight">
          {t.target === "http" && (
            <JsonView
              plain
              text={[
                `${t.method ?? "POST"} ${t.callback_url ?? ""}`,
                ...Object.entries(t.headers).map(([k, v]) => `${k}: ${v}`),
                `X-Job-ID: ${j.job_id}`,
                "X-Execution-ID, X-Attempt-Number, X-Idempotency-Key, X-Scheduled-Time, X-Fencing-Token, traceparent, webhook-id, webhook-timestamp, webhook-signature",
                "",
                none ? own : text,
              ].join("\n")}
            />
          )}
          {t.target === "command" && <JsonView text={stringify([t.entrypoint, ...(t.command ?? [])].filter(Boolean), 2)} />}
          <code className="small wrap">{asCurl({ method: "POST", path: "/jobs/" + j.job_id + "/trigger", body: override })}</code>
        </div>
      )}
    </Ask>
  );
}

const spans: [string, string][] = [
  ["", "someone resumes it"],
  ["3600000", "in an hour"],
  ["14400000", "in 4 hours"],
  ["86400000", "tomorrow at this time"],
  ["604800000", "in a week"],
];

/** PauseDialog pauses a job, with the reason and until when; it can be undone for ten seconds. */
export function PauseDialog({ j, path, onClose }: Props) {
  const [reason, setReason] = useState("");
  const [span, setSpan] = useState("");
  const refresh = useRefresh();
  const run = () => {
    const until = span ? new Date(serverNow() + Number(span)).toISOString() : undefined;
    return post<Job>(path + "/pause", { ...(reason ? { reason } : {}), ...(until ? { until } : {}) }).then(() => {
      void refresh(path);
      toast(`Paused ${j.name}`, { undo: () => void post<Job>(path + "/resume").then(() => refresh(path), failed) });
    });
  };
  return (
    <Ask title={`Pause ${j.name}`} action="Pause" run={run} onClose={onClose} cli={`carillon job pause ${j.key ?? j.job_id}${reason ? ` --reason ${sh(reason)}` : ""}${span ? ` --until +${Number(span) / 3600000}h` : ""}`}>
      <p className="dim">It stops firing, and its waiting scheduled executions are held. Running executions continue.</p>
      <TextField label="Reason" value={reason} onChange={setReason} maxLength={1000} autoFocus placeholder="Maintenance" hint="Shown to everyone who views the job." />
      <SelectField label="Resumes" value={span} onChange={setSpan} options={spans} />
    </Ask>
  );
}

const local = (t: number) => new Date(t).toISOString().slice(0, 16);

/** BackfillDialog fires past instants; how many is counted first. */
export function BackfillDialog({ j, path, onClose }: Props) {
  const [from, setFrom] = useState(local(serverNow() - 86_400_000));
  const [to, setTo] = useState(local(serverNow()));
  const [rate, setRate] = useState("10");
  const [missing, setMissing] = useState(true);
  const [counted, setCounted] = useState<{ of: string; n: number }>();
  const key = useRef(newKey());
  const good = !Number.isNaN(Date.parse(from + "Z")) && !Number.isNaN(Date.parse(to + "Z"));
  const body = good ? { from: from + ":00Z", to: to + ":00Z", only_missing: missing, ...(rate ? { rate_per_s: Number(rate) } : {}) } : {};
  const of = stringify(body);
  const run = () => {
    if (counted?.of !== of) return post<Begun>(path + "/backfill", { ...body, dry_run: true }).then((b) => (setCounted({ of, n: b.count }), "stay"));
    return post<Begun>(path + "/backfill", body, { key: key.current }).then((b) => toast(`Backfill of ${count(b.count)} began`));
  };
  const known = counted?.of === of;
  return (
    <Ask title={`Backfill ${j.name}`} action={known ? `Fire ${count(counted.n)}` : "Count them"} ready={good && (!known || counted.n > 0)} run={run} onClose={onClose} cli={`carillon job backfill ${j.key ?? j.job_id} --from ${from}Z --to ${to}Z${rate ? ` --rate ${rate}` : ""}${missing ? "" : " --everything"}`}>
      <p className="dim">Fires past instants of the current schedule, in the background.</p>
      <div className="formgrid">
        <TextField label="From (UTC)" type="datetime-local" value={from} onChange={setFrom} />
        <TextField label="To (UTC)" type="datetime-local" value={to} onChange={setTo} />
        <TextField label="At most, per second" value={rate} onChange={setRate} inputMode="decimal" />
      </div>
      <Check label="Only instants that have no execution, or a skipped one" checked={missing} onChange={setMissing} />
      {known && (
        <p role="status">
          <strong>{counted.n === 0 ? "There is nothing to fire." : `${count(counted.n)} ${counted.n === 1 ? "instant" : "instants"} would be fired.`}</strong>
        </p>
      )}
    </Ask>
  );
}
