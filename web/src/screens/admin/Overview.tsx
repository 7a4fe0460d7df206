// Overview: what the tenant may have and has, and, for those who run the installation, how it does.

import { useState } from "react";
import { download, isProblem, useGet, type Overview as Judged, type QueueStatus, type Workers } from "../../api";
import { Link } from "../../router";
import { useMay, useSession } from "../../session";
import { Button, count, CommandLine, counted, duration, ErrorBox, failed, Head, Loading, State, Time, wordOf } from "../../ui";
import { amiss, stateOf, Verdict } from "../now/verdict";
import { useSystem } from "../queues/data";
import { useProbe } from "./parts";
import { SizesPanel } from "./Sizes";
import { QuotaFacts } from "./Tenants";
import type { Allowance } from "./types";

export function Overview() {
  const q = useGet<Allowance>("/quotas", undefined, { every: 30_000 });
  const session = useSession();
  const system = useMay("system") && session !== undefined;
  const a = q.data;
  return (
    <>
      <Head title="Admin">
        {session && session.kind !== "none" && (
          <p className="dim">
            You are {session.name}, {session.role} of {session.tenant_id === "*" ? "every tenant" : session.tenant_id}.
          </p>
        )}
      </Head>
      <Health />
      {system && <SizesPanel allowance={a} />}
      <section className="panel stack" aria-label="Quotas">
        <div className="row">
          <h2 className="grow">What {a ? a.tenant_id : "the tenant"} may have</h2>
          {a && <span className="tag">tier {a.tier}</span>}
        </div>
        {q.isError && !a ? <ErrorBox error={q.error} /> : !a ? <Loading lines={3} /> : <QuotaFacts quotas={a.quotas} usage={a.usage} overridden={a.overridden} />}
      </section>
    </>
  );
}

/** Bundle downloads what to send to whoever is asked for help. */
function Bundle() {
  const [busy, setBusy] = useState(false);
  const fetchIt = () => {
    setBusy(true);
    void download("/admin/support")
      .catch((e: unknown) => failed(e, "The support bundle was not downloaded"))
      .finally(() => setBusy(false));
  };
  return (
    <Button small disabled={busy} onClick={fetchIt} tip={"Version, settings, health, counts, metrics and log of the server that answers.\nNo secrets, payloads or results."}>
      {busy ? "Gathering…" : "Download support bundle"}
    </Button>
  );
}

type Finding = { what: string; state?: string; word?: string; shown?: React.ReactNode; text: React.ReactNode };

/** Health is what whoever runs the installation looks at first. */
function Health() {
  const may = useMay("system");
  const system = useSystem();
  const alive = useProbe("/healthz");
  const ready = useProbe("/readyz");
  const status = useGet<QueueStatus>(system ? "/admin/queue/status" : undefined, undefined, { every: 10_000 });
  const workers = useGet<Workers>("/workers", { limit: 1000 }, { every: 15_000 });
  const overview = useGet<Judged>("/overview", undefined, { every: 15_000 });
  const s = status.data;
  const o = overview.data;
  // What Now finds wrong is wrong here, too.
  const late = amiss(o, "schedules", "delays");
  const failing = amiss(o, "failures");
  const stuck = amiss(o, "workers");
  const also = (f: { text: string } | undefined) => f && `; ${f.text}`;
  const version = alive.data?.version;
  const living = (workers.data?.workers ?? []).filter((w) => w.status !== "DEAD");
  const able = living.filter((w) => w.status !== "DRAINING" && w.status !== "CORDONED");
  const others = living.filter((w) => version && w.version && w.version !== version);
  const list: Finding[] = [];
  if (o) list.push({ what: "Overall", shown: <Verdict of={o.health} />, text: <Link to="/">{o.sentence}</Link> });
  list.push({
    what: "Server",
    ...(alive.data?.ok ? { state: "ACTIVE", word: "Alive" } : alive.isPending ? { state: "PENDING", word: "…" } : { state: "DEAD", word: "Silent" }),
    text: (
      <>
        version <span className="mono">{version ?? "unknown"}</span>
      </>
    ),
  });
  list.push({ what: "Store", ...(ready.data?.ok ? { state: "ACTIVE", word: "Ready" } : ready.isPending ? { state: "PENDING", word: "…" } : { state: "FAILED", word: "Not ready" }), text: ready.data?.ok ? "reachable, with free space, and up to date" : (ready.data?.said ?? "") });
  if (workers.data)
    list.push({
      what: "Workers",
      ...(able.length === 0 ? { state: "DEAD", word: living.length === 0 ? "None" : "None takes new work" } : others.length > 0 ? { state: "LATE", word: "Mixed" } : { state: "ACTIVE", word: "Healthy" }),
      text: (
        <>
          <Link to="/workers">{count(able.length)}</Link> with {counted(able.reduce((n, w) => n + w.capacity, 0), "slot")}
          {["DRAINING", "CORDONED"].map((state) => ((n) => n > 0 && `; ${count(n)} ${wordOf(state).toLowerCase()}`)(living.filter((w) => w.status === state).length))}
          {others.length > 0 && `; ${count(others.length)} of another version than this server`}
        </>
      ),
    });
  if (s) {
    list.push({
      what: "Queues",
      ...(stuck || (s.pending > 0 && s.active_workers === 0) ? { state: "DEAD", word: "Stuck" } : s.average_wait_seconds_5m > 5 ? { state: "LATE", word: "Slow" } : { state: "ACTIVE", word: "Healthy" }),
      text: (
        <>
          <Link to="/queues">
            {count(s.pending)} waiting
          </Link>
          , {count(s.in_progress)} running; {duration(s.average_wait_seconds_5m * 1000)} of waiting in the last 5 min
        </>
      ),
    });
    list.push({
      what: "Schedules",
      ...(late ? { state: stateOf(late.health), word: "Late" } : s.overdue_jobs > 0 ? { state: "LATE", word: "Late" } : { state: "ACTIVE", word: "On time" }),
      text: `${s.overdue_jobs_is_minimum ? "≥ " : ""}${count(s.overdue_jobs)} due for more than 5 s; fired ${duration(s.average_trigger_delay_seconds * 1000)} after their time on average${also(late) ?? ""}`,
    });
    list.push({
      what: "Outcomes, 24 h",
      ...(failing ? { state: stateOf(failing.health), word: "Failing" } : s.failed_24h > s.completed_24h ? { state: "FAILED", word: "Failing" } : { state: "ACTIVE", word: "Healthy" }),
      text: (
        <>
          {count(s.completed_24h)} succeeded, {count(s.failed_24h)} failed, {count(s.retried_24h)} attempts retried
          {also(failing)}
        </>
      ),
    });
    list.push({
      what: "Dead letters",
      ...(s.dead_letters > 0 ? { state: "LATE", word: "Some" } : { state: "ACTIVE", word: "None" }),
      text: (
        <Link to="/dead-letters">
          {s.dead_letters_is_estimate ? "about " : ""}
          {count(s.dead_letters)}
        </Link>
      ),
    });
  }
  return (
    <section className="panel stack" aria-label="Health">
      <div className="row">
        <h2 className="grow">{may ? "Health of the installation" : "Health"}</h2>
        {status.dataUpdatedAt > 0 && (
          <span className="dim small">
            as of <Time at={new Date(status.dataUpdatedAt).toISOString()} />
          </span>
        )}
      </div>
      {status.isError && !isProblem(status.error, 403, 404) && <ErrorBox error={status.error} />}
      <ul className="admin-health">
        {list.map((f) => (
          <li key={f.what}>
            <span className="what dim">{f.what}</span>
            {f.shown ?? <State of={f.state ?? ""} word={f.word ?? ""} />}
            <span className="grow wrap">{f.text}</span>
          </li>
        ))}
      </ul>
      <p className="dim small">To see how to fix each problem, run this where you can reach the server:</p>
      <div className="row">
        <CommandLine>{`carillon doctor --server ${location.origin}`}</CommandLine>
        {may && <Bundle />}
      </div>
    </section>
  );
}
