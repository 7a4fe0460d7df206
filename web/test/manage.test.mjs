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
  await page.keyboard.press("Escape");
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
  await page.waitForSelector("dialog >> text=Jobs that are active or paused name it");
  await forgive(page, /status of 409/);
  assert.equal(await page.locator("dialog button[type=submit]").isDisabled(), true);
  await page.click("dialog .check input");
  await accessible(page);
  await page.click("dialog button:has-text('Delete it all the same')");
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

test("a support bundle is downloaded, and holds no secret", async () => {
  const page = await visit(browser, server.url + "/admin");
  const [file] = await Promise.all([page.waitForEvent("download"), page.click("a:has-text('Download support bundle')")]);
  assert.match(file.suggestedFilename(), /^carillon-support-\d{8}T\d{6}Z\.json$/);
  const text = readFileSync(await file.path(), "utf8");
  const bundle = JSON.parse(text);
  assert.ok(bundle.settings.length > 40 && bundle.log.length > 0 && bundle.status.slots > 0 && bundle.metrics.includes("carillon_"));
  assert.ok(!/car_live_[a-z0-9]{8}_[a-z0-9]|whsec_[A-Za-z0-9]/.test(text));
  await sound(page);
  await page.context().close();
});

test("a badge is made, seen by anybody, and revoked", async () => {
  await server.api("POST", "/jobs", { name: "badged <b>&</b>", schedule: { type: "CRON", cron_expression: "0 0 1 1 *" }, execution: { target: "http", callback_url: server.url + "/demo/echo" } });
  const page = await visit(browser, server.url + "/admin/badges");
  await page.click("button:has-text('New badge')");
  await page.getByLabel("Find").fill("badged");
  await page.waitForFunction(() => document.querySelector("dialog select")?.textContent === "badged <b>&</b>");
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
