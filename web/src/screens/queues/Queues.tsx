// Queues: how much waits in each, for how long, and what holds it back.

import { useState } from "react";
import type { ScreenProps } from "..";
import { isProblem, useGet, useLive, useRefresh, type Workers } from "../../api";
import { Link, navigate } from "../../router";
import { useMay, useSession } from "../../session";
import { Button, count, duration, Duration, Empty, ErrorBox, Head, Loading, State, Table, useCommands, useHotkeys, useSelection, type Column, type Selection } from "../../ui";
import { sh } from "../../ui/ask";
import { Meter } from "../../ui/meter";
import { QueuePlot } from "../now/plots";
import { holding, limitWords, useQueues, whole, type Queue, type Queues as Known } from "./data";
import { LimitDialog } from "./LimitDialog";
import { PauseDialog, useResume } from "./PauseDialog";
import { ThroughputPlot } from "./plots";
import { Throttled } from "./Throttled";
import "./queues.css";

/** What is asked for in a dialog: a limit of a queue ("" asks which, null is the tenant), or a pause of queues. */
type Asked = { limit: string | null } | { pause: string[] };

export default function Queues({ params }: ScreenProps) {
  const known = useQueues();
  const refresh = useRefresh();
  const live = useLive({ refresh: () => refresh("/admin/queue/status", "/queues") });
  const may = { limit: useMay("admin"), pause: useMay("operator") };
  const [asked, setAsked] = useState<Asked>();
  const name = params["name"];
  const selected = useSelection("queues");
  const resume = useResume();
  const chosen = name === undefined ? [...selected.ids] : [name];
  const paused = chosen.map((queue) => ({ queue, pause: known.limits.find((l) => l.queue === queue)?.pause ?? null })).filter((q) => q.pause !== null);
  const toggle = () => {
    if (chosen.length > 0 && paused.length === chosen.length) {
      resume(paused);
      selected.set(new Set());
    } else if (chosen.length > 0) setAsked({ pause: chosen });
  };
  useHotkeys(may.limit ? [{ keys: "l", label: name ? "Limit this queue" : "Limit a queue", run: () => setAsked({ limit: name ?? "" }) }] : []);
  useHotkeys(may.pause && chosen.length > 0 ? [{ keys: "p", label: (paused.length === chosen.length ? "Resume" : "Pause") + (name ? "" : " the selected queues"), run: toggle }] : []);
  useCommands([
    ...known.rows.map((q) => ({ label: "Queue " + q.queue, note: "queue", run: () => navigate("/queues/" + encodeURIComponent(q.queue)) })),
    ...(may.limit ? [{ label: "Limit the tenant", note: "limit", run: () => setAsked({ limit: null }) }] : []),
    ...(may.pause && name !== undefined ? [{ label: (paused.length ? "Resume " : "Pause ") + name, note: "p", run: toggle }] : []),
  ]);
  return (
    <>
      {name === undefined ? <All known={known} may={may} region={live.region} ask={setAsked} selected={selected} resume={resume} /> : <One name={name} known={known} may={may} ask={setAsked} resume={resume} />}
      {asked && "limit" in asked && <LimitDialog queue={asked.limit} onClose={() => setAsked(undefined)} />}
      {asked && "pause" in asked && (
        <PauseDialog
          queues={asked.pause}
          onClose={() => {
            setAsked(undefined);
            selected.set(new Set());
          }}
        />
      )}
    </>
  );
}

type Parts = { known: Known; may: { limit: boolean; pause: boolean }; ask: (a: Asked) => void; resume: ReturnType<typeof useResume> };

function All({ known, may, ask, resume, region, selected }: Parts & { region: object; selected: Selection }) {
  const { status: s, rows, system } = known;
  const session = useSession();
  const waiting = rows.reduce((n, q) => n + (q.waiting ?? 0), 0);
  const stuck = rows.filter((q) => ["DEAD", "PAUSED"].includes(holding(q).state));
  const columns: Column<Queue>[] = [
    {
      id: "queue",
      head: "Queue",
      lead: true,
      cell: (q) => (
        <Link className="name wrap" to={"/queues/" + encodeURIComponent(q.queue)}>
          {q.queue}
        </Link>
      ),
    },
    {
      id: "state",
      head: "State",
      cell: (q) => {
        const h = holding(q);
        return <State of={h.state} word={h.word} tip={h.why} />;
      },
    },
    { id: "waiting", head: "Waiting", label: "waiting", num: true, cell: (q) => (q.waiting === null ? <span className="dim">–</span> : (q.waiting >= 10_000 ? "≥ " : "") + count(q.waiting)) },
    { id: "oldest", head: "Oldest waiting", label: "oldest", num: true, cell: (q) => <Duration ms={q.oldest === null ? null : q.oldest * 1000} /> },
    { id: "running", head: "Running, of slots", label: "running", cell: (q) => (q.running === null ? <span className="dim">–</span> : <Meter label={`Slots of ${q.queue} in use`} value={q.running} limit={q.slots} />) },
    { id: "limit", head: "Limit", label: "limit", cell: (q) => <span className={q.limit ? "" : "dim"}>{limitWords(q.limit)}</span> },
    ...(may.pause || may.limit
      ? [
          {
            id: "do",
            head: <span className="sr">Actions</span>,
            num: true,
            cell: (q: Queue) => (
              <span className="row end">
                {may.pause && <PauseButton q={q} small ask={ask} resume={resume} />}
                {may.limit && (
                  <Button small onClick={() => ask({ limit: q.queue })} aria-label={"Limit " + q.queue}>
                    Limit
                  </Button>
                )}
              </span>
            ),
          },
        ]
      : []),
  ];
  return (
    <>
      <Head
        title="Queues"
        actions={
          may.limit && (
            <>
              <Button onClick={() => ask({ limit: null })}>Limit the tenant</Button>
              <Button onClick={() => ask({ limit: "" })}>Limit a queue</Button>
            </>
          )
        }
      >
        <p className="dim" role="status">
          {known.counted && sentence(waiting, stuck)}
          {system && session && session.kind !== "none" && " Over all tenants."}
        </p>
      </Head>
      {s && (
        <div className="queues-tiles">
          <Tile label="Waiting" value={count(s.pending)} note={s.paused > 0 ? `${count(s.paused)} in paused queues` : s.oldest_pending_seconds === null ? "nothing waits" : "the oldest for " + duration(s.oldest_pending_seconds * 1000)} tone={s.pending > s.paused && s.active_workers === 0 ? "bad" : undefined} />
          <Tile label="Running" value={count(s.in_progress)} note={`of ${count(s.slots)} slots`} />
          <Tile label="Wait, last 5 min" value={duration(s.average_wait_seconds_5m * 1000)} note={`longest in 24 h ${duration(s.max_wait_seconds * 1000)}`} tone={s.average_wait_seconds_5m > 5 ? "warn" : undefined} />
          <Tile label="Succeeded, 24 h" value={count(s.completed_24h)} note={s.completed_24h < 1440 ? "less than one a minute" : `${count(Math.round(s.completed_24h / 1440))} a minute`} />
          <Tile label="Failed, 24 h" value={count(s.failed_24h)} note={`${count(s.retried_24h)} attempts retried`} tone={s.failed_24h > 0 ? "warn" : undefined} />
        </div>
      )}
      <div {...region} className="stack">
        <Table label="Queues" page={whole(rows, known.query)} columns={columns} id={(q) => q.queue} {...(may.pause ? { selected } : {})} open={(q) => "/queues/" + encodeURIComponent(q.queue)} empty={<Empty title="No queues yet">A queue exists as soon as a job names it.</Empty>} />
      </div>
      {known.own && (
        <p className="dim">
          All of the tenant together: {limitWords(known.own)}.
        </p>
      )}
      <div className="cols">
        <QueuePlot waiting={known.counted ? waiting : undefined} {...(system ? { scope: "installation" } : {})} />
        <ThroughputPlot status={s} system={system} />
      </div>
      <Throttled />
    </>
  );
}

/** PauseButton pauses a queue, or resumes it. */
function PauseButton({ q, small, ask, resume }: { q: Queue; small?: boolean } & Pick<Parts, "ask" | "resume">) {
  return q.pause ? (
    <Button small={small ?? false} onClick={() => resume([q])} aria-label={"Resume " + q.queue}>
      Resume
    </Button>
  ) : (
    <Button small={small ?? false} onClick={() => ask({ pause: [q.queue] })} aria-label={"Pause " + q.queue}>
      Pause
    </Button>
  );
}

function sentence(waiting: number, stuck: Queue[]): string {
  if (waiting === 0 && stuck.length === 0) return "Nothing waits.";
  const held = stuck.map((q) => `${q.queue}: ${holding(q).why.replace(/\.$/, "")}`).join("; ");
  return `${count(waiting)} wait${waiting === 1 ? "s" : ""}.` + (held ? ` Held back: ${held}.` : "");
}

function Tile({ label, value, note, tone }: { label: string; value: string; note: string; tone?: "bad" | "warn" | undefined }) {
  return (
    <div className={"panel queues-tile" + (tone ? " " + tone : "")}>
      <span className="dim small">{label}</span>
      <span className="big">{value}</span>
      <span className="dim small">{note}</span>
    </div>
  );
}

function One({ name, known, may, ask, resume }: Parts & { name: string }) {
  const q: Queue = known.rows.find((r) => r.queue === name) ?? { queue: name, waiting: 0, running: 0, slots: null, oldest: null, limit: undefined, pause: null };
  const workers = useGet<Workers>("/workers", { limit: 200 }, { every: 10_000 });
  const serving = (workers.data?.workers ?? []).filter((w) => w.status !== "DEAD" && (w.queues.length === 0 || w.queues.includes(name)));
  const h = holding(q);
  const named = /^[a-z0-9][a-z0-9._-]{0,127}$/.test(name); // no queue can have another name
  return (
    <>
      <Head title={name} crumb={<Link to="/queues">Queues</Link>} actions={
          <>
            {may.pause && named && <PauseButton q={q} ask={ask} resume={resume} />}
            {may.limit && named && <Button onClick={() => ask({ limit: name })}>Limit</Button>}
          </>
        }
      >
        <div className="row">
          <State of={h.state} word={h.word} />
          <span className="dim">{h.why}</span>
        </div>
      </Head>
      {known.query.isPending && <Loading lines={2} />}
      {known.query.isError && !isProblem(known.query.error, 403, 404) && <ErrorBox error={known.query.error} />}
      <div className="cols">
        <section className="panel" aria-label="Status">
          <h2>Status</h2>
          <dl className="facts">
            <dt>Waiting</dt>
            <dd>{q.waiting === null ? "–" : count(q.waiting)}</dd>
            <dt>Oldest waiting</dt>
            <dd>
              <Duration ms={q.oldest === null ? null : q.oldest * 1000} />
            </dd>
            <dt>Running</dt>
            <dd>{q.running === null ? "–" : <Meter label="Slots in use" value={q.running} limit={q.slots} />}</dd>
            <dt>Limit</dt>
            <dd>{q.limit?.max_concurrent && q.running !== null ? <Meter label="Of its limit" value={q.running} limit={q.limit.max_concurrent} text={limitWords(q.limit)} /> : limitWords(q.limit)}</dd>
          </dl>
        </section>
        <section className="panel stack" aria-label="Workers that serve it">
          <h2>Workers that serve it</h2>
          {workers.data && serving.length === 0 && <Empty title="No worker serves this queue" command={`carillon worker --server ${location.origin} --token $CARILLON_TOKEN --queues ${sh(name)}`} />}
          <ul className="queues-why">
            {serving.slice(0, 12).map((w) => (
              <li key={w.worker_id} className="row">
                <State of={w.status} />
                <Link className="grow wrap" to={"/workers/" + w.worker_id}>
                  {w.host}
                </Link>
                <Meter label={"Load of " + w.host} value={w.running} limit={w.capacity} />
              </li>
            ))}
            {serving.length > 12 && <li className="dim small">and {count(serving.length - 12)} more</li>}
          </ul>
        </section>
      </div>
      <QueuePlot queue={name} waiting={known.counted ? q.waiting : undefined} {...(known.system ? { scope: "installation" } : {})} />
      {named && <Throttled queue={name} />}
    </>
  );
}
