// What a server would tell of workflows whose runs have got somewhere. Graphs are as the server lays them out; how runs stand is made up.

const iso = (t) => new Date(t).toISOString();
const noise = (i) => ((Math.sin(i * 12.9898) * 43758.5453) % 1 + 1) % 1;

/** graphOf is a graph with so many nodes in each layer, in a direction; every third node has a second parent. Of three nodes it is a map and an approval. */
export function graphOf(sizes, direction = "right") {
  const down = direction === "down";
  const names = ["extract", "load", "clean", "join", "score", "report"];
  const nodes = [];
  const edges = [];
  let before = [];
  const tall = Math.max(...sizes) * 60;
  const short = sizes.every((n) => n === 1);
  sizes.forEach((n, layer) => {
    const own = Array.from({ length: n }, (_, i) => {
      const [along, across] = [16 + layer * (down ? 84 : 200), 16 + (tall - n * 60) / 2 + i * 60];
      const key = short ? ["fetch", "resize", "publish"][layer] : `${names[(layer * 7 + i) % 6]}_${layer}_${i}`;
      const kind = short && layer === 2 ? "approval" : "worker";
      const box = { key, x: down ? across * 2.6 : along, y: down ? along : across, w: 140, h: 44, layer, kind, text: kind === "approval" ? "approval" : "worker " + key.split("_")[0], ...((short ? layer === 1 : (layer + i) % 9 === 4) ? { marks: ["map"] } : {}) };
      const from = before.length ? [before[Math.floor((i * before.length) / n)], ...(i % 3 === 1 ? [before[(Math.floor((i * before.length) / n) + 1) % before.length]] : [])] : [];
      for (const p of new Set(from)) edges.push({ from: p.key, to: key, points: down ? [[p.x + 70, p.y + 44], [box.x + 70, box.y]] : [[p.x + 140, p.y + 22], [box.x, box.y + 22]] });
      return box;
    });
    nodes.push(...own);
    before = own;
  });
  const long = 16 + sizes.length * (down ? 84 : 200);
  const end = { key: "cleanup", x: down ? 100 : long + 40, y: down ? long + 40 : 40, w: 140, h: 44, layer: sizes.length, kind: "http", text: "http", finally: true };
  if (!short) nodes.push(end);
  const [w, h] = down ? [tall * 2.6 + 200, long + 120] : [long + 220, tall + 60];
  return { width: w, height: h, direction, layers: sizes.length + 1, nodes, edges, ...(short ? {} : { finally: { x: end.x - 16, y: end.y - 16, w: 172, h: 76 } }) };
}

/** Sizes of graphs: 3 nodes, 61 and 1 000. */
export const three = [1, 1, 1];
export const sixty = [1, 6, 12, 14, 12, 8, 4, 2, 1];
export const thousand = Array.from({ length: 37 }, () => 27);

/** runOf makes a run of a graph: nodes start when their parents have ended; of many some fail. It ends where progress says. */
export function runOf(graph, { id = "01a1e5ca-0969-772a-b94a-935a6d97d3b4", workflow = "01a1e5ca-0969-772a-b94a-935a6d970001", progress = 0.7, fails = graph.nodes.length > 10, began = Date.now() - 600_000, salt = 0 } = {}) {
  const parents = new Map(graph.nodes.map((n) => [n.key, []]));
  for (const e of graph.edges) parents.get(e.to).push(e.from);
  const done = new Map();
  const order = [...graph.nodes].sort((a, b) => a.layer - b.layer);
  const times = new Map();
  let end = began;
  order.forEach((n, i) => {
    const ready = Math.max(began, ...parents.get(n.key).map((p) => times.get(p)[1]));
    const start = ready + 200 + 9000 * noise(i + salt) ** 4;
    times.set(n.key, [start, start + 1000 + 30_000 * noise(i * 3 + salt) ** 2, ready]);
    end = Math.max(end, times.get(n.key)[1]);
  });
  const now = began + (end - began) * progress;
  const shift = Date.now() - now; // it is where it is at this instant
  const nodes = graph.nodes.map((n, i) => {
    const [start, stop] = times.get(n.key);
    const base = { key: n.key, reason: null, execution_id: null, started_at: null, finished_at: null };
    const bad = parents.get(n.key).find((p) => ["FAILED", "NOT_RUN"].includes(done.get(p)?.status));
    const map = n.marks?.includes("map") ? { total: 40, succeeded: start > now ? 0 : stop <= now ? 40 : 31, failed: 0, running: start <= now && stop > now ? 5 : 0 } : undefined;
    let made;
    if (bad) made = { ...base, status: "NOT_RUN", reason: `${bad} failed` };
    else if (start > now || n.finally) made = { ...base, status: "WAITING", reason: "waits for " + (parents.get(n.key)[0] ?? "the others") };
    else if (stop > now) made = { ...base, status: "RUNNING", started_at: iso(start + shift), execution_id: id.slice(0, -4) + "aaaa" };
    else if (fails && noise(i * 7 + salt) > 0.985) made = { ...base, status: "FAILED", reason: "HTTP_ERROR: POST https://carrier.example/v2/orders answered 503", started_at: iso(start + shift), finished_at: iso(stop + shift), execution_id: id.slice(0, -4) + "bbbb" };
    else made = { ...base, status: "SUCCEEDED", started_at: iso(start + shift), finished_at: iso(stop + shift), execution_id: id.slice(0, -4) + "cccc" };
    if (map && made.started_at) made.map = map;
    if (n.kind === "approval" && made.status === "RUNNING") made.wait = { kind: "approval", roles: ["operator"], min: 1, votes: [] };
    done.set(n.key, made);
    return made;
  });
  const last = nodes.filter((n) => n.finished_at).sort((a, b) => Date.parse(b.finished_at) - Date.parse(a.finished_at))[0];
  const critical = [];
  for (let k = last?.key; k; ) {
    critical.unshift(k);
    k = parents.get(k).sort((a, b) => times.get(b)[1] - times.get(a)[1])[0];
  }
  const over = progress >= 1;
  const failed = nodes.some((n) => n.status === "FAILED");
  return { workflow_run_id: id, workflow_id: workflow, status: over ? (failed ? "FAILED" : "SUCCEEDED") : "RUNNING", attempt: 1, version: 3, input: { day: "2026-11-18", publish: true }, output: over ? { rows: 1200 } : null, nodes, critical_path: critical, started_at: iso(began + shift), finished_at: over ? iso(end + shift) : null };
}

/** workflowOf is a workflow that has such a graph. */
export function workflowOf(graph, name, id = "01a1e5ca-0969-772a-b94a-935a6d970001") {
  const parents = (k) => graph.edges.filter((e) => e.to === k).map((e) => e.from);
  return {
    workflow_id: id, key: name.toLowerCase().replaceAll(/\W+/g, "-"), name, description: "", version: 3, status: "ACTIVE", tags: ["nightly"],
    schedule: { type: "CRON", cron_expression: "0 2 * * *", timezone: "Europe/Berlin", description: "every day at 02:00", next_run_at: iso(Date.now() + 3_600_000), last_run_at: null },
    input_schema: { type: "object", required: ["day"], properties: { day: { type: "string", description: "Such as 2026-11-18." }, publish: { type: "boolean" }, region: { type: "string", enum: ["north", "south"] } } },
    nodes: graph.nodes.map((n) => ({ key: n.key, depends_on: parents(n.key), ...(n.marks?.includes("map") ? { map: "nodes." + parents(n.key)[0] + ".result.files", max_parallel: 20 } : {}) })),
  };
}

/** drawn has a page see workflows with this graph, in place of what its server tells. graphOf gives it in a direction. */
export async function drawn(page, graphOf, { name = "Nightly import", progress = 0.7 } = {}) {
  const graph = graphOf("right");
  const w = workflowOf(graph, name);
  const run = runOf(graph, { progress });
  const past = Array.from({ length: 20 }, (_, i) => runOf(graph, { id: `01a1e5ca-0969-772a-b94a-${String(i).padStart(12, "0")}`, progress: i === 0 ? progress : 1, began: Date.now() - (i + 1) * 86_400_000, salt: i * 31 }));
  const json = (make) => (route) => route.fulfill({ status: 200, contentType: "application/json", body: JSON.stringify(make(new URL(route.request().url()))) });
  const approvals = [{ workflow_run_id: run.workflow_run_id, workflow_id: w.workflow_id, workflow_name: name, node: "publish", since: iso(Date.now() - 120_000), until: iso(Date.now() + 86_000_000), roles: ["operator"], min: 1, approved: 0 }];
  const one = (n) => ({ limit: 50, total: n, next_cursor: null });
  await page.route(/\/api\/v1\/workflows(\?.*)?$/, json(() => ({ workflows: [w, { ...w, workflow_id: w.workflow_id.slice(0, -1) + "2", key: "invoices", name: "Invoices", schedule: { type: "MANUAL" } }], pagination: one(2) })));
  await page.route(/\/api\/v1\/workflows\/[^/]+(\?.*)?$/, json(() => w));
  await page.route(/\/api\/v1\/workflows\/[^/]+\/versions(\?.*)?$/, json(() => ({ versions: [3, 2, 1].map((version) => ({ version, created_at: iso(Date.now() - (4 - version) * 86_400_000), created_by: "ann" })), pagination: one(3) })));
  await page.route(/\/api\/v1\/workflows\/[^/]+\/graph/, json((u) => graphOf(u.searchParams.get("direction") ?? "right")));
  await page.route(/\/api\/v1\/workflow-runs(\?.*)?$/, json(() => ({ workflow_runs: past.map(({ nodes: _, ...r }) => r), pagination: one(20) })));
  await page.route(/\/api\/v1\/workflow-runs\/[^/?]+(\?.*)?$/, json((u) => past.find((r) => u.pathname.endsWith(r.workflow_run_id)) ?? run));
  await page.route(/\/nodes\/[^/]+\/items/, json(() => ({ items: Array.from({ length: 40 }, (_, index) => ({ index, status: index < 31 ? (index === 7 ? "FAILED" : "SUCCEEDED") : index < 36 ? "RUNNING" : "WAITING", execution_id: index < 36 ? run.workflow_run_id : null })), pagination: one(40) })));
  await page.route("**/api/v1/approvals*", json(() => ({ approvals, pagination: one(1) })));
  return { w, run };
}
