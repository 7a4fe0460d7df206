// Now, Jobs, Job and the forms: what people do there, by mouse and by keys alone, in every look, with foul text in every field.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { busy } from "./fakes.mjs";
import { accessible, everyLook, launch, nasty, picture, serve, settle, sound, toJobs, unharmed, visit } from "./harness.mjs";

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([serve("--demo"), launch()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const job = (name, more = {}) => server.api("POST", "/jobs", { name, schedule: { type: "CRON", cron_expression: "30 2 * * *", timezone: "Europe/Berlin" }, execution: { target: "simulate", work_kind: "noop" }, ...more });

test("an empty server teaches, and its button makes a job that rings", async () => {
  const empty = await serve();
  try {
    const page = await visit(browser, empty.url + "/jobs");
    await page.waitForSelector("text=No jobs yet");
    await picture(page, "jobs-empty-1440-dark");
    await accessible(page);
    await page.click("text=Create the hello job");
    await page.waitForURL("**/jobs/new?sample=hello");
    await page.waitForSelector("text=Every 10s from its start");
    await page.click("button:has-text('Pretend')");
    await page.fill("label:has-text('Every') + input", "1s");
    await page.click("button:has-text('Create job')");
    await page.waitForSelector("h1:has-text('hello')");
    await page.waitForSelector(".state:has-text('Succeeded')");
    await sound(page);
    await page.context().close();
  } finally {
    await empty.stop();
  }
});

test("a cron expression is told in words and instants while it is typed, with what clocks do", async () => {
  const page = await visit(browser, server.url + "/jobs/new");
  page.expects = /status of 422/; // what is typed half
  await page.fill("label:has-text('Cron expression') + input", "30 2 29 3 *");
  await page.fill("label:has-text('Zone') + input", "Europe/Berlin");
  await page.waitForSelector(".form-preview >> text=29");
  await page.fill("label:has-text('Cron expression') + input", "30 2 L * SUN");
  await page.fill("label:has-text('Cron expression') + input", "0 0 30 2 *");
  await page.waitForSelector(".form-preview .bad");
  await page.fill("label:has-text('Cron expression') + input", "30 2 28 3 *");
  await page.waitForSelector(".form-preview >> text=clocks go forward");
  await accessible(page);
  await page.fill("label:has-text('Name') + input", "Typed");
  await page.click("button:has-text('Pretend')");
  await page.click("button:has-text('Create job')");
  await page.waitForSelector("h1:has-text('Typed')");
  await sound(page);
  await page.context().close();
});

test("numbers beyond doubles stay exact from the editor to the store and back", async () => {
  const page = await visit(browser, server.url + "/jobs/new");
  await page.fill("label:has-text('Name') + input", "Exact");
  await page.click("button:has-text('Pretend')");
  await page.fill("label:has-text('JSON payload') >> xpath=../..//textarea", '{"id": 12345678901234567890, "one": 1.0}');
  await page.click("button:has-text('Create job')");
  await page.waitForSelector("h1:has-text('Exact')");
  const id = page.url().split("/").pop();
  const text = await (await fetch(`${server.url}/api/v1/jobs/${id}`)).text();
  assert.match(text, /12345678901234567890/);
  await page.goto(`${server.url}/jobs/${id}/edit`);
  await page.waitForFunction(() => [...document.querySelectorAll("textarea")].some((t) => t.value.includes("12345678901234567890") && t.value.includes("1.0")));
  await sound(page);
  await page.context().close();
});

test("a mistake is told at its field, and nothing typed is lost", async () => {
  const page = await visit(browser, server.url + "/jobs/new");
  page.expects = /status of 4(00|22)/;
  await page.fill("label:has-text('Name') + input", "Wrong");
  await page.fill("label:has-text('URL') + input", "ftp://x");
  await page.click("button:has-text('Create job')");
  await page.waitForSelector(".error");
  await page.waitForSelector("label:has-text('URL') ~ span .wrong");
  assert.equal(await page.inputValue("label:has-text('Name') + input"), "Wrong");
  await accessible(page);
  await sound(page);
  await page.context().close();
});

test("pause with a reason, undo, run now, edit under a revision, clone, delete by its name", async () => {
  const j = await job("Handled", { key: "handled" });
  const page = await visit(browser, `${server.url}/jobs/${j.job_id}`);
  await page.waitForSelector("h1:has-text('Handled')");
  await page.keyboard.press("p");
  await page.fill("dialog input", "the moving men");
  await page.keyboard.press("Enter");
  await page.waitForSelector("text=the moving men");
  await page.click(".toast >> text=Undo");
  await page.waitForSelector("text=the moving men", { state: "detached" });

  await page.keyboard.press("r");
  await page.waitForSelector("dialog h2:has-text('Run Handled now')");
  await accessible(page);
  await page.fill("dialog textarea", '{"by": "hand"');
  assert.equal(await page.isDisabled("dialog button[type=submit]"), true);
  await page.fill("dialog textarea", '{"by": "hand"}');
  await page.click("dialog button[type=submit]");
  await page.waitForURL("**/executions/*");
  const e = await server.api("GET", "/executions/" + page.url().split("/").pop());
  assert.equal(e.trigger, "manual");

  await page.goto(`${server.url}/jobs/${j.job_id}/edit`);
  await page.waitForSelector("h1:has-text('Edit Handled')");
  assert.equal(await page.isDisabled("button:has-text('Save')"), true);
  await page.fill("label:has-text('Owner') + input", "ops");
  await server.api("PATCH", "/jobs/" + j.job_id, { priority: 3 });
  page.expects = /status of 412/;
  await page.click("button:has-text('Save')");
  await page.waitForSelector("text=Someone else changed it");
  await page.reload();
  await page.fill("label:has-text('Owner') + input", "ops");
  await page.click("button:has-text('Save')");
  await page.waitForSelector("dd:has-text('ops')");
  const now = await server.api("GET", "/jobs/" + j.job_id);
  assert.deepEqual([now.owner, now.priority, now.schedule.cron_expression], ["ops", 3, "30 2 * * *"]);

  await page.click("button[aria-label='More']");
  await page.click("[role=menuitem]:has-text('Clone')");
  await page.waitForURL("**/jobs/new?clone=*");
  assert.equal(await page.inputValue("label:has-text('Name') + input"), "Handled (copy)");
  await page.goBack();
  await page.waitForSelector("h1:has-text('Handled')");

  await page.click("button[aria-label='More']");
  await page.click("[role=menuitem]:has-text('Delete')");
  assert.equal(await page.isDisabled("dialog button[type=submit]"), true);
  await page.fill("dialog input:not([type=checkbox])", "Handled");
  await page.click("dialog button[type=submit]");
  await page.waitForURL("**/jobs");
  assert.equal((await server.api("GET", "/jobs/" + j.job_id)).status, "DELETED");
  await sound(page);
  await page.context().close();
});

test("a job is deleted with what runs of it", async () => {
  const j = await server.api("POST", "/jobs", { name: "Runs on", execution: { target: "simulate", work_kind: "sleep", duration_ms: 600_000 } });
  const status = async () => (await server.api("GET", "/executions?job_id=" + j.job_id)).executions[0].status;
  for (let i = 0; (await status()) !== "RUNNING" && i < 600; i++) await new Promise((r) => setTimeout(r, 50));
  const page = await visit(browser, server.url + "/jobs/" + j.job_id);
  await page.click("button[aria-label='More']");
  await page.click("[role=menuitem]:has-text('Delete')");
  await page.fill("dialog input:not([type=checkbox])", "Runs on");
  await page.getByLabel("Cancel what runs").check();
  await page.waitForSelector("dialog >> text=--running cancel");
  await page.click("dialog button[type=submit]");
  await page.waitForURL("**/jobs");
  for (let i = 0; (await status()) !== "CANCELLED" && i < 600; i++) await new Promise((r) => setTimeout(r, 50));
  assert.equal(await status(), "CANCELLED");
  await sound(page);
  await page.context().close();
});

test("a filter with completion, and the same done to all that match, counted first", async () => {
  for (let i = 0; i < 3; i++) await job("Bulk " + i, { tags: ["bulky"] });
  const page = await visit(browser, server.url + "/jobs");
  await settle(page);
  await page.keyboard.press("/");
  await page.keyboard.type("tag:");
  await page.waitForSelector("[role=option] >> text=tag:bulky");
  await page.keyboard.type("bul");
  await page.waitForSelector("[role=option] >> text=tag:bulky");
  await accessible(page);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/jobs?q=tag%3Abulky");
  await page.waitForSelector("text=3 match");
  await page.keyboard.press("Escape");
  await page.click(".selbar >> text=Pause");
  await page.waitForSelector("dialog h2:has-text('Pause: 3 jobs')");
  await page.fill("dialog input", "all of them");
  await page.click("dialog button[type=submit]");
  await page.waitForSelector("text=3 of 3 done");
  await page.click("dialog button:has-text('Close')");
  await page.waitForFunction(() => document.querySelectorAll("tbody .state").length >= 3);
  assert.equal((await server.api("GET", "/jobs?tag=bulky&status=PAUSED")).pagination.total, 3);
  await page.fill("[role=combobox]", "status:active tag:bulky");
  await page.keyboard.press("Enter");
  await page.waitForSelector("text=leaves none of them");
  const json = await (await fetch(page.url(), { headers: { Accept: "application/json" } })).json();
  assert.equal(json.jobs.length, 0);
  await sound(page);
  await page.context().close();
});

test("jobs that send notifications are hidden until they are asked for, and nothing is done to them by filter", async () => {
  const kept = { schedule: { type: "CRON", cron_expression: "0 0 1 1 *" }, execution: { target: "simulate", work_kind: "noop" } };
  await server.api("POST", "/jobs:batch", [{ ...kept, name: "hidden own", tags: ["quiet"] }, { ...kept, name: "hidden notification: oncall", tags: ["carillon-notification"] }]);
  const page = await visit(browser, server.url + "/jobs?q=hidden");
  await settle(page);
  const rows = page.locator("table[aria-label=Jobs] tbody tr");
  assert.equal(await rows.count(), 1);
  assert.match(await page.locator(".selbar").innerText(), /^1 match/);
  const asked = page.waitForRequest((r) => r.url().includes("/jobs:bulk"));
  await page.locator(".selbar").getByRole("button", { name: "Pause" }).click();
  assert.equal(JSON.parse((await asked).postData()).filter.without_tag, "carillon-notification");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Include notifications" }).click();
  await rows.nth(1).waitFor();
  assert.match(page.url(), /show=all/);
  await page.goto(server.url + "/jobs?q=tag:carillon-notification");
  await settle(page);
  assert.match(await rows.innerText(), /oncall/, "the tag itself asks for them");
  await sound(page);
  await page.context().close();
  for (const j of (await server.api("GET", "/jobs?q=hidden")).jobs) await server.api("DELETE", "/jobs/" + j.job_id);
});

test("by keys alone: to a job, through each of its tabs, and back", async () => {
  const j = await job("Keyed", { tags: ["keyed"] });
  await server.api("POST", `/jobs/${j.job_id}/trigger`, {});
  const page = await visit(browser, server.url + "/");
  await settle(page);
  await toJobs(page);
  await page.waitForSelector("tbody tr");
  await page.keyboard.press("/");
  await page.keyboard.type("tag:keyed");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/jobs?q=tag%3Akeyed");
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1);
  await page.keyboard.press("Escape");
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await page.waitForSelector("text=1 selected");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/jobs/" + j.job_id);
  await page.waitForSelector("h1:has-text('Keyed')");
  const seen = { Executions: "table >> text=Succeeded", Instants: "text=02:30", Versions: "text=Revision 1", Definition: "text=cron_expression", Overview: "text=What it does" };
  for (const [name, there] of Object.entries(seen)) {
    // Tab by Tab, as one who has no mouse gets there.
    for (let i = 0; i < 80; i++) {
      if (await page.evaluate((n) => document.activeElement?.getAttribute("role") === "tab" && document.activeElement.textContent === n, name)) break;
      await page.keyboard.press(name === "Overview" ? "Shift+Tab" : "Tab");
    }
    assert.equal(await page.evaluate(() => document.activeElement.textContent), name, "no tab is reached by Tab");
    assert.equal(await page.evaluate(() => document.activeElement.matches(":focus-visible")), true);
    await page.keyboard.press("Enter");
    await page.waitForSelector(`[role=tab][aria-selected=true]:has-text("${name}")`);
    await page.waitForSelector("#tabpanel >> " + there);
  }
  for (let i = 0; i < 6; i++) await page.goBack();
  await page.waitForURL("**/jobs?q=tag%3Akeyed");
  await sound(page);
  await page.context().close();
});

test("what a stacked plot tells of a queue is the queue's own", async () => {
  const at = (m) => new Date(Math.floor(Date.now() / 300_000) * 300_000 - m * 60_000).toISOString();
  const page = await visit(browser, server.url + "/", {
    prepare: (p) => p.route("**/api/v1/series/queues*", (r) => r.fulfill({ json: { from: at(10), to: at(0), step_seconds: 300, queues: ["a", "b", "c"], columns: [10, 5].map((m) => ({ at: at(m), waiting: 13, running: 1, oldest_seconds: 2, queues: [["a", 8], ["b", 4], ["c", 1]].map(([queue, waiting]) => ({ queue, waiting, running: 0, oldest_seconds: 2 })) })) } })),
  });
  const plot = page.locator("figure", { hasText: "Queue depth" });
  const box = await plot.locator(".u-over").boundingBox();
  await page.mouse.move(box.x + box.width / 4, box.y + box.height / 2);
  for (const told of ["a: 8", "b: 4", "c: 1"]) await plot.locator(".legend span", { hasText: told }).waitFor();
  await page.mouse.move(2, 2);
  await plot.getByRole("button", { name: "Table" }).click();
  assert.deepEqual((await plot.locator("thead th").allInnerTexts()).slice(1), ["c", "b", "a", "oldest waits"]);
  assert.deepEqual((await plot.locator("tbody tr").first().locator("td").allInnerTexts()).slice(1, 4), ["1", "4", "8"]);
  await sound(page);
  await page.context().close();
});

test("numbers stay exact in browsers that cannot keep them as they are written", async () => {
  const page = await visit(browser, server.url + "/jobs/new", {
    prepare: (p) =>
      p.addInitScript(() => {
        const { parse } = JSON;
        delete JSON.rawJSON;
        delete JSON.isRawJSON;
        JSON.parse = (text, reviver) => parse(text, reviver && ((k, v) => reviver(k, v)));
      }),
  });
  await page.fill("label:has-text('Name') + input", "Exact of old");
  await page.click("button:has-text('Pretend')");
  await page.fill("label:has-text('JSON payload') >> xpath=../..//textarea", '{"id": 12345678901234567890, "one": 1.0, "text": "1.0 \\" 2e5", "f": 1234567890.12345678}');
  await page.locator(".field", { hasText: "JSON payload" }).getByRole("button", { name: "Format" }).click();
  await page.click("button:has-text('Create job')");
  await page.waitForSelector("h1:has-text('Exact of old')");
  const text = await (await fetch(`${server.url}/api/v1/jobs/${page.url().split("/").pop()}`)).text();
  assert.match(text, /"payload":\s*\{"id":\s*12345678901234567890,\s*"one":\s*1\.0,\s*"text":\s*"1\.0 \\" 2e5",\s*"f":\s*1234567890\.12345678\}/);
  await page.click("a[role=tab]:has-text('Definition')");
  await page.waitForSelector("#tabpanel >> text=12345678901234567890");
  await sound(page);
  await page.context().close();
});

test("foul text stays text", async () => {
  const ids = [];
  for (const evil of nasty) {
    const j = await job(evil, { description: evil, owner: evil, runbook: evil, tags: [evil.slice(0, 100)], execution: { callback_url: server.url + "/demo/echo", headers: { "X-Evil": evil.replace(/[^\x20-\x7e]/g, "") }, payload: { [evil]: evil } } });
    ids.push(j.job_id);
    await server.api("POST", `/jobs/${j.job_id}/pause`, { reason: evil });
  }
  const page = await visit(browser, server.url + "/jobs");
  await settle(page);
  await unharmed(page);
  for (const id of ids)
    for (const path of ["", "?tab=definition", "/edit"]) {
      await page.goto(`${server.url}/jobs/${id}${path}`);
      await settle(page);
      await unharmed(page);
    }
  await page.goto(server.url + "/jobs?q=" + encodeURIComponent(nasty[1]) + "&cursor=" + encodeURIComponent(nasty[0]));
  page.expects = /status of 4(00|22)/;
  await page.waitForTimeout(300);
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  await page.context().close();
});

test("every look of the screens, with a little and with a lot", async () => {
  const j = await job("Looked at", { description: "What it is for.", owner: "billing", runbook: "Restart the importer, then redrive.", tags: ["nightly", "etl"] });
  await everyLook(browser, server.url + "/", "now");
  await everyLook(browser, server.url + "/", "now-busy", undefined, { prepare: busy });
  await everyLook(browser, server.url + "/jobs", "jobs", undefined, { prepare: busy });
  await everyLook(browser, `${server.url}/jobs/${j.job_id}`, "job", undefined, { prepare: busy });
  await everyLook(browser, `${server.url}/jobs/${j.job_id}?tab=versions`, "job-versions", undefined, { prepare: busy });
  await everyLook(browser, `${server.url}/jobs/new`, "job-new");
  await everyLook(browser, `${server.url}/jobs/${j.job_id}/edit`, "job-edit");
  for (const tab of ["executions", "instants", "definition"]) await everyLook(browser, `${server.url}/jobs/${j.job_id}?tab=${tab}`, "job-" + tab, undefined, { prepare: busy });
});
