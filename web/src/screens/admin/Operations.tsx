// Operations: work over many things in the background, how far each has come, and a way to stop it.

import { useState } from "react";
import { post, useGet, usePage, useRefresh, type Operation } from "../../api";
import { Link, useParam } from "../../router";
import { useMay } from "../../session";
import { Button, Confirm, count, CopyAs, duration, Empty, ErrorBox, Head, Loading, percent, State, Table, Time, toast, useNow, type Column } from "../../ui";
import { acts } from "./parts";

const kinds: Record<string, string> = {
  backfill: "Backfill", redrive: "Redrive dead letters", discard: "Discard dead letters", cancel_executions: "Cancel executions", retry_executions: "Retry executions",
  cancel_waiting: "Cancel executions of a deleted job",
};
const kindOf = (k: string) => kinds[k] ?? (k.charAt(0).toUpperCase() + k.slice(1)).replaceAll("_", " ");

export function Progress({ o }: { o: Operation }) {
  const at = o.done + o.passed;
  return (
    <span className="row tight">
      <progress className="admin-progress" max={Math.max(1, o.total)} value={o.total === 0 ? 1 : at} aria-label={`Progress of ${kindOf(o.kind)}`} />
      <span className="nowrap">
        {count(at)} of {count(o.total)}
      </span>
    </span>
  );
}

export function Operations() {
  const page = usePage<Operation>("/operations", "operations", { limit: 50 });
  const running = page.rows.some((o) => o.state === "RUNNING");
  const [cursor] = useParam("cursor");
  useGet(running ? "/operations" : undefined, { limit: 50, cursor }, { every: 1000 }); // the same page again, while something moves on it
  const may = useMay("operator");
  const [stop, setStop] = useState<Operation>();
  const columns: Column<Operation>[] = [
    {
      id: "kind",
      head: "What",
      lead: true,
      cell: (o) => (
        <>
          <Link className="name" to={"/operations/" + o.operation_id}>
            {kindOf(o.kind)}
          </Link>
          <span className="sub">{o.created_by}</span>
        </>
      ),
    },
    { id: "state", head: "State", cell: (o) => <State of={o.state} /> },
    { id: "progress", head: "Progress", cell: (o) => <Progress o={o} /> },
    { id: "passed", head: "Skipped", label: "passed over", num: true, cell: (o) => count(o.passed) },
    { id: "begun", head: "Begun", label: "begun", cell: (o) => <Time at={o.created_at} /> },
    { id: "ended", head: "Ended", label: "ended", cell: (o) => <Time at={o.finished_at} /> },
    ...(may
      ? [
          acts<Operation>((o) =>
            o.state === "RUNNING" && o.kind !== "cancel_waiting" ? (
              <Button small className="danger" onClick={() => setStop(o)}>
                Stop
              </Button>
            ) : null,
          ),
        ]
      : []),
  ];
  return (
    <>
      <Head title="Operations" />
      <Table label="Operations" page={page} columns={columns} id={(o) => o.operation_id} open={(o) => "/operations/" + o.operation_id} empty={<Empty title="No operations yet">Bulk actions, such as a backfill, a redrive or a change of many jobs, run in the background and are listed here.</Empty>} />
      {stop && <Stop o={stop} onClose={() => setStop(undefined)} />}
    </>
  );
}

function Stop({ o, onClose }: { o: Operation; onClose: () => void }) {
  const refresh = useRefresh();
  return (
    <Confirm
      title={`Stop: ${kindOf(o.kind)}`}
      action="Stop it"
      danger
      cli={"carillon operation cancel " + o.operation_id}
      onClose={onClose}
      run={() =>
        post(`/operations/${o.operation_id}/cancel`).then(() => {
          toast("Stopped");
          void refresh("/operations");
        })
      }
    >
      <p>It does no more. The {count(o.done)} that are done stay done.</p>
    </Confirm>
  );
}

export function OperationPage({ id }: { id: string }) {
  const path = "/operations/" + encodeURIComponent(id);
  const [over, setOver] = useState(false);
  const q = useGet<Operation>(path, undefined, over ? {} : { every: 1000 });
  const may = useMay("operator");
  const now = useNow();
  const [stop, setStop] = useState(false);
  const o = q.data;
  if (o && o.state !== "RUNNING" && !over) setOver(true);
  const crumb = <Link to="/admin/operations">Operations</Link>;
  if (!o)
    return (
      <>
        <Head title="Operation" crumb={crumb} />
        {q.isError ? <ErrorBox error={q.error} /> : <Loading />}
      </>
    );
  const at = o.done + o.passed;
  const took = (o.finished_at ? Date.parse(o.finished_at) : now) - Date.parse(o.created_at);
  const left = o.state === "RUNNING" && at > 0 ? (took / at) * (o.total - at) : undefined;
  return (
    <>
      <Head
        title={kindOf(o.kind)}
        crumb={crumb}
        actions={
          <>
            {may && o.state === "RUNNING" && o.kind !== "cancel_waiting" && (
              <Button className="danger" onClick={() => setStop(true)}>
                Stop
              </Button>
            )}
            <CopyAs link={"/operations/" + o.operation_id} cli={"carillon operation watch " + o.operation_id} curl={{ method: "GET", path }} />
          </>
        }
      >
        <div className="row">
          <State of={o.state} />
          <Progress o={o} />
          {o.total > 0 && <span className="dim">{percent(at / o.total)}</span>}
          {left !== undefined && <span className="dim">about {duration(left)} to go</span>}
        </div>
      </Head>
      {o.error && <ErrorBox error={new Error(o.error)} what="Why it ended" />}
      <section className="panel" aria-label="Facts">
        <dl className="facts">
          <dt>Done</dt>
          <dd>{count(o.done)}</dd>
          <dt>Skipped</dt>
          <dd>
            {count(o.passed)} <span className="dim">that the action no longer applied to</span>
          </dd>
          <dt>At most</dt>
          <dd>{o.rate_per_s === null ? "no limit" : `${o.rate_per_s} a second`}</dd>
          <dt>Begun</dt>
          <dd>
            <Time at={o.created_at} exact /> by {o.created_by}
          </dd>
          <dt>Took</dt>
          <dd>{duration(Math.max(0, took))}</dd>
          <dt>Id</dt>
          <dd className="mono">{o.operation_id}</dd>
        </dl>
      </section>
      {stop && <Stop o={o} onClose={() => setStop(false)} />}
    </>
  );
}
