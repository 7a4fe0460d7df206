// Workflows, as they look: both widths, both themes, with 3, 61 and 1 000 nodes, on a real server. What takes a day to come about
// (series, strips) is told by fakes.mjs, and an approval that has waited for a while by workflows-fakes.mjs.

import { after, before, test } from "node:test";
import { busy } from "./fakes.mjs";
import { everyLook, launch, serve } from "./harness.mjs";
import { drawn, graphOf, three } from "./workflows-fakes.mjs";
import { begin, layered, node, over, photos, reaches, sixty, thousand } from "./workflows-seed.mjs";

let server, browser, asking, failed, large, workflow;
before(async () => {
  [server, browser] = await Promise.all([serve(), launch()]);
  await server.api("POST", "/workflows", photos);
  workflow = (await server.api("POST", "/workflows", { key: "nightly", name: "Nightly import", tags: ["nightly"], nodes: layered(sixty, { slow: 400, failing: (layer, i) => layer === 4 && i === 3 }) })).workflow_id;
  await server.api("POST", "/workflows", { key: "large", name: "Everything at once", nodes: layered(thousand, { failing: (layer, i) => layer === 20 && i === 3 }) });
  asking = await begin(server, "key:photos", { day: "2026-11-18", files: 40 });
  for (let i = 0; i < 3; i++) failed = await begin(server, "key:nightly");
  large = await begin(server, "key:large");
  await reaches(server, asking, (r) => node(r, "publish").status === "RUNNING");
  await reaches(server, failed, over);
  await reaches(server, large, over);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const look = (name, path, ready) => everyLook(browser, server.url + path(), name, (p) => p.waitForSelector(ready), { prepare: busy });

test("the list, in every look", () => look("workflows", () => "/workflows", "tbody tr"));
test("a new workflow, in every look", () => look("workflow-new", () => "/workflows/new", "text=No mistakes found"));
test("a workflow, in every look", () => look("workflow", () => `/workflows/${workflow}?tab=grid`, ".workflows-cell"));
test("a run of three nodes, in every look", () => look("run-3", () => `/workflow-runs/${asking}?node=publish`, ".workflows-drawer"));
test("a map and its items, in every look", () => look("run-map", () => `/workflow-runs/${asking}?node=resize`, ".workflows-drawer li"));
test("a run of 61 nodes, in every look", () => look("run-60", () => "/workflow-runs/" + failed, ".workflows-node"));
test("its Gantt chart, in every look", () => look("run-gantt", () => `/workflow-runs/${failed}?tab=gantt`, ".workflows-bar"));
test("its table, in every look", () => look("run-table", () => `/workflow-runs/${failed}?tab=table`, "table[aria-label=Nodes] tbody tr"));
test("a run of 1 000 nodes, in every look", () => look("run-1000", () => "/workflow-runs/" + large, ".workflows-node"));
test("approvals, in every look", () => everyLook(browser, server.url + "/approvals", "approvals", (p) => p.waitForSelector("tbody tr"), { prepare: async (p) => (await busy(p), await drawn(p, (d) => graphOf(three, d))) }));
