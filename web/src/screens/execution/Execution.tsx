// Execution: what became of it and why, where its time went, what it wrote, and running it again.

import type { UseQueryResult } from "@tanstack/react-query";
import { useState } from "react";
import { finalStatuses, isProblem, newKey, post, useGet, useLive, useRefresh, type Events, type Explanation, type Job, type Report, type Worker, type Workers } from "../../api";
import { Link, navigate, withParams } from "../../router";
import { useDeadLetters, useMay } from "../../session";
import { Button, Confirm, CopyAs, ErrorBox, failed, Head, Id, LinkButton, Loading, Menu, State, Tabs, toast, useCommands, useHotkeys } from "../../ui";
import { CancelDialog, cancelWaiting, payloadOf, redriveNow, RerunDialog, retryNow, type Whole } from "./actions";
import { Compare } from "./compare";
import { LogView } from "./log";
import { Attempts, EventTable, Exchange, Facts } from "./parts";
import { Timeline } from "./timeline";
import { Why } from "./why";
import type { RunOf, WorkflowOf } from "../workflows/data";
import type { ScreenProps } from "..";
import "./execution.css";

export default function Execution({ params }: ScreenProps) {
  const id = params["id"] ?? "";
  return <One key={id} id={id} />;
}

const waitFor = (q: { error: Error | null; refetch: () => unknown }) => (q.error ? <ErrorBox error={q.error} what="Its attempts could not be loaded" retry={() => void q.refetch()} /> : <Loading />);

const waiting = ["WAITING", "PENDING", "RETRYING"];

/** useOrigin reads what an execution belongs to: a job, or a node that a workflow describes in itself, which has no job that could be read. */
function useOrigin(e: Whole | undefined, why: UseQueryResult<Explanation>) {
  const { workflow_run_id: run, node } = why.data?.details ?? {};
  const r = useGet<RunOf>(node && run ? "/workflow-runs/" + run : undefined).data;
  const flow = useGet<WorkflowOf>(r && "/workflows/" + r.workflow_id, { version: r?.version });
  const def = flow.data?.nodes?.find((n) => n.key === node);
  const maybe = e !== undefined && ["workflow", "retry", "redrive"].includes(e.trigger); // no other executions are those of nodes
  const plain = maybe ? why.isError || (why.data !== undefined && (!node || def?.job_id !== undefined)) : e !== undefined;
  const job = useGet<Job>(plain ? "/jobs/" + e?.job_id : undefined).data;
  const inNode = !plain && run && node ? { key: node, run, at: `/workflow-runs/${run}?node=${node}`, flow: flow.data, def } : undefined;
  return { job, node: inNode, at: inNode?.at ?? "/jobs/" + e?.job_id };
}

function One({ id }: { id: string }) {
  const path = "/executions/" + encodeURIComponent(id);
  const [open, setOpen] = useState<"rerun" | "cancel" | "discard" | undefined>();
  const [every, setEvery] = useState<number | undefined>();
  const tick = every === undefined ? {} : { every };
  const query = useGet<Whole>(path, undefined, tick);
  const e = query.data;
  const report = useGet<Report>(e && path + "/report", undefined, tick);
  const events = useGet<Events>(e && path + "/events", { limit: 1000 });
  const why = useGet<Explanation>(e && path + "/explain", undefined, tick);
  const { job: j, node, at } = useOrigin(e, why);
  const workers = useGet<Workers>(e?.worker_id ? "/workers" : undefined, { limit: 200 });
  const holder = useGet<Worker>(e?.worker_id && (e.status === "RUNNING" || e.status === "CANCELLING") ? "/workers/" + e.worker_id : undefined, undefined, tick);
  const refresh = useRefresh();
  useLive({ match: (c) => c.execution_id === id, refresh: () => refresh(path) });
  const may = useMay("operator");
  const over = e !== undefined && finalStatuses.includes(e.status);
  // Progress and heartbeats are not told by the stream: they are asked for while it lives.
  const wanted = e === undefined || over ? undefined : e.status === "RUNNING" || e.status === "CANCELLING" ? 2000 : 5000;
  if (wanted !== every) setEvery(wanted);

  const list = events.data?.events ?? [];
  const again = list.filter((x) => x.type === "rerun" && x.detail).map((x) => x.detail ?? "");
  const discarded = list.some((x) => x.type === "discarded");
  const failedForGood = e !== undefined && (e.status === "FAILED" || e.status === "TIMED_OUT");
  const letters = useDeadLetters();
  const dead = failedForGood && events.data !== undefined && again.length === 0 && !discarded && letters?.has === true;
  const host = (w: string | null) => (w === null ? "–" : ((h) => (h ? `${h.host} (${w.slice(-6)})` : "…" + w.slice(-12)))(holder.data?.worker_id === w ? holder.data : workers.data?.workers.find((x) => x.worker_id === w)));
  const beatAt = e && (e.status === "RUNNING" || e.status === "CANCELLING") ? holder.data?.last_beat_at : undefined;

  const retry = () => (dead ? redriveNow(id, refresh) : void retryNow(id, {}, newKey(), refresh).catch(failed));
  const cancel = () => (e && waiting.includes(e.status) ? cancelWaiting(e, refresh) : setOpen("cancel"));
  const canCancel = may && e !== undefined && !over && e.status !== "CANCELLING";
  const canRetry = may && over;
  const compare = () => navigate(withParams({ tab: "compare" }));
  useHotkeys([
    ...(canRetry ? [{ keys: "r", label: "Run it again", run: retry }, { keys: "e", label: "Run it again with an edited payload", run: () => setOpen("rerun") }] : []),
    ...(canCancel ? [{ keys: "c", label: "Cancel it", run: cancel }] : []),
    { keys: "l", label: "Its log", run: () => navigate(withParams({ tab: "log" })) },
    { keys: "o", label: node ? "Its run" : "Its job", run: () => e && navigate(at) },
  ]);
  useCommands([
    ...(canRetry ? [{ label: "Run this execution again", note: "r", run: retry }, { label: "Run it again with an edited payload", note: "e", run: () => setOpen("rerun") }] : []),
    ...(canCancel ? [{ label: "Cancel this execution", note: "c", run: cancel }] : []),
    { label: "Compare with the last success", run: compare },
  ]);

  if (query.isError && !e)
    return isProblem(query.error, 404) ? (
      <>
        <Head title="No such execution" crumb={<Link to="/executions">Executions</Link>} />
        <p className="dim">
          There is none with the id <code className="wrap">{id}</code>. It may be older than history is kept, or belong to another tenant.
        </p>
        <div className="row">
          <LinkButton to="/executions">All executions</LinkButton>
        </div>
      </>
    ) : (
      <ErrorBox error={query.error} retry={() => void query.refetch()} />
    );
  if (!e) return <Loading lines={10} />;
  return (
    <>
      <Head
        title={e.job_name}
        crumb={
          <>
            <Link to="/executions">Executions</Link> / <Link to={at}>{e.job_name}</Link>
          </>
        }
        actions={
          <>
            {j?.execution.target === "workflow" && <LinkButton to={"/workflow-runs/" + e.execution_id}>Open the run</LinkButton>}
            {canCancel && (
              <Button className="danger" onClick={cancel}>
                Cancel
              </Button>
            )}
            {canRetry && (
              <>
                <Button kind="primary" icon="play" onClick={retry}>
                  {dead ? "Redrive" : "Run again"}
                </Button>
                <Button onClick={() => setOpen("rerun")}>Edit and run…</Button>
              </>
            )}
            <CopyAs link={"/x/" + e.execution_id} cli={`carillon execution get ${e.execution_id}`} curl={{ method: "GET", path: "/executions/" + e.execution_id }} {...(payloadOf(e, j) !== undefined && payloadOf(e, j) !== null ? { yaml: payloadOf(e, j) } : {})} />
            <Menu
              label="More"
              icon="more"
              kind="ghost"
              items={[
                { label: "Compare with the last success", run: compare },
                { label: node ? "Other executions of this node" : "Other executions of this job", run: () => navigate("/executions?q=" + encodeURIComponent("job:" + e.job_id)) },
                ...(e.worker_id ? [{ label: "Other executions of its worker", run: () => navigate("/executions?q=" + encodeURIComponent("worker:" + e.worker_id)) }] : []),
                ...(dead && may ? (["line", { label: "Discard the dead letter…", danger: true, run: () => setOpen("discard") }] as const) : []),
              ]}
            />
          </>
        }
      >
        <div className="row">
          <State of={e.status} />
          {dead && <State of={why.data && ["ATTEMPTS_EXHAUSTED", "NOT_RETRYABLE", "POISON"].includes(why.data.code) ? why.data.code : "DEAD"} word={why.data?.code === "POISON" ? "Poison, dead letter" : "Dead letter"} tip="It failed for good. It stays a dead letter until someone redrives or discards it." />}
          {discarded && <State of="DELETED" word="Discarded" tip="The dead letter was discarded; the execution stays." />}
          <Id of={e.execution_id} />
          {why.data?.details.node && (
            <span>
              <span className="dim">node</span> <Link to={`/workflow-runs/${why.data.details.workflow_run_id}?node=${why.data.details.node}`}>{why.data.details.node}</Link>
              {why.data.details.item !== undefined && <span className="dim">, item {why.data.details.item}</span>}
            </span>
          )}
          {e.retry_of && (
            <span>
              <span className="dim">{e.trigger === "redrive" ? "redrive" : "retry"} of</span> <Link to={"/executions/" + e.retry_of}>…{e.retry_of.slice(-12)}</Link>
            </span>
          )}
          {again.map((x) => (
            <span key={x}>
              <span className="dim">run again as</span> <Link to={"/executions/" + x}>…{x.slice(-12)}</Link>
            </span>
          ))}
        </div>
      </Head>
      {e.progress && !over && (
        <div className="row execution-progress">
          <progress max={100} value={e.progress.percent} aria-label="Progress" />
          <span>
            {e.progress.percent} % <span className="dim wrap">{e.progress.message}</span>
          </span>
        </div>
      )}
      {why.data && <Why e={e} x={why.data} j={j} at={at} />}
      {why.isError && !why.data && <ErrorBox error={why.error} what="The explanation could not be loaded" />}
      {report.data && <Timeline e={e} report={report.data} events={list} beat={beatAt ? Date.parse(beatAt) : undefined} host={host} />}
      <Facts e={e} j={j} node={node} host={host} jobZone={j?.schedule.timezone} />
      <Tabs
        label="Parts of the execution"
        tabs={[
          { id: "attempts", label: report.data && report.data.attempts.length > 1 ? `Attempts (${report.data.attempts.length})` : "Attempts", content: () => (report.data ? <Attempts e={e} report={report.data} events={list} host={host} /> : waitFor(report)) },
          { id: "log", label: "Log", content: () => <LogView e={e} /> },
          { id: "exchange", label: "Request and response", content: () => <Exchange e={e} j={j} node={node} report={report.data} /> },
          { id: "events", label: "Events", content: () => <EventTable events={list} total={events.data?.pagination.total ?? 0} host={host} /> },
          { id: "compare", label: "Compare", content: () => (report.data ? <Compare e={e} j={j} report={report.data} host={host} /> : waitFor(report)) },
        ]}
      />
      {open === "rerun" && <RerunDialog e={e} j={j} onClose={() => setOpen(undefined)} />}
      {open === "cancel" && <CancelDialog e={e} onClose={() => setOpen(undefined)} />}
      {open === "discard" && (
        <Confirm
          title="Discard the dead letter"
          action="Discard"
          danger
          cli={`carillon dlq discard ${e.execution_id}`}
          onClose={() => setOpen(undefined)}
          run={() =>
            post("/dead-letters:discard", { ids: [e.execution_id] }).then(() => {
              toast("Discarded");
              void refresh(path, "/dead-letters");
            })
          }
        >
          <p>It is removed from the dead letters. The execution stays in the history, and you can still run it again.</p>
        </Confirm>
      )}
    </>
  );
}
