// Plots: what cannot be read says so, and what a click on one opens is opened by keys, too.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, everyLook, launch, serve, settle, sound, visit } from "./harness.mjs";
import { busy } from "./fakes.mjs";
import { run, until } from "./seed.mjs";

let server, browser, job, last;
before(async () => {
  [server, browser] = await Promise.all([serve(), launch()]);
  const j = await server.api("POST", "/jobs", { name: "plotted", schedule: { type: "CRON", cron_expression: "0 0 1 1 *" }, execution: { target: "simulate", work_kind: "noop" } });
  job = j.job_id;
  for (let i = 0; i < 4; i++) {
    last = (await server.api("POST", `/jobs/${job}/trigger`, {})).execution_id;
    await until(server, last, "SUCCEEDED");
  }
  await until(server, await run(server, { name: "another", execution: { target: "simulate", work_kind: "noop" } }), "SUCCEEDED");
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const broken = { status: 500, contentType: "application/problem+json", body: JSON.stringify({ code: "internal", title: "Broken", detail: "The store is away.", request_id: "r1" }) };

test("a plot whose numbers cannot be read says so, and tries again", async () => {
  for (const [path, what, title] of [
    ["/", "**/api/v1/series/delays*", "Trigger delay, 24 h"],
    ["/", "**/api/v1/series/queues*", "Queue depth, 24 h"],
    ["/", "**/api/v1/forecast*", "Next 60 minutes"],
    ["/queues", "**/api/v1/series/queues*", "Queue depth, 24 h"],
    ["/jobs/" + job, "**/api/v1/jobs:runs*", "Last executions"],
    ["/jobs/" + job, "**/calendar*", "The past year"],
    ["/jobs/" + job, "**/executions?limit=400*", "Duration"],
    ["/workers", "**/api/v1/executions?*status=RUNNING*", "Worker activity"],
  ]) {
    let down = true;
    const page = await visit(browser, server.url + path, {
      prepare: async (p) => {
        p.expects = /status of 500/;
        await p.route(what, (r) => (down ? r.fulfill(broken) : r.fallback()));
      },
    });
    const panel = page.locator(".panel", { has: page.getByRole("heading", { name: title }) });
    await panel.getByRole("alert").waitFor();
    assert.match(await panel.innerText(), /could not be loaded[\s\S]*The store is away\./, title);
    await settle(page);
    if (path === "/") await accessible(page);
    down = false;
    await panel.getByRole("button", { name: "Try again" }).click();
    await page.locator("figure", { has: page.getByRole("heading", { name: title }) }).waitFor();
    assert.equal(await panel.getByRole("alert").count(), 0, title);
    await sound(page);
    await page.context().close();
  }
});

test("with trouble, in every look", () =>
  everyLook(browser, server.url + "/", "now-broken", (p) => p.waitForSelector(".now-plots .error"), {
    prepare: async (p) => {
      p.expects = /status of 500/;
      await p.route("**/api/v1/series/delays*", (r) => r.fulfill(broken));
    },
  }));

test("the table of a plot is in the address, and each of its rows leads where a click on the plot does", async () => {
  const page = await visit(browser, server.url + "/?tz=utc", { prepare: busy });
  await settle(page);
  const plot = (title) => page.locator("figure", { has: page.getByRole("heading", { name: title }) });
  await plot("Trigger delay").getByRole("button", { name: "Table" }).focus();
  await page.keyboard.press("Enter");
  await plot("Queue depth").getByRole("button", { name: "Table" }).click();
  await page.waitForFunction(() => new URLSearchParams(location.search).get("table") === "trigger-delay-24-h.queue-depth-24-h");
  await page.reload();
  const link = plot("Trigger delay").locator("tbody a").first();
  await link.waitFor();
  assert.equal(await plot("Next 60 minutes").locator("tbody").count(), 0);
  await accessible(page);
  const at = await link.innerText();
  await link.focus();
  await page.keyboard.press("Enter");
  await page.waitForURL("**/executions?q=*");
  assert.ok(new URL(page.url()).searchParams.get("q").startsWith("from:" + at.replace(" ", "T") + ":00Z to:"), page.url());
  await page.goBack();
  await plot("Queue depth").getByRole("button", { name: "Plot" }).click();
  await page.waitForFunction(() => new URLSearchParams(location.search).get("table") === "trigger-delay-24-h");
  await page.goto(`${server.url}/jobs/${job}?table=the-past-year`);
  await page.locator("figure", { hasText: "The past year" }).locator("tbody a").first().click();
  await page.waitForURL("**/executions?q=*");
  await page.goto(server.url + "/workers?table=worker-activity");
  await page.locator("figure", { hasText: "Worker activity" }).locator("tbody a").first().click();
  await page.waitForURL(/executions\?q=worker/);
  await page.waitForSelector("tbody tr:has-text('plotted')");
  await sound(page);
  await page.context().close();
});

test("the strip of last executions is one stop of Tab, moved in by arrows, with its sentence and its table", async () => {
  const page = await visit(browser, `${server.url}/jobs/${job}`);
  const plot = page.locator("figure", { has: page.getByRole("heading", { name: "Last executions" }) });
  await plot.getByText("Last 4 executions: none failed, the latest succeeded.").waitFor();
  assert.equal(await plot.locator(".strip a[tabindex='0']").count(), 1);
  await plot.getByRole("button", { name: "Table" }).focus();
  await page.keyboard.press("Tab");
  const here = () => page.evaluate(() => document.activeElement.getAttribute("href"));
  assert.equal(await here(), "/executions/" + last, "Tab comes to the newest");
  assert.equal(await page.evaluate(() => document.activeElement.matches(":focus-visible")), true);
  await page.waitForSelector("#tip:visible:has-text('Succeeded')");
  await page.keyboard.press("ArrowLeft");
  const before = await here();
  assert.notEqual(before, "/executions/" + last);
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowLeft"); // there is none
  const first = await here();
  await page.keyboard.press("End");
  assert.equal(await here(), "/executions/" + last);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.closest(".strip")), null, "it is one stop");
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Home");
  await page.keyboard.press("Enter");
  await page.waitForURL("**" + first);
  await page.goBack();
  await plot.getByRole("button", { name: "Table" }).click();
  assert.equal(await plot.locator("tbody tr").count(), 4);
  assert.equal(await plot.locator("tbody a").first().getAttribute("href"), "/executions/" + last);
  await accessible(page);
  // In the list of jobs, where Enter opens a row, a bar keeps its own.
  await page.goto(server.url + "/jobs");
  await page.locator("tr:has-text('plotted') .strip a").last().focus();
  await page.keyboard.press("Enter");
  await page.waitForURL("**/executions/" + last);
  await sound(page);
  await page.context().close();
});
