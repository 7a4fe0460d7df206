// Workflows for tests, with simulated work, on a real server.

import assert from "node:assert/strict";

export const sleep = (ms) => ({ target: "simulate", work_kind: "sleep", duration_ms: ms });
export const fails = { target: "simulate", work_kind: "fail_permanent", duration_ms: 5 };

/** Three nodes: a map over the input's files and an approval with a form. */
export const photos = {
  key: "photos",
  name: "Publish photos",
  description: "Makes small pictures of the day's photos and publishes them once somebody agrees.",
  tags: ["shop"],
  input_schema: {
    type: "object",
    required: ["day"],
    properties: { day: { type: "string", description: "Such as 2026-11-18." }, publish: { type: "boolean" }, region: { type: "string", enum: ["north", "south"] }, files: { type: "integer" } },
  },
  nodes: [
    { key: "fetch", execution: sleep(5) },
    { key: "resize", depends_on: ["fetch"], map: "run.input.files", max_parallel: 4, tolerate: 1, execution: sleep(5) },
    {
      key: "publish",
      depends_on: ["resize"],
      wait: { approval: { roles: ["operator"], min: 1, schema: { type: "object", required: ["channel"], properties: { channel: { type: "string", enum: ["web", "print"] }, copies: { type: "integer" } } } } },
      timeout: "24h",
    },
  ],
};

/** One node fails, so the two below it do not run; another branch and cleanup do. */
export const broken = {
  key: "import",
  name: "Nightly import",
  nodes: [
    { key: "list", execution: sleep(5) },
    { key: "load", depends_on: ["list"], execution: fails, retry_policy: { max_retries: 0 } },
    { key: "sum", depends_on: ["load"], execution: sleep(5) },
    { key: "report", depends_on: ["sum"], execution: sleep(5) },
    { key: "mail", depends_on: ["list"], if: "run.input.mail", execution: sleep(5) },
    { key: "cleanup", finally: true, execution: sleep(5) },
  ],
};

const noise = (i) => ((Math.sin(i * 12.9898) * 43758.5453) % 1 + 1) % 1;
const names = ["extract", "load", "clean", "join", "score", "report"];

/** layered makes nodes in layers of these sizes; every third has a second parent. Some fail, some are maps; the slow ones take a while. */
export function layered(sizes, { slow = 40, failing = () => false } = {}) {
  const nodes = [];
  let before = [];
  sizes.forEach((n, layer) => {
    before = Array.from({ length: n }, (_, i) => {
      const key = `${names[(layer * 7 + i) % 6]}_${layer}_${i}`;
      const at = Math.floor((i * before.length) / n);
      const parents = before.length ? [...new Set([before[at], ...(i % 3 === 1 ? [before[(at + 1) % before.length]] : [])])] : [];
      nodes.push({
        key,
        ...(parents.length ? { depends_on: parents } : {}),
        ...((layer + i) % 9 === 4 ? { map: 6, max_parallel: 3 } : {}),
        execution: failing(layer, i) ? fails : sleep(5 + Math.round(slow * noise(layer * 31 + i) ** 3)),
        ...(failing(layer, i) ? { retry_policy: { max_retries: 0 } } : {}),
      });
      return key;
    });
  });
  return [...nodes, { key: "cleanup", finally: true, execution: sleep(5) }];
}

/** Sizes of graphs: 61 nodes and 1 000, with cleanup. */
export const sixty = [1, 6, 12, 14, 12, 8, 4, 2, 1];
export const thousand = Array.from({ length: 37 }, () => 27);

/** begin starts a run. */
export async function begin(server, workflow, input) {
  return (await server.api("POST", `/workflows/${workflow}/trigger`, input === undefined ? {} : { input })).workflow_run_id;
}

/** reaches waits until a run is as it should be, and gives it back. */
export async function reaches(server, id, is, what = is.toString()) {
  let r;
  for (let i = 0; i < 2400; i++) {
    r = await server.api("GET", "/workflow-runs/" + id);
    if (is(r)) return r;
    await new Promise((go) => setTimeout(go, 50));
  }
  assert.fail(`run ${id} never met: ${what}\n${JSON.stringify(r)}`);
}

export const node = (r, key) => r.nodes.find((n) => n.key === key);
export const over = (r) => r.finished_at !== null;
