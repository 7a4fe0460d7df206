// Filters choose what they say, and nothing is done to all by a filter that says something else. Rows that keys point at stay the same rows.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { overview } from "./fakes.mjs";
import { launch, serve, settle, sound, visit } from "./harness.mjs";

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([serve(), launch()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const job = (name, more = {}) => server.api("POST", "/jobs", { name, schedule: { type: "CRON", cron_expression: "0 0 1 1 *" }, execution: { target: "simulate", work_kind: "noop" }, ...more });
const at = (path, q) => server.url + path + "?q=" + encodeURIComponent(q);
const names = (page) => page.locator("table[aria-label=Jobs] tbody td.lead .name").allInnerTexts();

test("a key that is unknown is text, and one without a value chooses nothing: neither offers to act on all", async () => {
  const a = await job("mine", { owner: "Alice & Bob" });
  await job("whose:mine", { owner: "bob" });
  const t = await server.api("POST", `/jobs/${a.job_id}/trigger`, {});
  const page = await visit(browser, at("/jobs", "whose:mine"));
  await page.waitForSelector("text=No such key: whose");
  await settle(page);
  assert.deepEqual(await names(page), ["whose:mine"]);
  assert.equal(await page.locator(".selbar").count(), 0);
  for (const q of ["status:", "whose:", "tag: mine"]) {
    await page.goto(at("/jobs", q));
    await page.waitForSelector("table[aria-label=Jobs] tbody tr");
    await settle(page);
    assert.equal(await page.locator(".selbar").count(), 0, q);
  }
  await page.waitForSelector("text=tag without a value chooses nothing");
  await page.goto(at("/jobs", "status:active mine"));
  await page.waitForSelector(".selbar:has-text('2 match')");
  for (const path of ["/executions", "/dead-letters"]) {
    for (const q of ["whose:mine", "job:"]) {
      await page.goto(at(path, q));
      await settle(page);
      assert.equal(await page.locator(".selbar").count(), 0, path + " " + q);
      await page.keyboard.press("Control+k");
      await page.waitForSelector("[role=dialog], dialog[open]");
      assert.equal(await page.locator("text=that match").count(), 0, path + " " + q);
      await page.keyboard.press("Escape");
    }
  }
  // A program that asks reads the same.
  const json = (q) => fetch(at("/jobs", q), { headers: { Accept: "application/json" } }).then((r) => r.json());
  assert.deepEqual((await json("whose:mine")).jobs.map((j) => j.name), ["whose:mine"]);
  assert.equal((await json("status:")).jobs.length, 2);
  assert.ok(t.execution_id);
  await sound(page);
  await page.context().close();
});

test("jobs of an owner, by a click on it", async () => {
  await job("theirs", { owner: "the others" });
  const page = await visit(browser, server.url + "/jobs");
  await page.click("td a:has-text('the others')");
  await page.waitForURL("**/jobs?q=owner*");
  await page.waitForSelector("text=1 match");
  assert.deepEqual(await names(page), ["theirs"]);
  await page.click(".selbar >> text=Pause");
  await page.waitForSelector("dialog h2:has-text('Pause: 1 job')");
  await page.click("dialog button[type=submit]");
  await page.waitForSelector("dialog >> text=1 of 1 done");
  assert.equal((await server.api("GET", "/jobs?status=PAUSED")).jobs[0].name, "theirs");
  await sound(page);
  await page.context().close();
});

test("what is late is a filter: from Now, in the list, and for all of them", async () => {
  const page = await visit(browser, server.url + "/", { prepare: (p) => p.route("**/api/v1/overview*", (r) => r.fulfill({ json: overview() })) });
  const asked = page.waitForRequest((r) => /\/api\/v1\/jobs\?.*late=true/.test(r.url()));
  await page.click(".now-tiles a:has-text('Late')");
  await asked;
  await page.waitForSelector("text=leaves none of them");
  assert.equal(await page.inputValue("[role=combobox]"), "late:true");
  const body = { action: "pause", filter: { late: true }, dry_run: true };
  assert.equal((await server.api("POST", "/jobs:bulk", body)).count, 0);
  // As the dialog sends it.
  let sent;
  await page.route("**/api/v1/jobs?*late=true*", (r) => r.fulfill({ json: { jobs: [], pagination: { limit: 50, total: 3, next_cursor: null } } }));
  await page.route("**/api/v1/jobs:bulk", (r) => {
    sent = r.request().postDataJSON();
    return r.fallback();
  });
  await page.reload();
  await page.click(".selbar >> text=Pause");
  await page.waitForSelector("dialog >> text=No job matches");
  assert.deepEqual(sent.filter, { late: true });
  await sound(page);
  await page.context().close();
});

test("the row that keys point at stays the same while others come", async () => {
  for (let i = 0; i < 3; i++) await job("row " + i);
  const page = await visit(browser, server.url + "/jobs");
  await page.waitForSelector("tbody tr");
  await page.waitForSelector("[data-live=live], .live:has-text('Live')", { timeout: 5000 }).catch(() => {});
  await page.mouse.move(700, 5);
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.waitForSelector("tr[data-at] >> text=row 1");
  await job("a newer one");
  await page.waitForSelector(".pill:has-text('new')");
  assert.equal(await page.locator("text=a newer one").count(), 0, "the list stands still");
  await page.click(".pill");
  await page.waitForSelector("td >> text=a newer one");
  await page.keyboard.press("x");
  await page.waitForSelector("tr[data-at][aria-selected=true] >> text=row 1");
  await page.keyboard.press("x");
  await page.mouse.move(700, 5);
  await job("the newest");
  await page.waitForSelector(".pill:has-text('new')");
  await page.keyboard.press("Escape");
  await page.waitForSelector("td >> text=the newest");
  assert.equal(await page.locator("tr[data-at]").count(), 0);
  await sound(page);
  await page.context().close();
});

test("an operation that cannot be watched says so, and goes on", async () => {
  await job("watched", { tags: ["watch me"] });
  const page = await visit(browser, at("/jobs", 'tag:"watch me"'));
  page.expects = /50[03]/;
  let n = 0;
  await page.route("**/api/v1/operations/*", (r) => (n++ === 0 ? r.fulfill({ status: 503, json: { code: "busy", title: "Busy", detail: "Too much to do." } }) : n < 4 ? new Promise((f) => setTimeout(f, 400)).then(() => r.fallback()) : r.fallback()));
  await page.click(".selbar button:text-is('Tag')");
  await page.fill("dialog input[aria-label='Tags, 1']", "with, comma");
  await page.click("dialog button[type=submit]");
  await page.waitForSelector("dialog .error:has-text('It goes on')");
  await page.waitForSelector("dialog >> text=1 of 1 done");
  assert.equal(await page.locator("dialog .error").count(), 0);
  assert.deepEqual((await server.api("GET", "/jobs?name=watched")).jobs[0].tags.sort(), ["watch me", "with, comma"]);
  await sound(page);
  await page.context().close();
});

test("the strip of a job is its own; where nothing can be copied an id says so", async () => {
  const a = await job("ran");
  const b = await job("never ran");
  const { execution_id } = await server.api("POST", `/jobs/${a.job_id}/trigger`, {});
  for (let i = 0; (await server.api("GET", "/executions/" + execution_id)).status !== "SUCCEEDED" && i < 100; i++) await new Promise((r) => setTimeout(r, 100));
  const page = await visit(browser, `${server.url}/jobs/${a.job_id}`, { prepare: (p) => p.addInitScript(() => Object.defineProperty(navigator, "clipboard", { value: undefined })) });
  await page.waitForSelector("text=Last 1 execution: none failed");
  await page.click("button:has-text('…')");
  await page.waitForSelector(".toast.bad:has-text('only on https')");
  let go;
  await page.route("**/api/v1/jobs:runs*", (r) => new Promise((f) => (go = f)).then(() => r.fallback()));
  await page.evaluate((to) => {
    history.pushState(null, "", to);
    dispatchEvent(new PopStateEvent("popstate"));
  }, `/jobs/${b.job_id}`);
  await page.waitForSelector("h1:has-text('never ran')");
  await page.waitForSelector("section[aria-label='What it does']");
  assert.equal(await page.locator("text=Last 1 execution: none failed").count(), 0);
  go();
  await page.waitForSelector("text=No executions yet");
  await sound(page);
  await page.context().close();
});

test("compared payloads say where they may be another than it ran with", async () => {
  const j = await job("compared", { execution: { target: "simulate", work_kind: "noop", payload: { v: 1 } } });
  const ids = [];
  for (let i = 0; i < 2; i++) ids.push((await server.api("POST", `/jobs/${j.job_id}/trigger`, {})).execution_id);
  for (const id of ids) for (let i = 0; (await server.api("GET", "/executions/" + id)).status !== "SUCCEEDED" && i < 100; i++) await new Promise((r) => setTimeout(r, 100));
  const page = await visit(browser, `${server.url}/executions/${ids[0]}?tab=compare`);
  await page.waitForSelector("table[aria-label=Compared] th:has-text('Payload')");
  assert.equal(await page.locator("text=which has changed since").count(), 0);
  await server.api("PATCH", "/jobs/" + j.job_id, { execution: { payload: { v: 2 } } });
  await page.reload();
  await page.waitForSelector("table[aria-label=Compared] th:has-text('Payload') >> text=which has changed since");
  await sound(page);
  await page.context().close();
});
