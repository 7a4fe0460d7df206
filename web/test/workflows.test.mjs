// Workflows: what needs a run that stands still in the middle, or answers that no server gives: keys in the graph, 1 000 nodes at once,
// reasons that are markup. How runs stand is told by workflows-fakes.mjs; workflows-real.test.mjs does the rest on a real server.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { busy } from "./fakes.mjs";
import { accessible, launch, nasty, serve, settle, sound, unharmed, visit } from "./harness.mjs";
import { drawn, graphOf, sixty, thousand, three } from "./workflows-fakes.mjs";

const run = "/workflow-runs/01a1e5ca-0969-772a-b94a-935a6d97d3b4";
let server, browser;
before(async () => {
  [server, browser] = await Promise.all([serve(), launch()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const told = (sizes, o) => async (page) => (await busy(page), (page.told = await drawn(page, (d) => graphOf(sizes, d), o)));
const open = async (path, sizes, o) => {
  const page = await visit(browser, server.url + path, { prepare: told(sizes, o) });
  await settle(page);
  return page;
};

test("a node is opened by a click, and by keys", async () => {
  const page = await open(run, sixty);
  await page.waitForSelector(".workflows-node");
  await page.locator(".workflows-node", { hasText: "extract_0_0" }).click();
  await page.waitForSelector(".workflows-drawer h2:has-text('extract_0_0')");
  assert.match(page.url(), /node=extract_0_0/);
  await page.keyboard.press("Escape");
  await page.waitForSelector(".workflows-drawer", { state: "detached" });
  await page.focus(".workflows-pane");
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowRight");
  await page.waitForSelector(".workflows-graph [role=status]:has-text('load_1_0')");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".workflows-drawer h2:has-text('load_1_0')");
  assert.match(await page.getAttribute(".workflows-drawer a:has-text('Open it')", "href"), /^\/executions\//);
  await page.click("[role=tab]:has-text('Table')");
  await page.click("table[aria-label=Nodes] button:has-text('load_2_1'), table[aria-label=Nodes] tbody tr:nth-child(5) button");
  await page.waitForSelector(".workflows-drawer");
  await accessible(page);
  await sound(page);
  await page.context().close();
});

test("a run of 1 000 nodes draws only what is in sight", async () => {
  const page = await open(run, thousand);
  await page.waitForSelector(".workflows-node");
  const elements = () => page.evaluate(() => document.querySelectorAll(".workflows-pane *").length);
  assert.ok((await elements()) < 4000, `${await elements()} elements`);
  await page.click("button:has-text('Fit')");
  await page.waitForSelector(".workflows-far");
  assert.ok((await elements()) < 40, `${await elements()} elements from afar`);
  await page.focus(".workflows-pane");
  await page.keyboard.press("End");
  await page.waitForSelector(".workflows-graph [role=status]:has-text('cleanup')");
  await page.click("[role=tab]:has-text('Gantt')");
  await page.waitForSelector(".workflows-bar");
  assert.ok((await page.locator(".workflows-bar").count()) < 100);
  await sound(page);
  await page.context().close();
});

test("a viewer is offered no acts, and reasons stay text", async () => {
  const page = await visit(browser, server.url + "/workflows", { prepare: told(three) });
  await page.route("**/api/v1/session", (r) => r.fulfill({ json: { tenant_id: "acme", role: "viewer", name: "ann", key_id: "k1", kind: "cookie", signed_in_at: new Date().toISOString(), idle_expires_at: null, expires_at: null } }));
  const evil = { ...page.told.run, nodes: page.told.run.nodes.map((n, i) => ({ ...n, reason: nasty[i] })) };
  await page.route(/\/api\/v1\/workflow-runs\/[^/?]+(\?.*)?$/, (r) => r.fulfill({ json: evil }));
  await page.goto(server.url + run + "?node=publish");
  await page.waitForSelector("text=ann");
  await page.waitForSelector(".workflows-drawer");
  assert.equal(await page.locator("#main button:has-text('Approve'), #main button:has-text('Cancel'), #main button:has-text('Skip'), #main button:has-text('Pause')").count(), 0);
  await unharmed(page);
  await page.context().close();
});
