// The parts of the form of a job.

import { useId } from "react";
import { useGet, type Calendar, type ScheduleType, type TargetKind } from "../../api";
import { Button, Check, Field, ListField, More, Segments, SelectField, TextArea, TextField, wrongOf } from "../../ui";
import { Preview } from "./Preview";
import type { Form } from "./state";

type Props = { form: Form; set: (part: Partial<Form>) => void; error: unknown };

export function What({ form, set, error, editing }: Props & { editing: boolean }) {
  return (
    <section className="panel stack" aria-label="About">
      <h2>About</h2>
      <div className="formgrid two">
        <TextField label="Name" value={form.name} onChange={(name) => set({ name })} required maxLength={255} autoFocus={!editing} wrong={wrongOf(error, "name")} />
        <TextField label="Key" value={form.key} onChange={(key) => set({ key })} mono disabled={editing} wrong={wrongOf(error, "key")} hint={editing ? "A key cannot change." : "Optional: a name for files and scripts, unique in the tenant."} />
        <TextArea label="Description" full value={form.description} onChange={(description) => set({ description })} rows={2} wrong={wrongOf(error, "description")} />
        <TextField label="Owner" value={form.owner} onChange={(owner) => set({ owner })} wrong={wrongOf(error, "owner")} />
        <ListField label="Tags" inline value={form.tags} onChange={(tags) => set({ tags })} add="Add a tag" wrong={wrongOf(error, "tags")} wrongAt={(i) => wrongOf(error, `tags[${i}]`)} />
        <TextArea label="When it fails" full value={form.runbook} onChange={(runbook) => set({ runbook })} rows={2} wrong={wrongOf(error, "runbook")} hint="A note or a link for whoever is on call." />
      </div>
    </section>
  );
}

const types: [ScheduleType, string][] = [
  ["CRON", "Cron"],
  ["INTERVAL", "Every"],
  ["ONE_TIME", "Once"],
  ["IMMEDIATE", "Now"],
  ["MANUAL", "Manual"],
];

const presets: [string, string][] = [
  ["*/5 * * * *", "every 5 minutes"],
  ["0 * * * *", "hourly"],
  ["0 9 * * MON-FRI", "weekdays at 9"],
  ["0 2 * * *", "nightly at 2"],
  ["0 6 1 * *", "the first of the month"],
];

function zones(): string[] {
  try {
    return ["UTC", ...Intl.supportedValuesOf("timeZone").filter((z) => z !== "UTC")];
  } catch {
    return ["UTC"];
  }
}

export function When({ form, set, error }: Props) {
  const calendars = useGet<{ calendars: Calendar[] }>("/calendars");
  const list = useId();
  const recurs = form.type === "CRON" || form.type === "INTERVAL";
  return (
    <section className="panel stack" aria-label="When">
      <div className="row">
        <h2>When</h2>
        <Segments label="Kind of schedule" value={form.type} options={types} onChange={(type) => set({ type })} />
      </div>
      {form.type === "IMMEDIATE" && <p className="dim">It runs once, as soon as it is created. You can run it again manually.</p>}
      {form.type === "MANUAL" && <p className="dim">It has no schedule: it runs only when you run it.</p>}
      {form.type === "ONE_TIME" && (
        <div className="form-when">
          <Field label="At" wrong={wrongOf(error, "schedule.scheduled_time")} hint={`In your time zone, ${Intl.DateTimeFormat().resolvedOptions().timeZone}. A past time fires at once.`}>
            {(p) => <input {...p} className="input" type="datetime-local" step={1} value={toLocal(form.at)} onChange={(e) => set({ at: fromLocal(e.target.value) })} />}
          </Field>
          <Jitter form={form} set={set} error={error} />
        </div>
      )}
      {form.type === "CRON" && (
        <div className="form-when">
          <div className="stack">
            <TextField label="Cron expression" value={form.cron} onChange={(cron) => set({ cron })} mono spellCheck={false} wrong={wrongOf(error, "schedule.cron_expression")} hint="minute hour day month weekday; six fields begin with seconds; @daily, H, L, W and # work." />
            <div className="row tight">
              {presets.map(([cron, word]) => (
                <Button key={cron} small kind="ghost" onClick={() => set({ cron })}>
                  {word}
                </Button>
              ))}
            </div>
            <TextField label="Zone" value={form.timezone} onChange={(timezone) => set({ timezone })} list={list} spellCheck={false} wrong={wrongOf(error, "schedule.timezone")} />
            <datalist id={list}>
              {zones().map((z) => (
                <option key={z} value={z} />
              ))}
            </datalist>
          </div>
          <Preview zone={form.timezone} body={{ cron_expression: form.cron.trim(), timezone: form.timezone.trim() || undefined, day: form.day, calendar: form.calendar || undefined }} />
        </div>
      )}
      {form.type === "INTERVAL" && (
        <div className="form-when">
          <TextField label="Every" value={form.every} onChange={(every) => set({ every })} mono wrong={wrongOf(error, "schedule.every")} hint="Such as 90s or 1h30m, counted from the start or the creation." />
          <Preview zone={form.everyZone.trim() || "UTC"} body={{ every: form.every.trim(), timezone: form.everyZone.trim() || undefined, calendar: form.calendar || undefined }} />
        </div>
      )}
      {recurs && (
        <More summary="Bounds, jitter, calendar" error={error}>
          <div className="formgrid">
            <TextField label="Not before" value={form.start} onChange={(start) => set({ start })} placeholder="2026-12-01T00:00:00Z" mono wrong={wrongOf(error, "schedule.start_at")} />
            <TextField label="Not at or after" value={form.end} onChange={(end) => set({ end })} placeholder="2027-01-01T00:00:00Z" mono wrong={wrongOf(error, "schedule.end_at")} />
            <TextField label="Maximum runs" value={form.maxRuns} onChange={(maxRuns) => set({ maxRuns })} inputMode="numeric" wrong={wrongOf(error, "schedule.max_runs")} hint="times" />
            <Jitter form={form} set={set} error={error} />
            <SelectField label="Calendar" value={form.calendar} onChange={(calendar) => set({ calendar })} options={[["", "none"], ...(calendars.data?.calendars ?? []).map((c): [string, string] => [c.name, c.name])]} wrong={wrongOf(error, "schedule.calendar")} hint="Runs at excluded times are skipped." />
            {form.type === "CRON" && (
              <SelectField
                label="Days of month and week"
                value={form.day}
                onChange={(day) => set({ day })}
                options={[
                  ["vixie", "as in cron"],
                  ["or", "either fires"],
                  ["and", "both must match"],
                ]}
                wrong={wrongOf(error, "schedule.day")}
              />
            )}
            {form.type === "INTERVAL" && <TextField label="Zone" value={form.everyZone} onChange={(everyZone) => set({ everyZone })} placeholder="UTC" spellCheck={false} wrong={wrongOf(error, "schedule.timezone")} hint="The zone in which its calendar is read." />}
          </div>
        </More>
      )}
    </section>
  );
}

function Jitter({ form, set, error }: Props) {
  return <TextField label="Jitter, ms" value={form.jitter} onChange={(jitter) => set({ jitter })} inputMode="numeric" wrong={wrongOf(error, "schedule.jitter_ms")} hint="Delays each run by up to this long, to spread load." />;
}

// A field of the browser has no zone: it is the viewer's.
function toLocal(iso: string): string {
  const t = new Date(iso);
  if (iso === "" || Number.isNaN(t.getTime())) return "";
  return new Date(t.getTime() - t.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
function fromLocal(v: string): string {
  const t = new Date(v);
  return v === "" || Number.isNaN(t.getTime()) ? "" : t.toISOString().replace(".000", "");
}

const targets: [TargetKind, string][] = [
  ["http", "HTTP call"],
  ["command", "Command"],
  ["worker", "Worker"],
  ["simulate", "Pretend"],
];
const methods = ["POST", "GET", "PUT", "PATCH", "DELETE", "HEAD"];
const works = ["noop", "sleep", "fail", "fail_permanent", "flaky", "cancel", "hang", "random"];

export function Target({ form, set, error }: Props) {
  return (
    <section className="panel stack" aria-label="What it runs">
      <div className="row">
        <h2>What it runs</h2>
        <Segments label="Target" value={form.target} options={targets} onChange={(target) => set({ target })} />
      </div>
      {form.target === "http" && (
        <div className="formgrid">
          <TextField label="URL" full type="url" value={form.url} onChange={(url) => set({ url })} mono placeholder="https://api.example.com/run" wrong={wrongOf(error, "execution.callback_url")} />
          <SelectField label="Method" value={form.method} onChange={(method) => set({ method })} options={methods.map((m): [string, string] => [m, m])} wrong={wrongOf(error, "execution.method")} />
          <TextField label="Statuses that count as success" value={form.status} onChange={(status) => set({ status })} placeholder="any 2xx" wrong={wrongOf(error, "execution.expect.status")} />
          <TextField label="The response must contain" value={form.contains} onChange={(contains) => set({ contains })} wrong={wrongOf(error, "execution.expect.body_contains")} />
          <div className="full">
            <Pairs label="Headers" names={["Name", "Value"]} value={form.headers} onChange={(headers) => set({ headers })} wrong={wrongOf(error, "execution.headers")} hint="${secret:name} inserts a secret." />
          </div>
          <Check label="Follow redirects" checked={form.redirects} onChange={(redirects) => set({ redirects })} />
        </div>
      )}
      {form.target === "command" && (
        <div className="formgrid">
          <div className="full">
            <ListField label="Program and arguments" lines mono value={form.command} onChange={(command) => set({ command })} add={form.command.length || form.artifact ? "Add an argument" : "Add the program"} placeholder={form.artifact ? "" : "/usr/bin/report"} wrong={wrongOf(error, "execution.command")} wrongAt={(i) => wrongOf(error, `execution.command[${i}]`)} hint="One per row; no shell interprets them." />
          </div>
          <TextField label="Artifact" value={form.artifact} onChange={(artifact) => set({ artifact })} mono wrong={wrongOf(error, "execution.artifact_id")} />
          <TextField label="Program in the artifact" value={form.entrypoint} onChange={(entrypoint) => set({ entrypoint })} mono wrong={wrongOf(error, "execution.entrypoint")} />
          <div className="full">
            <Pairs label="Environment" names={["Name", "Value"]} value={form.env} onChange={(env) => set({ env })} wrong={wrongOf(error, "execution.env")} hint="The program gets few other variables." />
          </div>
        </div>
      )}
      {form.target === "worker" && (
        <div className="formgrid">
          <TextField label="Handler kind" value={form.kind} onChange={(kind) => set({ kind })} mono wrong={wrongOf(error, "execution.kind")} hint="A worker with this handler runs the job." />
        </div>
      )}
      {form.target === "simulate" && (
        <div className="formgrid">
          <SelectField label="Work" value={form.work} onChange={(work) => set({ work })} options={works.map((w): [string, string] => [w, w])} wrong={wrongOf(error, "execution.work_kind")} />
          <TextField label="Takes, ms" value={form.workMs} onChange={(workMs) => set({ workMs })} inputMode="numeric" wrong={wrongOf(error, "execution.duration_ms")} />
          {(form.work === "flaky" || form.failAttempts !== "") && <TextField label="Attempts that fail first" value={form.failAttempts} onChange={(failAttempts) => set({ failAttempts })} inputMode="numeric" wrong={wrongOf(error, "execution.fail_attempts")} />}
        </div>
      )}
    </section>
  );
}

function Pairs({ label, names, value, onChange, hint, wrong }: { label: string; names: [string, string]; value: [string, string][]; onChange: (v: [string, string][]) => void; hint: string; wrong: string | undefined }) {
  const put = (i: number, p: [string, string]) => onChange(value.map((x, k) => (k === i ? p : x)));
  return (
    <fieldset className="field">
      <legend>{label}</legend>
      <div className="form-pairs">
        {value.map(([k, v], i) => (
          <div key={i}>
            <input className="input mono" aria-label={names[0]} value={k} onChange={(e) => put(i, [e.target.value, v])} spellCheck={false} />
            <input className="input mono" aria-label={names[1]} value={v} onChange={(e) => put(i, [k, e.target.value])} spellCheck={false} autoComplete="off" />
            <Button kind="ghost" icon="close" aria-label={`Remove ${k || "the empty line"}`} onClick={() => onChange(value.filter((_, x) => x !== i))} />
          </div>
        ))}
      </div>
      <div className="row">
        <Button small icon="plus" onClick={() => onChange([...value, ["", ""]])}>
          Add
        </Button>
        <span>
          {wrong && <span className="wrong">{wrong} </span>}
          <span className="hint">{hint}</span>
        </span>
      </div>
    </fieldset>
  );
}

export function Policies({ form, set, error }: Props) {
  const recurs = form.type === "CRON" || form.type === "INTERVAL";
  const num = (field: keyof Form, label: string, path: string, hint: string) => <TextField label={label} value={form[field] as string} onChange={(v) => set({ [field]: v })} inputMode="numeric" wrong={wrongOf(error, path)} hint={hint} />;
  return (
    <section className="panel stack" aria-label="How it behaves">
      <h2>How it behaves</h2>
      <div className="formgrid">
        {num("timeout", "Attempt timeout, s", "execution.timeout_seconds", "300 when empty.")}
        {num("retries", "Retries", "retry_policy.max_retries", "3 when empty.")}
        {recurs && (
          <SelectField
            label="While an earlier run is unfinished"
            value={form.overlap}
            onChange={(overlap) => set({ overlap })}
            options={[
              ["allow", "run beside it"],
              ["skip", "skip"],
              ["queue", "wait for it to finish"],
              ["replace", "cancel the earlier one"],
            ]}
            wrong={wrongOf(error, "overlap")}
          />
        )}
        {recurs && (
          <SelectField
            label="Missed runs"
            value={form.catchUp}
            onChange={(catchUp) => set({ catchUp })}
            options={[
              ["latest", "run the latest"],
              ["all", "run all"],
              ["none", "let it go"],
            ]}
            wrong={wrongOf(error, "catch_up")}
          />
        )}
      </div>
      <More summary="Backoff, priority, queue, limits, expiry" error={error}>
        <div className="formgrid">
          <SelectField
            label="Back-off"
            value={form.backoff}
            onChange={(backoff) => set({ backoff })}
            options={[
              ["", "server default"],
              ["EXPONENTIAL", "exponential"],
              ["LINEAR", "linear"],
              ["FIXED", "fixed"],
            ]}
            wrong={wrongOf(error, "retry_policy.backoff")}
          />
          {num("delay", "First delay, ms", "retry_policy.initial_delay_ms", "1000 when empty.")}
          {num("maxDelay", "Longest delay, ms", "retry_policy.max_delay_ms", "60000 when empty.")}
          {num("stall", "Stalled after, s", "execution.stall_timeout_seconds", "without progress.")}
          {num("total", "Total timeout, s", "execution.total_timeout_seconds", "from the first start.")}
          {form.catchUp === "all" && num("catchUpLimit", "Maximum caught-up runs", "catch_up_limit", "of the latest; 100 when empty.")}
          {num("priority", "Priority", "priority", "1 (first) to 10; 5 when empty.")}
          <TextField label="Queue" value={form.queue} onChange={(queue) => set({ queue })} wrong={wrongOf(error, "queue")} placeholder="default" />
          <TextField label="Worker labels" value={form.labels} onChange={(labels) => set({ labels })} wrong={wrongOf(error, "labels")} hint="Labels that a worker must have, separated by commas." />
          {num("maxConcurrent", "Concurrency limit", "max_concurrent", "executions of this job, or of each key.")}
          <TextField label="Concurrency key" value={form.concurrencyKey} onChange={(concurrencyKey) => set({ concurrencyKey })} mono wrong={wrongOf(error, "concurrency_key")} placeholder="payload.customer_id" />
          {num("rateCount", "Rate limit", "rate_limit.count", "starts per period.")}
          <TextField label="Period" value={form.ratePer} onChange={(ratePer) => set({ ratePer })} mono wrong={wrongOf(error, "rate_limit.per")} placeholder="1m" />
          {form.rateCount.trim() !== "" && num("rateBurst", "Burst", "rate_limit.burst", "Empty: a tenth of a second's worth.")}
          <TextField label="Unique key" value={form.uniqueKey} onChange={(uniqueKey) => set({ uniqueKey })} wrong={wrongOf(error, "unique_key")} hint="One unfinished execution at a time." />
          <TextField label="Expires after" value={form.expires} onChange={(expires) => set({ expires })} mono wrong={wrongOf(error, "expires_after")} placeholder="1h" hint="An execution that has not started by then expires." />
          <TextField label="Redrive dead letters after" value={form.redrive} onChange={(redrive) => set({ redrive })} mono wrong={wrongOf(error, "auto_redrive_after")} placeholder="6h" hint="Once, automatically." />
          {num("keepDays", "Keep history", "retention.days", "days; empty, or more than the tenant's: as long as the tenant's.")}
          {form.keepDays.trim() !== "" && num("keepFailed", "Keep failures", "retention.failed_days", "days; empty: as long as the rest.")}
        </div>
      </More>
    </section>
  );
}
