// Now: from a job that fails to what failed, and to quiet.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, everyLook, forgive, launch, nasty, serve, settle, sound, unharmed, visit } from "./harness.mjs";
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
  assert.match(await dialog.innerText(), /covers nothing else/);
  assert.match(await dialog.innerText(), /every job tagged billing/);
  await accessible(page);
  await dialog.getByLabel("on-call").uncheck();
  await dialog.getByLabel("How long").selectOption("8");
  await dialog.getByRole("button", { name: "Silence" }).click();
  await page.waitForSelector("dialog", { state: "detached" });
  assert.deepEqual(await silenced(), ["its-owner"]);
  await page.locator(".toast:has-text('its-owner')").getByRole("button", { name: "Undo" }).click();
  for (let i = 0; (await silenced()).length; i++) assert.ok(i < 100, "it is still silent");
  await sound(page);
  await page.context().close();
});

test("where one of several rules cannot be silenced, it is said which are, and those can be undone", async () => {
  const page = await visit(browser, server.url + "/");
  await page.getByRole("button", { name: "Silence nightly invoices" }).click();
  const dialog = page.locator("dialog");
  await dialog.getByLabel("its-owner").waitFor();
  assert.match(await dialog.locator("code").innerText(), /^carillon notification set on-call --event failed,recovered --to http:\/\/127.0.0.1:9\/ --tag billing --silence-until \+1h\ncarillon notification set its-owner .*--job \S+ --silence-until \+1h$/);
  // A colleague moves the first one elsewhere while the dialog is open.
  const body = { events: ["failed"], tags: ["billing"], callback_url: "http://127.0.0.1:9/moved" };
  await server.api("PUT", "/notification-rules/on-call", body);
  await page.route("**/api/v1/notification-rules/its-owner", (r) => (r.request().method() === "PUT" ? r.fulfill({ status: 500, contentType: "application/problem+json", body: JSON.stringify({ code: "internal", title: "Broken", detail: "The store is away." }) }) : r.fallback()));
  await dialog.getByRole("button", { name: "Silence" }).click();
  await dialog.locator(".error:has-text('its-owner could not be silenced')").waitFor();
  await forgive(page, /status of 500/);
  await dialog.getByText("Silent already: on-call").waitFor();
  assert.deepEqual(await silenced(), ["on-call"]);
  assert.equal((await server.api("GET", "/notification-rules/on-call")).callback_url, body.callback_url);
  assert.equal(await dialog.getByLabel("on-call").isChecked(), false);
  await accessible(page);
  await dialog.getByRole("button", { name: "Undo" }).click();
  for (let i = 0; (await silenced()).length; i++) assert.ok(i < 100, "it is still silent");
  assert.equal((await server.api("GET", "/notification-rules/on-call")).callback_url, body.callback_url);
  // Closed instead, what was done can still be undone.
  await dialog.getByRole("button", { name: "Silence" }).click();
  await dialog.getByText("Silent already: on-call").waitFor();
  await forgive(page, /status of 500/);
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
  await page.locator(".toast:has-text('on-call')").getByRole("button", { name: "Undo" }).click();
  for (let i = 0; (await silenced()).length; i++) assert.ok(i < 100, "it is still silent");
  await sound(page);
  await page.context().close();
});

test("names and tags that are markup stay text in the dialog", async () => {
  const page = await visit(browser, server.url + "/", {
    prepare: async (p) => {
      const rule = (name, more) => ({ name, events: ["failed"], jobs: [], tags: [], callback_url: name, late_after_seconds: 60, silence_until: null, created_at: "2026-01-01T00:00:00Z", updated_at: "2026-01-01T00:00:00Z", ...more });
      await p.route("**/api/v1/notification-rules?*", (r) => r.fulfill({ json: { notification_rules: [...nasty.map((n) => rule(n)), rule("by-tags", { tags: nasty }), rule("of-jobs", { jobs: [job, ...nasty] })], pagination: { limit: 100, total: 10, next_cursor: null } } }));
      await p.route("**/api/v1/jobs/*", async (r) => r.fulfill({ json: { ...(await (await r.fetch()).json()), name: nasty[0], tags: nasty } }));
      await p.route("**/api/v1/overview", async (r) => {
        const o = await (await r.fetch()).json();
        await r.fulfill({ json: { ...o, failing: o.failing.map((f) => ({ ...f, name: nasty[1], message: nasty[2] })) } });
      });
    },
  });
  await page.getByRole("button", { name: "Silence " + nasty[1] }).click();
  const dialog = page.locator("dialog");
  await dialog.getByLabel("by-tags").waitFor();
  const shown = await dialog.innerText();
  for (const n of nasty) assert.ok(shown.includes(n), n);
  assert.ok((await dialog.locator("h2").innerText()).includes(nasty[1]));
  await accessible(page);
  await unharmed(page);
  await page.context().close();
});

test("counts lead to what they count: of the same hours", async () => {
  const page = await visit(browser, server.url + "/");
  await settle(page);
  const to = async (l) => new URLSearchParams(new URL(await l.getAttribute("href"), server.url).search).get("q");
  const tile = (label) => page.locator(".now-tile", { hasText: label });
  assert.equal(await to(tile("Jobs failing")), "status:failed,timed_out from:-24h");
  assert.equal(await to(tile("Succeeded, last hour")), "status:succeeded from:-1h");
  assert.match(await to(page.getByRole("region", { name: "Failures" }).locator("a").first()), / from:-24h /);
  await page.getByRole("button", { name: "1 in 24 h" }).click();
  await page.waitForURL("**/executions?q=*");
  assert.equal(new URL(page.url()).searchParams.get("q"), `job:${job} status:failed,timed_out from:-24h`);
  await page.waitForSelector("tbody tr:has-text('nightly invoices')");
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
