// JobForm: a new job, a copy of one, or a change of one. The schedule is shown in words and instants while it is typed.

import { useRef, useState, type FormEvent } from "react";
import { flaw, isProblem, newKey, patch, post, useGet, useRefresh, type Job } from "../../api";
import { Link, navigate, useGuard, useParam } from "../../router";
import { useMay } from "../../session";
import { asCurl, Button, copy, ErrorBox, Head, JsonEditor, Loading, toast, wrongOf } from "../../ui";
import { Policies, Target, What, When } from "./parts";
import { blank, changes, copyOf, droppedOf, fromJob, hello, toRequest, type Form } from "./state";
import type { ScreenProps } from "..";
import "./job-form.css";

export default function JobForm({ params }: ScreenProps) {
  const id = params["id"];
  const [clone] = useParam("clone");
  const [sample] = useParam("sample");
  const of = id ?? (clone || undefined);
  const query = useGet<Job>(of ? "/jobs/" + encodeURIComponent(of) : undefined, undefined, { fresh: true });
  const title = id ? "Edit job" : clone ? "Clone job" : "New job";
  // A change begins with the job as it is now, not as it was when someone last looked.
  if (of && (!query.data || !query.isFetchedAfterMount))
    return (
      <>
        <Head title={title} crumb={<Link to="/jobs">Jobs</Link>} />
        {query.isError ? <ErrorBox error={query.error} /> : <Loading />}
      </>
    );
  const job = query.data;
  const initial = job ? (id ? fromJob(job) : copyOf(job)) : sample === "hello" ? hello : blank;
  return <Editor key={(of ?? sample) + title} title={title} job={id ? job : undefined} initial={initial} />;
}

function Editor({ title, job, initial }: { title: string; job: Job | undefined; initial: Form }) {
  const [form, setForm] = useState(initial);
  const [base] = useState({ form: initial, revision: job?.revision });
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const key = useRef(newKey());
  const refresh = useRefresh();
  const may = useMay("operator");
  const set = (part: Partial<Form>) => setForm((f) => ({ ...f, ...part }));
  const dirty = JSON.stringify(form) !== JSON.stringify(base.form);
  const leave = useGuard(dirty, job ? "Leave without saving your changes?" : "Leave without creating this job?");
  const badPayload = form.payload.trim() !== "" && flaw(form.payload) !== undefined;
  const request = badPayload ? {} : toRequest(form);
  const change = job && !badPayload ? changes(toRequest(base.form), request) : {};
  const ready = !badPayload && form.name.trim() !== "" && !(job && Object.keys(change).length === 0);
  const submit = (e: FormEvent) => {
    e.preventDefault();
    if (!ready || busy) return;
    setBusy(true);
    setError(undefined);
    const path = job ? "/jobs/" + job.job_id : "/jobs";
    const sent = job ? patch<Job>(path, change, { headers: { "If-Match": String(base.revision) } }) : post<Job>(path, request, { key: key.current });
    sent.then(
      (j) => {
        toast(job ? `Saved as revision ${j.revision}${droppedOf(j)}` : `Created ${j.name}`, { bad: !!j.dropped_credentials });
        void refresh("/jobs");
        leave();
        navigate("/jobs/" + j.job_id);
      },
      (e: unknown) => {
        setError(e);
        setBusy(false);
        // What was refused may be corrected: what is sent then is another request. Where no answer came it may have been done, and the same
        // key keeps it from being done again.
        if (isProblem(e, 400, 422)) key.current = newKey();
        requestAnimationFrame(() => document.querySelector(".error")?.scrollIntoView({ block: "nearest" }));
      },
    );
  };
  const curl = () => asCurl(job ? { method: "PATCH", path: "/jobs/" + job.job_id, body: change } : { method: "POST", path: "/jobs", body: request });
  return (
    <>
      <Head
        title={job ? `Edit ${job.name}` : title}
        crumb={
          <>
            <Link to="/jobs">Jobs</Link>
            {job && (
              <>
                {" / "}
                <Link to={"/jobs/" + job.job_id}>{job.name}</Link>
              </>
            )}
          </>
        }
      />
      {!may && <p className="warn">Your role does not allow changing jobs.</p>}
      <form className="form stack wide" onSubmit={submit}>
        <What form={form} set={set} error={error} editing={job !== undefined} />
        <When form={form} set={set} error={error} />
        <Target form={form} set={set} error={error} />
        <section className="panel stack" aria-label="Payload">
          <h2>Payload</h2>
          <JsonEditor label="JSON payload" value={form.payload} onChange={(payload) => set({ payload })} rows={6} hint="Sent exactly as written; numbers stay exact. ${secret:name} inserts a secret." refused={wrongOf(error, "execution.payload")} />
        </section>
        <Policies form={form} set={set} error={error} />
        {error !== undefined && <ErrorBox error={error} what={whatOf(error, job !== undefined)} />}
        <div className="form-foot">
          <Button type="submit" kind="primary" disabled={!ready || busy || !may}>
            {busy ? "Saving…" : job ? "Save" : "Create job"}
          </Button>
          <Button onClick={() => history.back()}>Cancel</Button>
          <span className="grow" />
          <Button kind="ghost" icon="copy" disabled={!ready} onClick={() => copy(curl(), "curl line copied")}>
            Copy as curl
          </Button>
        </div>
      </form>
    </>
  );
}

/** whatOf says what an error means for the job: it may be there although no answer came. */
function whatOf(error: unknown, editing: boolean): string {
  if (isProblem(error) && error.code === "idempotency_key_reused") return "Your last request created a job; sending this creates another";
  if (isProblem(error, 0, 502, 504)) return editing ? "No answer: the job may have been changed" : "No answer: the job may have been created. Sending the same request again does not create a second one";
  return editing ? "The job was not changed" : "The job was not created";
}
