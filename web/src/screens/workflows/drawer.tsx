// Drawer: one node of a workflow or a run, beside the graph.

import { useEffect, useRef, type ReactNode } from "react";
import { useGet, type Pagination } from "../../api";
import { Link } from "../../router";
import { Button, counted, Duration, State, Time } from "../../ui";
import { broken, ended, progress, runPath, type Box, type Failed, type Item, type NodeDef, type RunNode, type RunOf, type Span } from "./data";
import type { Act } from "./acts";

type Props = { box: Box; def: NodeDef | undefined; parents: string[]; run?: RunOf; node?: RunNode | undefined; span?: Span | undefined; may: boolean; decides?: boolean; onAct?: (a: Act) => void; onChoose: (key: string) => void; onClose: () => void };

export function Drawer({ box, def, parents, run, node, span, may, decides = false, onAct, onChoose, onClose }: Props) {
  const ref = useRef<HTMLElement>(null);
  useEffect(() => {
    ref.current?.focus({ preventScroll: true });
  }, [box.key]);
  const act = (what: Act["what"]) => () => onAct?.({ what, node: box.key });
  const live = node && !ended(node.status) && node.status !== "WAITING";
  const asks = run && node && !ended(run.status) && !ended(node.status) && box.kind === "approval" && node.status !== "WAITING";
  const facts: [string, ReactNode][] = [
    ["Runs", box.text],
    ["After", parents.length > 0 && parents.map((p, i) => <span key={p}>{i > 0 && ", "}<button type="button" className="workflows-link" onClick={() => onChoose(p)}>{p}</button></span>)],
    ["Trigger", def?.trigger && <code>{def.trigger}</code>],
    ["If", def?.if && <code className="wrap">{def.if}</code>],
    ["Map", def?.map !== undefined && def.map !== null && <code className="wrap">{typeof def.map === "string" ? def.map : JSON.stringify(def.map)}</code>],
    ["At once", def?.max_parallel],
    ["Timeout", def?.timeout],
    ["Waited", span && <Duration ms={span.start - span.ready} />],
    ["Started", node?.started_at && <Time at={node.started_at} />],
    ["Ended", node?.finished_at && <Time at={node.finished_at} />],
    ["Took", span && !span.open && <Duration ms={span.end - span.start} />],
    ["Until", node?.wait?.until && <Time at={node.wait.until} />],
    ["Execution", node?.execution_id && <Link to={"/executions/" + node.execution_id}>Open it</Link>],
  ];
  return (
    <aside ref={ref} className="workflows-drawer" aria-label={"Node " + box.key} tabIndex={-1} onKeyDown={(e) => e.key === "Escape" && onClose()}>
      <header className="row">
        <h2 className="grow wrap mono">{box.key}</h2>
        <Button kind="ghost" small icon="close" aria-label="Close" onClick={onClose} />
      </header>
      {node && (
        <div className="row">
          <State of={node.status} />
          {box.finally && <span className="tag">finally</span>}
        </div>
      )}
      {node?.error ? <Failure of={node.error} /> : node?.reason && <p className="wrap">{node.reason}</p>}
      <dl className="facts">
        {facts.filter(([, v]) => v).map(([k, v]) => (
          <div key={k} className="workflows-fact">
            <dt>{k}</dt>
            <dd>{v}</dd>
          </div>
        ))}
      </dl>
      {node?.wait?.votes?.map((v) => (
        <p key={v.by + v.at} className="small">
          {v.approved ? "Approved" : "Rejected"} by {v.by} <Time at={v.at} />
          {v.comment ? `: ${v.comment}` : ""}
        </p>
      ))}
      {(may || decides) && onAct && run && node && (
        <div className="row">
          {asks && decides && (
            <>
              <Button kind="primary" onClick={act("approve")}>
                Approve
              </Button>
              <Button className="danger" onClick={act("reject")}>
                Reject
              </Button>
            </>
          )}
          {may && ended(run.status) && <Button onClick={act("retry")}>Retry from here</Button>}
          {may && (!live || asks) && node.status !== "SUCCEEDED" && node.status !== "SKIPPED" && (
            <>
              <Button onClick={act("skip")}>Skip</Button>
              <Button onClick={act("mark")}>Mark as succeeded</Button>
            </>
          )}
        </div>
      )}
      {run && node?.map && <Items run={run} node={node} />}
    </aside>
  );
}

/** Failure says why a node or an item failed. */
function Failure({ of }: { of: Failed }) {
  return (
    <p className="wrap bad">
      <code>{of.type}</code> {of.message}
    </p>
  );
}

/** Items are those of a map: the first ones, the failed first. */
function Items({ run, node }: { run: RunOf; node: RunNode }) {
  const q = useGet<{ items: Item[]; pagination: Pagination }>(`${runPath(run.workflow_run_id)}/nodes/${encodeURIComponent(node.key)}/items`, { limit: 200 });
  const m = node.map;
  const items = [...(q.data?.items ?? [])].sort((a, b) => Number(broken(b.status)) - Number(broken(a.status)) || a.index - b.index);
  return (
    <div className="stack tight">
      <h3>{m ? progress(m) + " done" : "Items"}</h3>
      <ul className="workflows-items">
        {items.map((i) => (
          <li key={i.index}>
            <span className="dim">#{i.index}</span> <State of={i.status} /> {i.execution_id && <Link className="workflows-open" to={"/executions/" + i.execution_id} aria-label={`open execution of item ${i.index}`}>open</Link>}
            {i.error && <Failure of={i.error} />}
          </li>
        ))}
      </ul>
      {m && items.length > 0 && m.total > items.length && <p className="small dim">{counted(m.total - items.length, "item")} more: <code>carillon run items {run.workflow_run_id} {node.key}</code></p>}
    </div>
  );
}
