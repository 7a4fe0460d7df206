// Now: from a job that fails to what failed, and to quiet.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, everyLook, launch, serve, sound, visit } from "./harness.mjs";
import { fails, run, until } from "./seed.mjs";

let server, browser, execution, job;
before(async () => {
  [server, browser] = await Promise.all([serve(), launch()]);
  const rule = (name, more) => server.api("PUT", "/notification-rules/" + name, { events: ["failed", "recovered"], callback_url: "http://127.0.0.1:9/", ...more });
  execution = await run(server, { name: "nightly invoices", tags: ["billing"], retry_policy: { max_retries: 0 }, execution: fails });
  job = (await until(server, execution, "FAILED")).job_id;
  await rule("on-call", { tags: ["billing"] });
  await rule("its-owner", { jobs: [job] });
  await rule("others", { tags: ["search"] });
  // What failed is counted within 5 s.
  for (let i = 0; !(await server.api("GET", "/overview")).failing.length; i++) {
    assert.ok(i < 300, "it does not fail");
    await new Promise((r) => setTimeout(r, 100));
  }
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const silenced = async () => (await server.api("GET", "/notification-rules")).notification_rules.filter((r) => r.silence_until).map((r) => r.name).sort();

test("who is told of a failing job is silenced, and told again", async () => {
  const page = await visit(browser, server.url + "/");
  await page.getByRole("button", { name: "Silence nightly invoices" }).click();
  const dialog = page.locator("dialog");
  await dialog.getByLabel("on-call").waitFor();
  assert.equal(await dialog.getByLabel("others").count(), 0, "a rule that is not about it");
  assert.match(await dialog.innerText(), /tells of nothing else/);
  assert.match(await dialog.innerText(), /every job tagged billing/);
  await accessible(page);
  await dialog.getByLabel("on-call").uncheck();
  await dialog.getByLabel("Tell nothing").selectOption("8");
  await dialog.getByRole("button", { name: "Silence" }).click();
  await page.waitForSelector("dialog", { state: "detached" });
  assert.deepEqual(await silenced(), ["its-owner"]);
  await page.locator(".toast:has-text('its-owner')").getByRole("button", { name: "Undo" }).click();
  for (let i = 0; (await silenced()).length; i++) assert.ok(i < 100, "it is still silent");
  await sound(page);
  await page.context().close();
});

test("from a failing job to its last execution that failed", async () => {
  const page = await visit(browser, server.url + "/");
  await page.getByRole("region", { name: "Jobs to look at" }).getByRole("link", { name: "the last one" }).click();
  await page.waitForURL("**/executions/" + execution);
  await sound(page);
  await page.context().close();
});

test("the dialog, in every look", () =>
  everyLook(browser, server.url + "/", "now-silence", async (page) => {
    await page.getByRole("button", { name: "Silence nightly invoices" }).click();
    await page.locator("dialog").getByLabel("on-call").waitFor();
  }));
