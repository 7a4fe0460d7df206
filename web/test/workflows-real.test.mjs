// Workflows on a real server: written, begun, watched, decided, run again. The work is simulated.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, launch, serve, settle, sound, visit } from "./harness.mjs";
import { begin, broken, node, over, photos, reaches, sleep } from "./workflows-seed.mjs";

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([serve(), launch()]);
  await server.api("POST", "/workflows", photos);
  await server.api("POST", "/workflows", broken);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const open = async (path) => {
  const page = await visit(browser, server.url + path);
  await settle(page);
  return page;
};
const runOf = (id) => "/workflow-runs/" + id;
const asks = (r) => node(r, "publish").status === "RUNNING";
const close = async (page) => {
  await sound(page);
  await page.context().close();
};

test("a workflow is written, its mistakes are shown in place, and it is created", async () => {
  const page = await open("/workflows/new");
  page.expects = /status of 422/;
  await page.waitForSelector("text=No mistakes found");
  const nodes = [{ key: "a", depends_on: ["b"], execution: { target: "simulate" } }, { key: "b", depends_on: ["a"], execution: { target: "simulate" } }];
  await page.fill("#main textarea", JSON.stringify({ name: "Round", nodes }));
  await page.waitForSelector(".error :text('a → b → a')");
  assert.ok(await page.isDisabled("#main button:has-text('Create')"));
  await accessible(page);
  await page.fill("#main textarea", JSON.stringify({ name: "Straight", nodes: [{ key: "a", execution: { target: "simulate", work_kind: "sleep", duration_ms: 5 } }] }));
  await page.waitForSelector("text=No mistakes found");
  await page.click("#main button:has-text('Create')");
  await page.waitForSelector("h1:has-text('Straight')");
  await page.waitForSelector(".workflows-node:has-text('a')");
  await close(page);
});

test("a run is begun by the form of its input, watched as it changes, and approved in place", async () => {
  const page = await open("/workflows/key:photos");
  await page.click("button:has-text('Run now')");
  await page.fill("dialog label:has-text('day') + input", "2026-11-18");
  await page.fill("dialog label:has-text('files') + input", "6");
  await page.click("dialog button[type=submit]");
  await page.waitForURL("**/workflow-runs/*");
  await page.waitForSelector(".workflows-asks:has-text('publish')"); // without a reload
  await page.waitForSelector(".workflows-node:has-text('6 of 6')");
  await page.locator(".workflows-node", { hasText: "resize" }).click();
  await page.waitForSelector(".workflows-drawer li:has-text('#5')");
  assert.equal(await page.locator(".workflows-drawer li").count(), 6);
  await accessible(page);
  await page.click(".workflows-asks button:has-text('Approve')");
  await page.selectOption("dialog select", "web");
  await page.fill("dialog textarea", "Looks good");
  await page.click("dialog button[type=submit]");
  await page.waitForSelector("#main h1 ~ * :text('Succeeded'), #main header :text('Succeeded')");
  const r = await server.api("GET", runOf(page.url().split("/").pop().split("?")[0]));
  assert.deepEqual([r.status, node(r, "publish").wait.votes[0].data, node(r, "publish").wait.votes[0].comment], ["SUCCEEDED", { channel: "web" }, "Looks good"]);
  await page.click("[role=tab]:has-text('Gantt')");
  await page.waitForSelector(".workflows-bar:has-text('publish')"); // the time that it waited for people
  assert.equal(await page.locator(".workflows-bar").count(), 3);
  await close(page);
});

test("a run is paused, goes on, and is cancelled", async () => {
  const id = await begin(server, "key:photos", { day: "x", files: 1 });
  await reaches(server, id, asks);
  const page = await open(runOf(id));
  await page.click("button:has-text('Pause')");
  await page.waitForSelector("text=nothing else starts until you press Continue");
  assert.equal((await server.api("GET", runOf(id))).status, "PAUSED");
  await page.click("button:has-text('Continue')");
  await page.waitForSelector("#main button:has-text('Pause')");
  await page.click("#main button:has-text('Cancel')");
  await page.waitForSelector("dialog :text('1 node would change')");
  await page.click("dialog button[type=submit]");
  await page.waitForSelector("#main button:has-text('Retry')");
  assert.equal((await server.api("GET", runOf(id))).status, "CANCELLED");
  await close(page);
});

test("a failed run says why, and a retry from a node shows first what it changes", async () => {
  const id = await begin(server, "key:import", { mail: false });
  await reaches(server, id, over);
  const page = await open(runOf(id) + "?node=load");
  await page.waitForSelector(".workflows-drawer :text('simulated work failed')");
  await page.click("[role=tab]:has-text('Table')");
  await page.waitForSelector("table[aria-label=Nodes] :text('not run because of load')");
  await page.waitForSelector("table[aria-label=Nodes] :text('run.input.mail')");
  await page.click("button:has-text('Retry from here')");
  await page.waitForSelector("dialog :text('4 nodes would change')");
  await page.click("dialog label:has-text('Only this node')");
  await page.waitForSelector("dialog :text('would change')");
  await page.click("dialog label:has-text('Only this node')");
  await page.waitForSelector("dialog :text('4 nodes would change')");
  await accessible(page);
  await page.click("dialog button[type=submit]");
  await page.waitForSelector("dialog", { state: "detached" });
  const r = await reaches(server, id, (r) => r.attempt === 2 && over(r));
  await page.waitForSelector("text=attempt 2");
  assert.equal(node(r, "load").status, "FAILED");
  await close(page);
});

test("what waits for a decision is in the inbox, and is approved and rejected there", async () => {
  const [yes, no] = [await begin(server, "key:photos", { day: "a", files: 1 }), await begin(server, "key:photos", { day: "b", files: 1 })];
  await reaches(server, yes, asks);
  await reaches(server, no, asks);
  const page = await open("/approvals");
  const row = (id) => page.locator("tbody tr", { has: page.locator(`a[href*='${id}']`) });
  await row(no).waitFor();
  await accessible(page);
  await row(no).locator("button:has-text('Reject')").click();
  await page.fill("dialog textarea", "The wrong day");
  await page.click("dialog button[type=submit]");
  await page.waitForSelector("text=Rejected publish");
  await row(no).waitFor({ state: "detached" }); // without a reload
  await row(yes).locator("button:has-text('Approve')").click();
  await page.selectOption("dialog select", "print");
  await page.click("dialog button[type=submit]");
  await page.waitForSelector("text=Approved publish");
  await row(yes).waitFor({ state: "detached" });
  const [approved, rejected] = [await reaches(server, yes, over), await reaches(server, no, over)];
  assert.deepEqual([approved.status, node(approved, "publish").wait.votes[0].data], ["SUCCEEDED", { channel: "print" }]);
  assert.deepEqual([rejected.status, node(rejected, "publish").status, node(rejected, "publish").wait.votes[0].comment], ["FAILED", "FAILED", "The wrong day"]);
  await close(page);
});

test("a failed node is marked as succeeded with a result, and what depends on it runs", async () => {
  const id = await begin(server, "key:import", { mail: false });
  await reaches(server, id, over);
  const page = await open(runOf(id) + "?node=load");
  await page.click(".workflows-drawer button:has-text('Mark as succeeded')");
  await page.fill("dialog textarea", '{"rows": 3}');
  await page.waitForSelector("dialog :text('would change')");
  await accessible(page);
  await page.click("dialog button[type=submit]");
  await page.waitForSelector("text=Marked load as succeeded");
  const r = await reaches(server, id, (r) => r.attempt === 2 && over(r));
  assert.deepEqual([r.status, node(r, "load").status, node(r, "report").status], ["SUCCEEDED", "SUCCEEDED", "SUCCEEDED"]);
  assert.match(node(r, "load").reason, /by hand/);
  await page.waitForSelector(".workflows-drawer :text('marked as succeeded by hand')");
  await close(page);
});

test("a failed node is skipped, and so is what depends on it", async () => {
  const id = await begin(server, "key:import", { mail: false });
  await reaches(server, id, over);
  const page = await open(runOf(id) + "?node=load");
  await page.click(".workflows-drawer button:has-text('Skip')");
  await page.waitForSelector("dialog :text('would change')");
  await page.click("dialog button[type=submit]");
  await page.waitForSelector("text=Skipped load");
  const r = await reaches(server, id, (r) => r.attempt === 2 && over(r));
  assert.deepEqual([r.status, node(r, "load").status, node(r, "report").status], ["SUCCEEDED", "SKIPPED", "SKIPPED"]);
  await close(page);
});

test("a node leads to its execution, the execution back to the run, and the workflow's job to the graph", async () => {
  const id = await begin(server, "key:import", {});
  const r = await reaches(server, id, over);
  const list = node(r, "list").execution_id;
  const page = await open(runOf(id) + "?node=list");
  await page.click(".workflows-drawer a:has-text('Open it')");
  await page.waitForURL("**/executions/" + list);
  await page.click("[role=tab]:has-text('Request and response')");
  await page.waitForSelector("section[aria-label=Request] :text('Simulated')"); // as the workflow says, since no job of its own does
  await page.click("[role=tab]:has-text('Compare')");
  await page.waitForSelector(".execution-facts a:has-text('list')");
  await settle(page);
  await accessible(page);
  await page.click(".execution-facts a:has-text('list')");
  await page.waitForURL(`**/workflow-runs/${id}?node=list`);
  await page.waitForSelector(".workflows-drawer h2:has-text('list')");
  await page.goto(server.url + "/executions/" + r.execution_id);
  await page.click("a:has-text('Open the run')");
  await page.waitForURL("**/workflow-runs/" + id);
  await page.goto(server.url + "/jobs/" + r.workflow_id);
  await page.click("a:has-text('Open the graph')");
  await page.waitForURL("**/workflows/" + r.workflow_id);
  await sound(page);
  page.expects = /status of 404/; // a node that the workflow itself describes has no job, but the page says where it is
  await page.goto(server.url + "/jobs/" + (await server.api("GET", "/executions/" + list)).job_id);
  await page.click("a:has-text('Open its last execution')");
  await page.waitForURL("**/executions/*");
  await close(page);
});

test("a workflow is edited: mistakes are shown in place, and what is saved is another version", async () => {
  const w = await server.api("POST", "/workflows", { key: "edited", name: "Edited", schedule: { type: "CRON", cron_expression: "0 2 * * *", timezone: "Europe/Berlin" }, nodes: [{ key: "a", execution: sleep(5) }] });
  const page = await open("/workflows/" + w.workflow_id);
  page.expects = /status of (422|412)/;
  await page.click("a:has-text('Edit')");
  await page.waitForSelector("text=No mistakes found");
  assert.ok(await page.isDisabled("#main button:has-text('Save')"));
  const text = JSON.parse(await page.inputValue("#main textarea"));
  assert.deepEqual([text.key, text.schedule.cron_expression, text.workflow_id, text.schedule.next_run_at], ["edited", "0 2 * * *", undefined, undefined]);
  const wrong = { ...text, nodes: [...text.nodes, { key: "b", depends_on: ["c"], execution: sleep(5) }] };
  await page.fill("#main textarea", JSON.stringify(wrong));
  await page.waitForSelector(".error code:has-text('nodes[1].depends_on')");
  assert.ok(await page.isDisabled("#main button:has-text('Save')"));
  await accessible(page);
  await page.fill("#main textarea", JSON.stringify({ ...text, nodes: [...text.nodes, { key: "b", depends_on: ["a"], execution: sleep(5) }] }));
  await page.waitForSelector("text=No mistakes found");
  await page.click("#main button:has-text('Save')");
  await page.waitForSelector("text=Saved as version 2");
  await page.waitForSelector(".workflows-node:has-text('b')");
  const now = await server.api("GET", "/workflows/key:edited");
  assert.deepEqual([now.version, now.schedule.cron_expression, now.nodes.map((n) => n.key)], [2, "0 2 * * *", ["a", "b"]]);

  // What someone else has saved meanwhile is not undone.
  await page.click("a:has-text('Edit')");
  await page.waitForSelector("text=No mistakes found");
  await server.api("PATCH", "/workflows/" + w.workflow_id, { timeout: "1h" });
  await page.fill("#main textarea", JSON.stringify({ ...text, name: "Mine" }));
  await page.waitForSelector("text=No mistakes found");
  await page.click("#main button:has-text('Save')");
  await page.waitForSelector(".error:has-text('Someone else changed it')");
  const kept = await server.api("GET", "/workflows/key:edited");
  assert.deepEqual([kept.name, kept.timeout], ["Edited", "1h"]);
  await close(page);
});

test("versions show the graph as it was", async () => {
  const w = await server.api("GET", "/workflows/key:import");
  await server.api("PATCH", "/workflows/" + w.workflow_id, { nodes: [...broken.nodes, { key: "archive", depends_on: ["report"], execution: sleep(5) }] });
  const page = await open(`/workflows/${w.workflow_id}?tab=versions`);
  await page.waitForSelector(".workflows-node:has-text('archive')");
  await page.click("a:has-text('Version 1')");
  await page.waitForSelector("text=This is version 1");
  await page.waitForSelector(".workflows-node:has-text('archive')", { state: "detached" });
  await page.click("a:has-text('Show the current one')");
  await page.waitForSelector(".workflows-node:has-text('archive')");
  await close(page);
});
