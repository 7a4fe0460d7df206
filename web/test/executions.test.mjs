// Executions: found by filter and facets, followed live, worked by keys, done to many at once, exported.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, nasty, serve, settle, sound, unharmed, visit } from "./harness.mjs";
import { fails, run, sleep, until } from "./seed.mjs";

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([serve(), launch()]);
  const made = [];
  for (let i = 0; i < 60; i++) made.push(await run(server, { name: "report-" + (i % 4), tags: ["nightly"], execution: i % 5 === 0 ? fails : sleep(5) }));
  for (const name of nasty) made.push(await run(server, { name, execution: fails }));
  for (const id of made) await until(server, id, "SUCCEEDED", "FAILED");
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const rows = (page) => page.locator("table[aria-label=Executions] tbody tr");

test("a filter is completed by keys, stands in the address, and back takes it away", async () => {
  const page = await visit(browser, server.url + "/executions");
  await settle(page);
  assert.equal(await rows(page).count(), 50);
  await page.keyboard.press("/");
  await page.keyboard.type("stat");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.keyboard.type("fail");
  await page.waitForSelector("[role=option]:has-text('status:failed')");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => new URLSearchParams(location.search).get("q") === "status:failed");
  await page.waitForFunction(() => document.querySelectorAll("table[aria-label=Executions] tbody tr").length === 20);
  await page.goBack();
  await page.waitForFunction(() => document.querySelectorAll("table[aria-label=Executions] tbody tr").length === 50);
  await unharmed(page);
  await page.context().close();
});

test("facets choose, pages go on and back by keyset", async () => {
  const page = await visit(browser, server.url + "/executions");
  await settle(page);
  await page.click("button:has-text('Next page')");
  await page.waitForFunction(() => /cursor=/.test(location.search) && document.querySelectorAll("table[aria-label=Executions] tbody tr").length === 18);
  await page.click("button:has-text('First page')");
  await page.waitForFunction(() => !/cursor=/.test(location.search));
  await page.click(".segments button:has-text('Failed')");
  await page.waitForFunction(() => /failed%2Ctimed_out/.test(location.search));
  await page.click(".executions-facets button:has-text('Job')");
  await page.locator("[role=menuitem]").first().click();
  await page.waitForFunction(() => document.querySelectorAll("table[aria-label=Executions] tbody tr").length === 1);
  await page.click(".executions-facets button:has-text('Time')");
  await page.click("[role=menuitem]:has-text('the last hour')");
  await page.waitForFunction(() => /from%3A-1h/.test(location.search));
  assert.equal(await rows(page).count(), 1);
  await page.fill("input[aria-label=Filter]", "from:yesterday");
  await page.waitForSelector(".error:has-text('start_date')");
  page.expects = /status of 400/;
  await page.context().close();
});

test("rows are opened by keys; a filter that leaves nothing says what is in the way", async () => {
  const page = await visit(browser, server.url + "/executions?q=tag:nightly");
  await settle(page);
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/executions\/[0-9a-f-]{36}/);
  await page.goBack();
  await settle(page);
  await page.goto(server.url + "/executions?q=" + encodeURIComponent("status:running trigger:backfill"));
  await page.waitForSelector("text=There are 68 executions");
  await page.click("text=Without status");
  await page.waitForFunction(() => new URLSearchParams(location.search).get("q") === "trigger:backfill");
  await sound(page);
  await page.context().close();
});

test("new ones come by themselves, and wait in a pill while some are selected", async () => {
  const page = await visit(browser, server.url + "/executions?q=job:fresh");
  await settle(page);
  await page.waitForSelector("text=No execution matches");
  await run(server, { name: "fresh", execution: sleep(5) });
  await page.waitForSelector("table[aria-label=Executions] tbody tr");
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await page.waitForSelector("text=1 selected");
  await run(server, { name: "fresh", execution: sleep(5) });
  await page.waitForSelector(".pill");
  assert.equal(await rows(page).count(), 1);
  await page.click(".pill");
  await page.waitForFunction(() => document.querySelectorAll("table[aria-label=Executions] tbody tr").length === 2);
  await sound(page);
  await page.context().close();
});

// Servers of this version may not have it yet: then what the contract says stands in for it.
async function bulk(page) {
  const real = (await fetch(server.url + "/api/v1/executions:bulk", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ action: "retry", filter: {}, dry_run: true }) })).status !== 404;
  const asked = [];
  page.on("request", (r) => r.url().endsWith("/executions:bulk") && asked.push(r.postDataJSON()));
  if (!real)
    await page.route("**/api/v1/executions:bulk", (route) => {
      const b = route.request().postDataJSON();
      const count = b.ids?.length ?? 12;
      route.fulfill({ status: b.dry_run ? 200 : 202, contentType: "application/json", body: JSON.stringify(b.dry_run ? { count, count_is_estimate: false, sample: [{ execution_id: "x", job_id: "x", job_name: nasty[1], status: "FAILED", scheduled_time: new Date().toISOString() }] } : { operation_id: "x", count }) });
    });
  return { real, asked };
}

test("many are run again by keys: count and sample first, then the operation with its progress", async () => {
  const page = await visit(browser, server.url + "/executions?q=" + encodeURIComponent("status:failed job:report-0"));
  const { real, asked } = await bulk(page);
  await settle(page);
  for (const k of ["j", "x", "j", "x"]) await page.keyboard.press(k);
  await page.keyboard.press("r");
  await page.waitForSelector("dialog h2:has-text('Run again: 2 executions')");
  await page.waitForSelector("dialog [aria-label='Some of them'] li");
  await page.fill("dialog input[inputmode=decimal]", "50");
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog", { state: "detached" });
  assert.equal(asked[0].dry_run, true);
  assert.equal(asked[1].ids.length, 2);
  assert.equal(asked[1].rate_per_s, 50);
  if (real) await page.waitForSelector("section[aria-label=Operations] >> text=2 of 2");
  await page.waitForSelector("text=match");
  assert.equal(await page.locator(".selbar button:has-text('Cancel all')").isDisabled(), true);
  await page.click(".selbar button:has-text('Run all again')");
  await page.waitForSelector("dialog h2:has-text('Run again:')");
  assert.equal(asked[2].filter.status, "FAILED");
  assert.equal(asked[2].filter.job_name, "report-0");
  await unharmed(page);
  await page.context().close();
});

test("a page that ended early says so and goes on", async () => {
  const page = await visit(browser, server.url + "/executions?q=seldom", {
    prepare: (p) => p.route("**/api/v1/executions?*q=seldom*", (r) => r.fulfill({ status: 200, contentType: "application/json", body: JSON.stringify({ executions: [], pagination: { limit: 50, total: 3, total_is_estimate: true, next_cursor: "abc", partial: true } }) })),
  });
  await page.waitForSelector("text=Nothing found so far");
  await page.click("text=Continue searching");
  await page.waitForFunction(() => /cursor=abc/.test(location.search));
  await page.context().close();
});

test("all that the filter chooses is exported", async () => {
  const page = await visit(browser, server.url + "/executions?q=job:report-1");
  await settle(page);
  await page.click("button:has-text('Export')");
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("[role=menuitem]:has-text('JSON lines')")]);
  assert.match(download.suggestedFilename(), /^executions-.*\.jsonl$/);
  assert.match(download.url(), /job_name=report-1/);
  await sound(page);
  await page.context().close();
});
