// Workers: who runs executions, how much each has to do, and whether it still breathes.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { ScreenProps } from "..";
import { isProblem, post, useFollowing, useGet, useLive, usePage, useRefresh, type Executions, type Worker } from "../../api";
import { Link, useParam } from "../../router";
import { useMay } from "../../session";
import { bytes, Button, Confirm, count, Duration, Empty, ErrorBox, failed, Head, Loading, percent, Segments, State, Table, Tags, Time, toast, useHotkeys, useNow, type Column } from "../../ui";
import { Meter } from "../../ui/meter";
import { Join, joinLine, Listening } from "./Join";
import { LeaseMap } from "./LeaseMap";
import "./workers.css";

export default function Workers({ params }: ScreenProps) {
  const id = params["id"];
  return id === undefined ? <All /> : <One id={id} />;
}

/** useVersion is the version of the server that this page came from. */
function useVersion(): string | undefined {
  return useQuery({ queryKey: ["healthz"], queryFn: () => fetch("/healthz").then((r) => r.json() as Promise<{ version: string }>), staleTime: 60_000, ...useFollowing() }).data?.version;
}

/** Version tells a worker's version, and whether it differs from the server's. */
function Version({ of, server }: { of: string; server: string | undefined }) {
  if (server === undefined || of === server || of === "") return <span className="mono">{of || "–"}</span>;
  return <State of="LATE" word={of} tip={`The server is ${server}: restart this worker with the same version.`} />;
}

/** Beat is when a worker was last heard of; one that is overdue stands out. */
function Beat({ w }: { w: Worker }) {
  const now = useNow();
  const late = w.status !== "DEAD" && now - Date.parse(w.last_beat_at) > 20_000;
  return (
    <span className={late ? "warn" : ""}>
      {late && "▲ "}
      <Time at={w.last_beat_at} />
    </span>
  );
}

/** Memory is the resident memory of a worker, of what it may use; a dash where it does not tell. */
function Memory({ w }: { w: Worker }) {
  const used = w.memory_used_bytes;
  const limit = w.memory_limit_bytes ?? null;
  if (used === undefined) return <span className="dim">–</span>;
  return <Meter label={"Memory of " + w.host} value={used} limit={limit} text={limit === null ? bytes(used) : `${bytes(used)} of ${bytes(limit)}`} />;
}

function All() {
  const [which, setWhich] = useParam("show", "living");
  const page = usePage<Worker>("/workers", "workers", { limit: 200 });
  const [cursor] = useParam("cursor");
  useGet("/workers", { limit: 200, cursor }, { every: 5000 }); // the same page again: beats are no events
  const refresh = useRefresh();
  const live = useLive({ match: (c) => c.type.startsWith("worker.") || c.type === "execution.started" || c.type === "execution.finished", refresh: () => refresh("/workers") });
  const may = useMay("operator");
  const server = useVersion();
  const [join, setJoin] = useState(false);
  const [drain, setDrain] = useState<Worker>();
  const all = page.rows;
  const living = all.filter((w) => w.status !== "DEAD");
  const rows = which === "all" ? all : living;
  useHotkeys([{ keys: "a", label: "Add a worker", run: () => setJoin(true) }]);
  const slots = living.filter((w) => w.status !== "DRAINING" && w.status !== "CORDONED").reduce((n, w) => n + w.capacity, 0);
  const running = living.reduce((n, w) => n + w.running, 0);
  const skewed = living.filter((w) => server !== undefined && w.version !== "" && w.version !== server).length;
  const columns: Column<Worker>[] = [
    {
      id: "host",
      head: "Worker",
      lead: true,
      cell: (w) => (
        <>
          <Link className="name wrap" to={"/workers/" + w.worker_id}>
            {w.host || "unnamed"}
          </Link>
          <span className="sub mono workers-id">{w.worker_id}</span>
        </>
      ),
    },
    { id: "status", head: "State", cell: (w) => <State of={w.status} /> },
    {
      id: "use",
      head: "Slots and memory",
      label: "slots and memory",
      cell: (w) => (
        <span className="workers-use">
          <Meter label={"Slots of " + w.host} value={w.running} limit={w.capacity} />
          <Memory w={w} />
        </span>
      ),
    },
    { id: "beat", head: "Last heartbeat", label: "beat", cell: (w) => <Beat w={w} /> },
    { id: "version", head: "Version", label: "version", cell: (w) => <Version of={w.version} server={server} /> },
    { id: "queues", head: "Queues", label: "queues", cell: (w) => (w.queues.length ? <Tags of={w.queues} to={(q) => "/queues/" + encodeURIComponent(q)} /> : <span className="dim">all</span>) },
    { id: "labels", head: "Labels", roomy: true, cell: (w) => <Tags of={w.labels} /> },
    { id: "targets", head: "Targets", roomy: true, cell: (w) => [...w.targets.filter((t) => t !== "worker" || w.kinds.length === 0), ...w.kinds.map((k) => "“" + k + "”")].join(", ") },
    { id: "done", head: "Completed", label: "completed", num: true, roomy: true, cell: (w) => count(w.completed) },
    { id: "failed", head: "Failed", label: "failed", num: true, cell: (w) => <span className={w.failed > 0 ? "" : "dim"}>{count(w.failed)}</span> },
    ...(may
      ? [
          {
            id: "do",
            head: <span className="sr">Actions</span>,
            num: true,
            cell: (w: Worker) =>
              w.status !== "DEAD" && (
                <span className="row end">
                  <Cordon w={w} small />
                  <Button small disabled={w.status === "DRAINING"} onClick={() => setDrain(w)} aria-label={"Drain " + w.host}>
                    Drain
                  </Button>
                </span>
              ),
          },
        ]
      : []),
  ];
  const none = page.query.isSuccess && living.length === 0 && page.first;
  // Whoever waits for the first worker sees it come, and what it turned green for stays.
  const [waited, setWaited] = useState<string[]>();
  if (none && waited === undefined) setWaited(all.map((w) => w.worker_id));
  return (
    <>
      <Head
        title="Workers"
        actions={
          <>
            <Segments label="Which" value={which} options={[["living", "Active"], ["all", "Include stopped"]]} onChange={(v) => setWhich(v)} />
            <Button icon="plus" onClick={() => setJoin(true)}>
              Add a worker
            </Button>
          </>
        }
      >
        {living.length > 0 && (
          <p className="dim" role="status">
            {count(living.length)} {living.length === 1 ? "worker runs" : "workers run"} {count(running)} of {count(slots)} at once ({percent(slots ? Math.round((running / slots) * 1000) / 1000 : 0)}).
            {skewed > 0 && ` ${count(skewed)} ${skewed === 1 ? "runs" : "run"} another version than the server.`}
          </p>
        )}
      </Head>
      {(none || waited) && (
        <div className="panel stack workers-none">
          {none && <Nobody />}
          {waited && <Listening known={waited} />}
        </div>
      )}
      {!(none && rows.length === 0) && (
        <Table label="Workers" page={{ ...page, rows }} columns={columns} id={(w) => w.worker_id} open={(w) => "/workers/" + w.worker_id} live={live} empty={<Nobody />} />
      )}
      {all.length > 0 && <LeaseMap workers={all} gone={which === "all"} />}
      {join && <Join known={all.map((w) => w.worker_id)} onClose={() => setJoin(false)} />}
      {drain && <Drain w={drain} onClose={() => setDrain(undefined)} />}
    </>
  );
}

function Nobody() {
  return (
    <Empty title="No worker: nothing runs" command={joinLine()}>
      Due executions wait for a worker. Start one anywhere that can reach this server, with a key of the role worker in CARILLON_TOKEN.
    </Empty>
  );
}

/** Cordon has a worker given nothing more, or ends that; either can be undone. */
function Cordon({ w, small }: { w: Worker; small?: boolean }) {
  const refresh = useRefresh();
  const name = w.host || "The worker";
  const on = w.status === "CORDONED";
  const set = (to: boolean) => post(`/workers/${w.worker_id}/${to ? "cordon" : "uncordon"}`).then(() => refresh("/workers"));
  const done = () => toast(on ? `${name} takes executions again` : `${name} gets no new executions`, { undo: () => void set(on).catch(failed) });
  return (
    <Button small={small ?? false} disabled={w.status === "DRAINING"} onClick={() => void set(!on).then(done, failed)} aria-label={(on ? "Uncordon " : "Cordon ") + name}>
      {on ? "Uncordon" : "Cordon"}
    </Button>
  );
}

function Drain({ w, onClose }: { w: Worker; onClose: () => void }) {
  const refresh = useRefresh();
  return (
    <Confirm
      title={`Drain ${w.host || w.worker_id}`}
      action="Drain"
      danger
      cli={"carillon workers drain " + w.worker_id}
      onClose={onClose}
      run={() =>
        post(`/workers/${w.worker_id}/drain`).then(() => {
          toast(`${w.host || "The worker"} is draining`);
          void refresh("/workers");
        })
      }
    >
      <p>
        It takes nothing more and finishes the {count(w.running)} it runs. This cannot be taken back: to have it work again, start it anew.
      </p>
    </Confirm>
  );
}

function One({ id }: { id: string }) {
  const q = useGet<Worker>("/workers/" + encodeURIComponent(id), undefined, { every: 5000 });
  const ran = useGet<Executions>("/executions", { worker_id: id, limit: 25 }, { every: 5000 });
  const may = useMay("operator");
  const server = useVersion();
  const [drain, setDrain] = useState(false);
  const w = q.data;
  const crumb = <Link to="/workers">Workers</Link>;
  const rows = ran.data?.executions ?? [];
  if (!w)
    return (
      <>
        <Head title="Worker" crumb={crumb} />
        {q.isPending ? <Loading /> : !isProblem(q.error, 404) ? <ErrorBox error={q.error} /> : <Empty title="This worker is gone">Workers stay listed for an hour after their last heartbeat. Its executions are below.</Empty>}
        {isProblem(q.error, 404) && <Ran rows={rows} />}
      </>
    );
  const total = w.completed + w.failed;
  return (
    <>
      <Head
        title={w.host || w.worker_id}
        crumb={crumb}
        actions={
          may &&
          w.status !== "DEAD" && (
            <>
              <Cordon w={w} />
              <Button className="danger" disabled={w.status === "DRAINING"} onClick={() => setDrain(true)}>
                Drain
              </Button>
            </>
          )
        }
      >
        <div className="row">
          <State of={w.status} />
          <span className="dim mono small">{w.worker_id}</span>
        </div>
      </Head>
      <div className="cols">
        <section className="panel" aria-label="About">
          <h2>About</h2>
          <dl className="facts">
            <dt>Load</dt>
            <dd>
              <Meter label="Load" value={w.running} limit={w.capacity} />
            </dd>
            <dt>Memory</dt>
            <dd>
              <Memory w={w} />
            </dd>
            <dt>Last heartbeat</dt>
            <dd>
              <Beat w={w} />
            </dd>
            <dt>Started</dt>
            <dd>
              <Time at={w.started_at} />
            </dd>
            <dt>Version</dt>
            <dd>
              <Version of={w.version} server={server} />
            </dd>
            <dt>Completed</dt>
            <dd>
              {count(w.completed)}
              {total > 0 && <span className="dim"> ({percent(w.completed / total)} of what it reported)</span>}
            </dd>
          </dl>
        </section>
        <section className="panel" aria-label="Serves">
          <h2>Serves</h2>
          <dl className="facts">
            <dt>Queues</dt>
            <dd>{w.queues.length ? <Tags of={w.queues} to={(x) => "/queues/" + encodeURIComponent(x)} /> : "all"}</dd>
            <dt>Labels</dt>
            <dd>{w.labels.length ? <Tags of={w.labels} /> : "none"}</dd>
            <dt>Targets</dt>
            <dd>{w.targets.join(", ")}</dd>
            {w.kinds.length > 0 && (
              <>
                <dt>Handlers</dt>
                <dd>{w.kinds.join(", ")}</dd>
              </>
            )}
          </dl>
        </section>
      </div>
      <LeaseMap workers={[w]} only={id} />
      <Ran rows={rows} />
      {drain && <Drain w={w} onClose={() => setDrain(false)} />}
      {ran.isError && !isProblem(ran.error, 404) && <ErrorBox error={ran.error} />}
    </>
  );
}

function Ran({ rows }: { rows: Executions["executions"] }) {
  return (
    <section className="panel stack" aria-label="Executions">
      <h2>Executions</h2>
      {rows.length === 0 ? (
        <p className="dim">Unknown.</p>
      ) : (
        <div className="tablebox">
          <table className="table cards" aria-label="Executions">
            <thead>
              <tr>
                <th scope="col">Job</th>
                <th scope="col">State</th>
                <th scope="col">Started</th>
                <th scope="col" className="num">
                  Took
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.map((e) => (
                <tr key={e.execution_id}>
                  <td className="lead">
                    <Link className="name wrap" to={"/executions/" + e.execution_id}>
                      {e.job_name}
                    </Link>
                  </td>
                  <td>
                    <State of={e.status} />
                  </td>
                  <td data-label="started">
                    <Time at={e.started_at} />
                  </td>
                  <td data-label="took" className="num">
                    <Duration ms={e.duration_ms} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
