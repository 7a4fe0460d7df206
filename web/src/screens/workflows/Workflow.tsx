// Workflow: its graph, its runs by node, its versions and its definition.

import { useQueries } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { get, isProblem, post, useGet, useLive, usePage, useRefresh, type Pagination } from "../../api";
import { Link, navigate, setParams, useParam } from "../../router";
import { useMay } from "../../session";
import { Button, counted, Duration, Empty, ErrorBox, failed, Head, Id, JsonView, LinkButton, Loading, State, Table, Tabs, Tags, Time, toast, toneOf, useCommands, useHotkeys, wordOf, type Column } from "../../ui";
import { TriggerDialog } from "./acts";
import { began, ended, runPath, type Layout, type RunOf, type Version, type WorkflowOf } from "./data";
import { Drawer } from "./drawer";
import { Graph } from "./graph";
import { when } from "./Workflows";

/** useLayout reads how a workflow is drawn: from left to right, on narrow screens from top to bottom. */
export function useLayout(id: string | undefined, version: number | undefined) {
  const [narrow] = useState(() => matchMedia("(max-width: 640px)").matches);
  return useGet<Layout>(id && version ? `/workflows/${encodeURIComponent(id)}/graph` : undefined, { version, direction: narrow ? "down" : "right" });
}

export function Workflow({ id }: { id: string }) {
  const path = "/workflows/" + encodeURIComponent(id);
  const query = useGet<WorkflowOf>(path);
  const w = query.data;
  const [version] = useParam("version");
  const shown = Number(version) || w?.version;
  const layout = useLayout(id, shown);
  const [chosen] = useParam("node");
  const refresh = useRefresh();
  const live = useLive({ match: (c) => c.job_id === w?.workflow_id, refresh: () => refresh(path, "/workflow-runs") });
  const may = useMay("operator");
  const [open, setOpen] = useState(false);
  const paused = w?.status === "PAUSED";
  const choose = (node: string) => setParams({ node: node || null });
  const pause = () => post(`/jobs/${w?.workflow_id}/${paused ? "resume" : "pause"}`, {}).then(() => (toast(paused ? "Resumed" : "Paused"), refresh(path)), failed);
  const edit = () => w && navigate(`/workflows/${w.workflow_id}/edit`);
  useHotkeys(may && w ? [{ keys: "r", label: "Run now", run: () => setOpen(true) }, { keys: "e", label: "Edit", run: edit }] : []);
  useCommands(may && w ? [{ label: `Run ${w.name} now`, note: "r", run: () => setOpen(true) }, { label: `Edit ${w.name}`, note: "e", run: edit }] : []);
  if (!w)
    return (
      <>
        <Head title="Workflow" crumb={<Link to="/workflows">Workflows</Link>} />
        {query.isError ? <ErrorBox error={query.error} what={isProblem(query.error, 404) ? "No such workflow" : undefined} retry={() => void query.refetch()} /> : <Loading />}
      </>
    );
  const box = layout.data?.nodes.find((n) => n.key === chosen);
  return (
    <>
      <Head
        title={w.name}
        crumb={
          <>
            <Link to="/workflows">Workflows</Link> / <Id of={w.workflow_id} />
          </>
        }
        actions={
          <>
            {may && (
              <>
                <Button kind="primary" icon="play" onClick={() => setOpen(true)}>
                  Run now
                </Button>
                <Button onClick={() => void pause()}>{paused ? "Resume" : "Pause"}</Button>
                {w.status !== "DELETED" && <LinkButton to={`/workflows/${w.workflow_id}/edit`}>Edit</LinkButton>}
              </>
            )}
            <LinkButton to={"/jobs/" + w.workflow_id}>Schedule and policies</LinkButton>
          </>
        }
      >
        <div className="row">
          {w.status && <State of={w.status} />}
          <span>{when(w)}</span>
          {w.schedule?.next_run_at && (
            <span className="dim">
              next <Time at={w.schedule.next_run_at} zone={w.schedule.timezone} />
            </span>
          )}
          <span className="dim">version {w.version}</span>
          <Tags of={w.tags ?? []} />
        </div>
        {w.description && <p className="dim wrap">{w.description}</p>}
      </Head>
      {shown !== w.version && (
        <p role="status" className="warn">
          This is version {shown}. <Link to={path}>Show the current one</Link>
        </p>
      )}
      <div className={box ? "workflows-split" : ""}>
        {layout.data ? (
          <Graph key={`${shown}${layout.data.direction}`} layout={layout.data} label={`Graph of ${counted(layout.data.nodes.length, "node")}`} chosen={chosen} onChoose={choose} />
        ) : layout.isError ? (
          <ErrorBox error={layout.error} what="The graph could not be loaded" retry={() => void layout.refetch()} />
        ) : (
          <Loading />
        )}
        {box && <Drawer box={box} def={(shown === w.version ? w.nodes : undefined)?.find((n) => n.key === chosen)} parents={layout.data?.edges.flatMap((e) => (e.to === chosen ? e.from : [])) ?? []} may={false} onChoose={choose} onClose={() => choose("")} />}
      </div>
      <Tabs
        label="Parts of the workflow"
        tabs={[
          { id: "runs", label: "Runs", content: () => <RunList id={w.workflow_id} live={live} /> },
          { id: "grid", label: "Runs by node", content: () => (layout.data ? <Grid id={w.workflow_id} layout={layout.data} /> : <Loading />) },
          { id: "versions", label: "Versions", content: () => <Versions path={path} current={w.version} /> },
          { id: "definition", label: "Definition", content: () => <JsonView value={w} whole /> },
        ]}
      />
      {open && <TriggerDialog w={w} onClose={() => setOpen(false)} />}
    </>
  );
}

export const tookMs = (r: RunOf) => (r.finished_at && began(r) ? Date.parse(r.finished_at) - Date.parse(began(r) ?? "") : null);

function RunList({ id, live }: { id: string; live: ReturnType<typeof useLive> }) {
  const page = usePage<RunOf>("/workflow-runs", "workflow_runs", { workflow: id, limit: 25 });
  const columns: Column<RunOf>[] = [
    { id: "status", head: "Status", lead: true, cell: (r) => <Link to={runPath(r.workflow_run_id)}><State of={r.status} /></Link> },
    { id: "started", head: "Started", cell: (r) => <Time at={began(r)} /> },
    { id: "took", head: "Took", num: true, label: "took", cell: (r) => <Duration ms={tookMs(r)} /> },
    { id: "attempt", head: "Attempt", num: true, label: "attempt", cell: (r) => r.attempt },
    { id: "version", head: "Version", num: true, label: "version", cell: (r) => r.version },
    { id: "id", head: "Id", wideOnly: true, cell: (r) => <Id of={r.workflow_run_id} /> },
  ];
  return <Table label="Runs" page={page} columns={columns} id={(r) => r.workflow_run_id} open={(r) => runPath(r.workflow_run_id)} live={live} empty={<Empty title="No runs yet">It runs by its schedule, or when you press Run now.</Empty>} />;
}

const side = 16;
const most = 20;

/** Grid is the last runs, each a column, by nodes, each a row. */
function Grid({ id, layout }: { id: string; layout: Layout }) {
  const list = useGet<{ workflow_runs: RunOf[] }>("/workflow-runs", { workflow: id, limit: most });
  const heads = list.data?.workflow_runs ?? [];
  const details = useQueries({
    queries: heads.map((r) => ({ queryKey: [runPath(r.workflow_run_id), {}], queryFn: () => get<RunOf>(runPath(r.workflow_run_id)), staleTime: ended(r.status) ? 600_000 : 2000 })),
  });
  const runs = [...heads].reverse();
  const full = new Map(details.flatMap((d) => (d.data ? [[d.data.workflow_run_id, d.data] as const] : [])));
  const rows = useMemo(() => [...layout.nodes].sort((a, b) => a.layer - b.layer), [layout]);
  if (list.isPending) return <Loading />;
  if (runs.length === 0) return <Empty title="No runs yet">Each run is a column here, each node a row.</Empty>;
  const paths = new Map<string, string>();
  runs.forEach((r, x) => {
    const of = new Map(full.get(r.workflow_run_id)?.nodes?.map((n) => [n.key, n.status]));
    rows.forEach((b, y) => {
      const s = of.get(b.key);
      if (!s) return;
      const tone = ["SKIPPED", "NOT_RUN", "WAITING", "PENDING"].includes(s) ? "none" : toneOf(s);
      const [px, py] = [x * side + 1, y * side + 1];
      // Failures have a notch, so that they are seen without their colour.
      paths.set(tone, (paths.get(tone) ?? "") + (tone === "none" ? `M${px + 4} ${py + 7}h6v1h-6z` : tone === "bad" ? `M${px} ${py}h14v14h-14zM${px + 4} ${py + 4}v6h6v-6z` : `M${px} ${py}h14v14h-14z`));
    });
  });
  const at = (e: React.MouseEvent<SVGSVGElement>) => {
    const b = e.currentTarget.getBoundingClientRect();
    return { r: runs[Math.floor((e.clientX - b.left) / side)], n: rows[Math.floor((e.clientY - b.top) / side)] };
  };
  return (
    <div className="panel flush workflows-grid" tabIndex={0} role="group" aria-label={`${counted(rows.length, "node")} by ${counted(runs.length, "run")}, the latest at the right`}>
      <div className="workflows-names">
        {rows.map((b) => (
          <span key={b.key}>{b.key}</span>
        ))}
      </div>
      <svg
        width={runs.length * side}
        height={rows.length * side}
        aria-hidden="true"
        onPointerMove={(e) => {
          const { r, n } = at(e);
          const s = r && n && full.get(r.workflow_run_id)?.nodes?.find((x) => x.key === n.key);
          e.currentTarget.setAttribute("data-tip", s ? `${s.key}: ${wordOf(s.status)}\n${s.reason ?? ""}\nrun of ${(r && began(r)) ?? ""}` : "");
        }}
        onClick={(e) => {
          const { r, n } = at(e);
          if (r && n) navigate(runPath(r.workflow_run_id) + "?node=" + n.key);
        }}
      >
        {[...paths].map(([tone, d]) => (
          <path key={tone} d={d} className={"workflows-cell " + tone} fillRule="evenodd" />
        ))}
      </svg>
    </div>
  );
}

function Versions({ path, current }: { path: string; current: number }) {
  const q = useGet<{ versions: Version[]; pagination?: Pagination }>(path + "/versions", { limit: 50 });
  if (q.isPending) return <Loading />;
  if (q.isError) return <ErrorBox error={q.error} retry={() => void q.refetch()} />;
  return (
    <ul className="panel stack tight">
      {q.data.versions.map((v) => (
        <li key={v.version} className="row">
          <Link to={`${path}?version=${v.version}&tab=versions`}>Version {v.version}</Link>
          {v.version === current && <span className="tag">current</span>}
          <span className="dim">
            <Time at={v.created_at} />
            {v.created_by ? ` by ${v.created_by}` : ""}
          </span>
        </li>
      ))}
    </ul>
  );
}
