// Run: one run of a workflow, as a graph, a Gantt chart and a table. What can be done with it is here, too.

import { useMemo, useState } from "react";
import { isProblem, post, stringify, useGet, useLive, useRefresh } from "../../api";
import { Link, setParams, useParam } from "../../router";
import { useMay, useSession } from "../../session";
import { Button, counted, Duration, ErrorBox, failed, Head, Id, JsonView, Loading, Segments, State, Tabs, Time, toast, useHotkeys, useNow } from "../../ui";
import { ActDialog, type Act } from "./acts";
import { began, broken, ended, mayDecide, progress, runPath, saying, spans, type Layout, type RunNode, type RunOf, type WorkflowOf } from "./data";
import { Drawer } from "./drawer";
import { Gantt } from "./gantt";
import { Graph } from "./graph";
import { tookMs, useLayout } from "./Workflow";

export function Run({ id }: { id: string }) {
  const path = runPath(id);
  const query = useGet<RunOf>(path);
  const r = query.data;
  const over = r !== undefined && ended(r.status);
  const w = useGet<WorkflowOf>(r && "/workflows/" + r.workflow_id).data;
  const layout = useLayout(r?.workflow_id, r?.version);
  const [chosen] = useParam("node");
  const refresh = useRefresh();
  const live = useLive({ match: (c) => (c.type === "run.changed" ? c.workflow_run_id === r?.workflow_run_id : !over && c.type.startsWith("execution.")), refresh: () => refresh(path) });
  const may = useMay("operator");
  const role = useSession()?.role;
  const tick = useNow();
  const [act, setAct] = useState<Act>();
  const byKey = useMemo(() => new Map(r?.nodes?.map((n) => [n.key, n])), [r]);
  const critical = useMemo(() => new Set(r?.critical_path), [r]);
  const boxes = useMemo(() => new Map(layout.data?.nodes.map((b) => [b.key, b])), [layout.data]);
  const choose = (node: string) => setParams({ node: node || null });
  const plain = (what: "pause" | "unpause") => () => void post(path + "/" + what, {}).then(() => (toast(what === "pause" ? "Paused" : "Continues"), refresh(path)), failed);
  useHotkeys(may && r ? (over ? [{ keys: "r", label: "Retry", run: () => setAct({ what: "retry" }) }] : [{ keys: "p", label: "Pause or continue", run: () => plain(r.status === "PAUSED" ? "unpause" : "pause")() }]) : []);
  if (!r)
    return (
      <>
        <Head title="Run" crumb={<Link to="/workflows">Workflows</Link>} />
        {query.isError ? <ErrorBox error={query.error} what={isProblem(query.error, 404) ? "No such run" : undefined} retry={() => void query.refetch()} /> : <Loading />}
      </>
    );
  const l = layout.data;
  const now = over ? Date.parse(r.finished_at ?? "") || tick : tick;
  const look = (key: string) => {
    const n = byKey.get(key);
    const box = boxes.get(key);
    return n && box ? { status: n.status, text: saying(n, box, now), ...(n.map && n.map.total > 0 ? { done: (n.map.succeeded + n.map.failed) / n.map.total } : {}) } : undefined;
  };
  const name = w?.name ?? r.workflow_name ?? "Workflow";
  const box = boxes.get(chosen);
  const waits = (r.nodes ?? []).filter((n) => !ended(n.status) && n.status !== "WAITING" && boxes.get(n.key)?.kind === "approval");
  const failures = (r.nodes ?? []).filter((n) => broken(n.status));
  const def = (w?.version === r.version ? w.nodes : undefined)?.find((n) => n.key === (act?.node ?? chosen));
  const node = byKey.get(act?.node ?? "");
  return (
    <>
      <Head
        title={`Run of ${name}`}
        crumb={
          <>
            <Link to="/workflows">Workflows</Link> / <Link to={"/workflows/" + r.workflow_id}>{name}</Link> / <Id of={r.workflow_run_id} />
          </>
        }
        actions={
          may && (
            <>
              {over && (
                <Button kind="primary" onClick={() => setAct({ what: "retry" })}>
                  Retry
                </Button>
              )}
              {r.status === "RUNNING" && (
                <Button icon="pause" onClick={plain("pause")}>
                  Pause
                </Button>
              )}
              {r.status === "PAUSED" && (
                <Button kind="primary" onClick={plain("unpause")}>
                  Continue
                </Button>
              )}
              {!over && (
                <Button className="danger" onClick={() => setAct({ what: "cancel" })}>
                  Cancel
                </Button>
              )}
            </>
          )
        }
      >
        <div className="row">
          <State of={r.status} />
          <span>
            started <Time at={began(r)} />
          </span>
          {tookMs(r) !== null && (
            <span>
              took <Duration ms={tookMs(r)} />
            </span>
          )}
          <span className="dim">version {r.version}</span>
          {r.attempt > 1 && <span className="dim">attempt {r.attempt}</span>}
        </div>
      </Head>
      {r.status === "PAUSED" && <p className="warn">Paused: running nodes finish, and nothing else starts until you press Continue.</p>}
      {r.error && failures.length !== 1 && <p className="wrap bad">{r.error.message}</p>}
      {failures.length > 0 && (
        <p className="wrap">
          <strong className="bad">{counted(failures.length, "node")} failed:</strong>{" "}
          {failures.slice(0, 8).map((n, i) => (
            <span key={n.key}>
              {i > 0 && ", "}
              <button type="button" className="workflows-link" onClick={() => choose(n.key)}>
                {n.key}
              </button>
              {n.reason && failures.length === 1 ? `: ${n.reason}` : ""}
            </span>
          ))}
          {failures.length > 8 && " …"}
        </p>
      )}
      {waits.map((n) => (
        <div key={n.key} className="panel row workflows-asks" role="status">
          <span className="grow">
            <strong>{n.key}</strong> waits for approval{n.wait?.roles?.length ? ` by ${n.wait.roles.join(" or ")}` : ""}.
          </span>
          {mayDecide(role, n.wait?.roles) && (
            <>
              <Button kind="primary" small onClick={() => setAct({ what: "approve", node: n.key })}>
                Approve
              </Button>
              <Button small className="danger" onClick={() => setAct({ what: "reject", node: n.key })}>
                Reject
              </Button>
            </>
          )}
        </div>
      ))}
      <div className={box ? "workflows-split" : ""}>
        <div className="stack" {...(l && l.nodes.length > 200 ? live.region : {})}>
          {l ? (
            <Tabs
              label="Parts of the run"
              tabs={[
                { id: "graph", label: "Graph", content: () => <Graph key={`${r.version}${l.direction}`} layout={l} label={`Graph of ${counted(l.nodes.length, "node")}`} look={look} critical={critical} chosen={chosen} onChoose={choose} /> },
                { id: "gantt", label: "Gantt", content: () => <Gantt run={r} layout={l} chosen={chosen} onChoose={choose} /> },
                { id: "table", label: "Table", content: () => <NodeTable r={r} layout={l} now={now} onChoose={choose} /> },
                { id: "data", label: "Input and output", content: () => <Data r={r} /> },
              ]}
            />
          ) : layout.isError ? (
            <ErrorBox error={layout.error} what="The graph could not be loaded" retry={() => void layout.refetch()} />
          ) : (
            <Loading />
          )}
        </div>
        {box && l && (
          <Drawer box={box} def={def} parents={l.edges.flatMap((e) => (e.to === chosen ? e.from : []))} run={r} node={byKey.get(chosen)} span={spans(r, l, now).spans.find((s) => s.node.key === chosen)} may={may} decides={mayDecide(role, byKey.get(chosen)?.wait?.roles)} onAct={setAct} onChoose={choose} onClose={() => choose("")} />
        )}
      </div>
      {act && <ActDialog run={r} act={act} schema={node?.wait?.schema} onClose={() => setAct(undefined)} refresh={() => void refresh(path)} />}
    </>
  );
}

function Data({ r }: { r: RunOf }) {
  const part = (name: string, value: unknown) => (
    <div className="stack tight">
      <h2>{name}</h2>
      {value === undefined || value === null ? <p className="dim">None.</p> : <JsonView text={stringify(value, 2)} />}
    </div>
  );
  return (
    <div className="cols">
      {part("Input", r.input)}
      {part("Output", r.output)}
    </div>
  );
}

const kinds: [string, string, (n: RunNode) => boolean][] = [
  ["", "All", () => true],
  ["failed", "Failed", (n) => broken(n.status)],
  ["open", "Open", (n) => !ended(n.status)],
  ["idle", "Did not run", (n) => n.status === "SKIPPED" || n.status === "NOT_RUN"],
];

function NodeTable({ r, layout, now, onChoose }: { r: RunOf; layout: Layout; now: number; onChoose: (key: string) => void }) {
  const [which, setWhich] = useParam("nodes");
  const at = new Map(spans(r, layout, now).spans.map((s) => [s.node.key, s]));
  const critical = new Set(r.critical_path);
  const keep = kinds.find(([k]) => k === which)?.[2] ?? (() => true);
  const rows = (r.nodes ?? []).filter(keep);
  return (
    <div className="stack tight">
      <div className="row">
        <Segments label="Which nodes" value={which} options={kinds.map(([k, word, is]): [string, string] => [k, `${word} ${(r.nodes ?? []).filter(is).length}`])} onChange={(v) => setWhich(v)} />
      </div>
      <div className="tablebox workflows-rows">
        <table className="table cards compact" aria-label="Nodes">
          <thead>
            <tr>
              <th>Node</th>
              <th>Status</th>
              <th className="num">Waited</th>
              <th className="num">Took</th>
              <th>Why</th>
              <th>Execution</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((n) => {
              const s = at.get(n.key);
              return (
                <tr key={n.key}>
                  <td className="lead">
                    <button type="button" className="workflows-link mono" onClick={() => onChoose(n.key)}>
                      {n.key}
                    </button>{" "}
                    {critical.has(n.key) && <span className="tag">critical path</span>}
                  </td>
                  <td>
                    <State of={n.status} />
                  </td>
                  <td className="num" data-label="waited">
                    {s && <Duration ms={s.start - s.ready} />}
                  </td>
                  <td className="num" data-label="took">
                    {s && <Duration ms={s.end - s.start} />}
                  </td>
                  <td className="wide">{n.map ? progress(n.map) : n.reason}</td>
                  <td>{n.execution_id && <Link to={"/executions/" + n.execution_id} className="workflows-open" aria-label={"open execution of " + n.key}>open</Link>}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </div>
  );
}
