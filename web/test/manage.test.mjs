// Administration, done: what is shown once, what needs a typed name, what the server refuses and why.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { accessible, forgive, launch, serve, sound, visit } from "./harness.mjs";
import { seedAdmin, seedLoad } from "./busy.mjs";

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([serve("--demo"), launch()]);
  await seedLoad(server, 12);
  await seedAdmin(server);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test("a key is shown once, rotated, and revoked by its name, with keys alone", async () => {
  const page = await visit(browser, server.url + "/admin/keys?new=viewer");
  await page.waitForSelector("dialog h2:has-text('New key')");
  await page.keyboard.type("browser test");
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog [data-secret]");
  const text = await page.locator("dialog [data-secret]").innerText();
  assert.match(text, /^car_/);
  await accessible(page);
  // What is shown once is not lost by a slip: neither by Escape, however often, nor by a press beside it.
  for (let i = 0; i < 3; i++) await page.keyboard.press("Escape");
  await page.mouse.click(5, 400);
  assert.equal(await page.locator("dialog[open] [data-secret]").innerText(), text);
  await page.getByRole("button", { name: "I have it" }).focus();
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog", { state: "detached" });
  assert.ok(!(await page.content()).includes(text), "the key is still in the page");
  const row = page.locator("tr:has-text('browser test')").first();
  await row.getByRole("button", { name: "Rotate browser test" }).focus();
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog >> text=carillon key rotate");
  await page.click("dialog button[type=submit]");
  await page.waitForSelector("dialog [data-secret]");
  await page.click("dialog button:has-text('I have it')");
  await row.getByRole("button", { name: "Revoke browser test" }).click();
  assert.equal(await page.locator("dialog button[type=submit]").isDisabled(), true);
  await page.keyboard.type("browser test");
  await page.keyboard.press("Enter");
  await page.waitForSelector("tr:has-text('browser test') >> text=Revoked");
  await sound(page);
  await page.context().close();
});

test("a secret is set, never shown, and deleted against resistance", async () => {
  const value = "s3cr3t-" + "x".repeat(20);
  const page = await visit(browser, server.url + "/admin/secrets");
  await page.click("button:has-text('New secret')");
  await page.getByLabel("Name").fill("browser-secret");
  await page.getByLabel("Value").fill(value);
  await page.keyboard.press("Enter");
  await page.waitForSelector("tr:has-text('browser-secret')");
  assert.ok(!(await page.content()).includes(value));
  await server.api("POST", "/jobs", { name: "uses it", schedule: { type: "CRON", cron_expression: "0 0 1 1 *" }, execution: { target: "http", callback_url: server.url + "/demo/echo", headers: { "X-Token": "${secret:browser-secret}" } } });
  await page.getByRole("button", { name: "Delete browser-secret" }).click();
  await page.keyboard.type("browser-secret");
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog >> text=Active or paused jobs use it");
  await forgive(page, /status of 409/);
  assert.equal(await page.locator("dialog button[type=submit]").isDisabled(), true);
  await page.click("dialog .check input");
  await accessible(page);
  await page.click("dialog button:has-text('Delete it anyway')");
  await page.waitForSelector("tr:has-text('browser-secret')", { state: "detached" });
  await sound(page);
  await page.context().close();
});

test("a rule is made, tested, silenced and told again", async () => {
  const page = await visit(browser, server.url + "/admin/notifications");
  await page.click("button:has-text('New rule')");
  await page.getByLabel("Name").fill("from-the-browser");
  await page.getByLabel("Tell").fill(server.url + "/demo/echo");
  await accessible(page);
  await page.click("dialog button:has-text('Save')");
  const row = page.locator("tr:has-text('from-the-browser')");
  await row.waitFor();
  const act = async (name) => {
    await row.getByRole("button", { name: "Actions on from-the-browser" }).click();
    await page.click(`[role=menuitem]:has-text("${name}")`);
  };
  await act("Send a test");
  await page.waitForSelector(".toast a[href^='/executions/']");
  await act("Silence for 1 h");
  await row.getByText("Silent").waitFor();
  await page.locator(".toast:has-text('silent')").getByRole("button", { name: "Undo" }).click();
  await row.getByText("Tells").waitFor();
  await sound(page);
  await page.context().close();
});

test("a rule of a deleted job is silenced, changed and told again; deleted with its jobs, it says why it stays so", async () => {
  const make = (name) => server.api("POST", "/jobs", { name, schedule: { type: "CRON", cron_expression: "0 0 1 1 *" }, execution: { target: "simulate", work_kind: "noop" } });
  const [gone, there] = [await make("goes"), await make("stays")];
  const put = (name, jobs) => server.api("PUT", "/notification-rules/" + name, { events: ["failed"], jobs: jobs.map((j) => j.job_id), callback_url: server.url + "/demo/echo" });
  const rule = async (name) => (await server.api("GET", "/notification-rules")).notification_rules.find((r) => r.name === name);
  await put("of-both", [gone, there]);
  await put("of-the-gone", [gone]);
  await server.api("DELETE", "/jobs/" + gone.job_id);
  const page = await visit(browser, server.url + "/admin/notifications");
  const row = (name) => page.locator("tr", { has: page.getByText(name, { exact: true }) });
  const act = async (name, what) => {
    await row(name).getByRole("button", { name: "Actions on " + name }).click();
    await page.click(`[role=menuitem]:has-text("${what}")`);
  };
  await act("of-the-gone", "Silence for 8 h");
  await row("of-the-gone").getByText("Silent").waitFor();
  await act("of-the-gone", "Change…");
  await page.getByLabel("an execution became a dead letter").check();
  await page.click("dialog button:has-text('Save')");
  await page.waitForSelector("dialog", { state: "detached" });
  const now = await rule("of-the-gone");
  assert.deepEqual([now.events, now.jobs, now.silence_until !== null], [["failed", "dead_lettered"], [gone.job_id], true]);
  const drop = async (name) => {
    await act(name, "Delete…");
    await page.keyboard.type(name);
    await page.keyboard.press("Enter");
    await page.locator(`.toast:has-text('Deleted ${name}')`).getByRole("button", { name: "Undo" }).click();
  };
  await drop("of-both");
  await page.waitForSelector(".toast:has-text('of-both is back, without 1 job that is deleted too')");
  await forgive(page, /status of 422/);
  assert.deepEqual((await rule("of-both")).jobs, [there.job_id]);
  await drop("of-the-gone");
  await page.waitForSelector(".toast.bad:has-text('it would apply to every job, so it stays deleted')");
  await forgive(page, /status of 422/);
  assert.equal(await rule("of-the-gone"), undefined);
  await sound(page);
  await page.context().close();
});

test("what a colleague changes meanwhile is not undone by saving, silencing or undoing", async () => {
  const at = "/notification-rules/shared";
  const body = { events: ["failed"], jobs: [], tags: ["a"], callback_url: server.url + "/demo/echo" };
  await server.api("PUT", at, body);
  const page = await visit(browser, server.url + "/admin/notifications");
  const row = page.locator("tr:has-text('shared')");
  const act = async (what) => {
    await row.getByRole("button", { name: "Actions on shared" }).click();
    await page.click(`[role=menuitem]:has-text("${what}")`);
  };
  await row.waitFor();
  await server.api("PUT", at, { ...body, tags: ["b"] });
  await act("Silence for 1 h");
  await row.getByText("Silent").waitFor();
  let r = await server.api("GET", at);
  assert.deepEqual([r.tags, r.silence_until !== null], [["b"], true]);
  // Silenced for longer by someone else: undo leaves it.
  await server.api("PUT", at, { ...body, tags: ["b"], silence_until: new Date(Date.now() + 86_400_000).toISOString() });
  await page.locator(".toast:has-text('silent')").getByRole("button", { name: "Undo" }).click();
  await page.waitForSelector(".toast.bad:has-text('Someone else has silenced shared meanwhile')");
  assert.ok((await server.api("GET", at)).silence_until !== null);
  await act("Change…");
  await page.getByLabel("Tell").fill(server.url + "/demo/other");
  await server.api("PUT", at, { ...body, tags: ["c"] });
  await page.click("dialog button:has-text('Save')");
  await page.waitForSelector("dialog .error:has-text('shared was changed')");
  r = await server.api("GET", at);
  assert.deepEqual([r.tags, r.callback_url], [["c"], server.url + "/demo/echo"]);
  // Closing what was typed asks first.
  const asked = [];
  let answer = false;
  page.on("dialog", (d) => (asked.push(d.message()), answer ? d.accept() : d.dismiss()));
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await page.mouse.click(5, 400);
  assert.equal(asked.length, 3);
  assert.match(asked[0], /were not sent/);
  assert.equal(await page.inputValue("dialog input[type=url]"), server.url + "/demo/other");
  answer = true;
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
  await sound(page);
  await page.context().close();
});

test("a calendar is made, changed and deleted; a mistake in it is named", async () => {
  const page = await visit(browser, server.url + "/admin/calendars");
  await page.click("button:has-text('New calendar')");
  await page.getByLabel("Name").fill("moves");
  await page.getByLabel("Days", { exact: true }).fill("2027-13-45");
  await page.click("dialog button:has-text('Save')");
  await page.waitForSelector("dialog .error");
  await forgive(page, /status of 422/);
  await page.getByLabel("Days", { exact: true }).fill("2027-01-02");
  await page.getByLabel("Sunday").check();
  await page.click("dialog button:has-text('Save')");
  await page.waitForSelector("tr:has-text('moves') >> text=SUN");
  await page.getByRole("button", { name: "Delete moves" }).click();
  await page.keyboard.type("moves");
  await page.keyboard.press("Enter");
  await page.waitForSelector("tr:has-text('moves')", { state: "detached" });
  await sound(page);
  await page.context().close();
});

test("a tenant is made, and its quotas are changed", async () => {
  const page = await visit(browser, server.url + "/admin/tenants");
  await page.click("button:has-text('New tenant')");
  await page.getByLabel("Name").fill("Browser Ltd");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/admin\/tenants\/browser-ltd/);
  await page.click(".head button:has-text('Change')");
  await page.getByRole("textbox", { name: "Active jobs" }).fill("12");
  await page.click("dialog button:has-text('Save')");
  await page.waitForSelector("text=0 of 12");
  await page.waitForSelector("text=(not the tier's)");
  await sound(page);
  await page.context().close();
});

test("an admin says where a tenant's callbacks may go", async () => {
  const t = await server.api("POST", "/tenants", { name: "Careful Ltd", tier: "pro" });
  const page = await visit(browser, server.url + "/admin/tenants/" + t.tenant_id);
  const callbacks = page.getByRole("region", { name: "Callbacks" });
  await callbacks.getByText("allowed, unless the server forbids it").waitFor();
  await callbacks.getByText("only those that the server allows for all tenants").waitFor();
  await page.click(".head button:has-text('Change')");
  await page.getByLabel("Require https for callbacks").check();
  const list = page.getByRole("group", { name: "Private addresses its callbacks may reach" });
  await list.getByRole("button", { name: "Add a range" }).click();
  await page.keyboard.type("10.1.0.0/16");
  await page.keyboard.press("Enter");
  await page.keyboard.type("10.2.0.0/99");
  await page.click("dialog button:has-text('Save')");
  await list.getByText("wanted: an address range such as 10.0.0.0/8, or one address").first().waitFor();
  assert.equal(await list.getByRole("textbox").nth(0).getAttribute("aria-invalid"), "false");
  assert.equal(await list.getByRole("textbox").nth(1).getAttribute("aria-invalid"), "true");
  await forgive(page, /status of 422/);
  await list.getByRole("textbox").nth(1).fill("192.168.7.7");
  await page.waitForSelector("dialog >> text=--https-only --allow-callback 10.1.0.0/16,192.168.7.7");
  await page.click("dialog button:has-text('Save')");
  await callbacks.getByText("refused: https only").waitFor();
  await callbacks.getByText("10.1.0.0/16, 192.168.7.7/32").waitFor();
  await sound(page);
  await page.context().close();
});

test("a rule that posts over plain http is refused beside its field where callbacks go over https only", async () => {
  await server.api("PATCH", "/tenants/default", { callbacks_https_only: true });
  const page = await visit(browser, server.url + "/admin/notifications");
  await page.click("button:has-text('New rule')");
  await page.getByLabel("Name").fill("plain");
  await page.getByLabel("Tell").fill("http://example.com/hook");
  await page.click("dialog button[type=submit]");
  await page.waitForSelector("dialog >> text=wanted: a URL that begins with https://");
  assert.equal(await page.getByLabel("Tell").getAttribute("aria-invalid"), "true");
  await forgive(page, /status of 422/);
  await page.getByLabel("Tell").fill("https://example.com/hook");
  await page.click("dialog button[type=submit]");
  await page.waitForSelector("tr:has-text('plain')");
  await server.api("DELETE", "/notification-rules/plain");
  await server.api("PATCH", "/tenants/default", { callbacks_https_only: false });
  await sound(page);
  await page.context().close();
});

test("a rule whose URL may no longer be called says so and why, also while it is silent", async () => {
  const put = (more) => server.api("PUT", "/notification-rules/barred", { events: ["failed"], callback_url: "http://example.com/hook", ...more });
  await put({});
  await server.api("PATCH", "/tenants/default", { callbacks_https_only: true });
  const page = await visit(browser, server.url + "/admin/notifications");
  const row = page.locator("tr:has-text('barred')");
  await row.getByText("Blocked", { exact: true }).waitFor();
  await row.getByText("callbacks_https_only").waitFor();
  assert.equal(await row.getByText("Tells").count(), 0);
  await accessible(page);
  await put({ silence_until: new Date(Date.now() + 3_600_000).toISOString() });
  await page.reload();
  await row.getByText("Silent", { exact: true }).waitFor();
  await row.getByText("Blocked", { exact: true }).waitFor();
  await server.api("PATCH", "/tenants/default", { callbacks_https_only: false });
  await page.reload();
  await row.getByText("Silent", { exact: true }).waitFor();
  assert.equal(await row.getByText("Blocked", { exact: true }).count(), 0);
  await server.api("DELETE", "/notification-rules/barred");
  await sound(page);
  await page.context().close();
});

test("a support bundle is downloaded, and holds no secret", async () => {
  const page = await visit(browser, server.url + "/admin");
  const [file] = await Promise.all([page.waitForEvent("download"), page.click("button:has-text('Download support bundle')")]);
  assert.match(file.suggestedFilename(), /^carillon-support-\d{8}T\d{6}Z\.json$/);
  const text = readFileSync(await file.path(), "utf8");
  const bundle = JSON.parse(text);
  assert.ok(bundle.settings.length > 40 && bundle.log.length > 0 && bundle.status.slots > 0 && bundle.metrics.includes("carillon_"));
  assert.ok(!/car_live_[a-z0-9]{8}_[a-z0-9]|whsec_[A-Za-z0-9]/.test(text));
  await page.route("**/api/v1/admin/support", (r) => r.fulfill({ status: 503, contentType: "application/problem+json", body: JSON.stringify({ code: "busy", title: "Busy", detail: "Another bundle is being made." }) }));
  await page.click("button:has-text('Download support bundle')");
  await page.waitForSelector(".toast.bad:has-text('The support bundle was not downloaded. Another bundle is being made.')");
  await forgive(page, /status of 503/);
  await sound(page);
  await page.context().close();
});

test("a badge is made, seen by anybody, and revoked", async () => {
  await server.api("POST", "/jobs", { name: "badged <b>&</b>", schedule: { type: "CRON", cron_expression: "0 0 1 1 *" }, execution: { target: "http", callback_url: server.url + "/demo/echo" } });
  const page = await visit(browser, server.url + "/admin/badges");
  await page.click("button:has-text('New badge')");
  // None is chosen until one is, whatever is found meanwhile.
  await page.waitForFunction(() => document.querySelectorAll("dialog option").length > 5);
  assert.equal(await page.inputValue("dialog select"), "");
  assert.equal(await page.isDisabled("dialog button[type=submit]"), true);
  let asked = 0;
  page.on("request", (r) => /\/api\/v1\/jobs\?/.test(r.url()) && asked++);
  await page.getByLabel("Find").pressSequentially("badged");
  await page.waitForFunction(() => [...document.querySelectorAll("dialog option")].map((o) => o.textContent).join() === "choose one of 1,badged <b>&</b>");
  assert.ok(asked < 6, `asked ${asked} times for six letters`);
  assert.equal(await page.isDisabled("dialog button[type=submit]"), true);
  await page.getByLabel("Job").selectOption({ label: "badged <b>&</b>" });
  await page.getByLabel("Find").fill("no such job");
  await page.waitForSelector("dialog option:has-text('choose one of 1')", { state: "attached" });
  assert.equal(await page.locator("dialog select").evaluate((s) => s.selectedOptions[0].textContent), "badged <b>&</b>");
  await accessible(page);
  await page.click("dialog button[type=submit]");
  await page.waitForSelector("dialog [data-secret]");
  const at = await page.locator("dialog [data-secret]").innerText();
  assert.match(at, /\/badges\/cbg_[a-z2-7]{32}\.svg$/);
  await page.waitForFunction(() => document.querySelector("dialog img")?.naturalWidth > 0); // the picture is one
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const copied = async (name) => {
    await page.getByRole("button", { name, exact: true }).click();
    return page.evaluate(() => navigator.clipboard.readText());
  };
  assert.equal(await copied("Markdown"), `![badged <b>&</b>](${at})`);
  assert.equal(await copied("HTML"), `<img src="${at}" alt="badged &lt;b&gt;&amp;&lt;/b&gt;" height="20">`);
  await accessible(page);
  const seen = await (await fetch(at.replace(".svg", ".json"))).json();
  assert.deepEqual(seen, { label: "badged <b>&</b>", state: "unknown" });
  await page.click("dialog button:has-text('I have it')");
  await page.waitForSelector("dialog", { state: "detached" });
  assert.ok(!(await page.content()).includes("cbg_"), "the address is still in the page");
  await page.getByRole("button", { name: "Revoke badged" }).click();
  await page.click("dialog button[type=submit]");
  await page.waitForSelector("tr:has-text('badged')", { state: "detached" });
  await sound(page);
  await page.context().close();
});
