// Administration: the record of changes, operations, and what a role may not do.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, forgive, launch, nasty, serve, settle, sound, unharmed, visit } from "./harness.mjs";
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

test("the record is filtered, unfolded and verified", async () => {
  const page = await visit(browser, server.url + "/admin/audit?q=" + encodeURIComponent("action:secret."));
  await page.waitForSelector("tr:has-text('smtp-password')");
  assert.equal(await page.locator("tbody tr:has-text('job.')").count(), 0);
  await page.goto(server.url + "/admin/audit?q=" + encodeURIComponent("action:job.create"));
  await page.locator("summary").first().click();
  await page.waitForSelector(".admin-diff:visible");
  await page.click("button:has-text('Verify')");
  await page.waitForSelector("text=are unchanged");
  await accessible(page);
  await sound(page);
  await page.context().close();
});

test("an operation is followed to its end", async () => {
  const page = await visit(browser, server.url + "/operations");
  await page.click(".table .name");
  await page.waitForURL(/\/operations\/.+/);
  await page.waitForSelector("dt:has-text('Skipped')");
  await accessible(page);
  await sound(page);
  await page.context().close();
});

test("a viewer is offered nothing that a viewer may not do", async () => {
  const page = await visit(browser, server.url + "/admin/settings");
  await page.route("**/api/v1/session", (r) => r.fulfill({ json: { tenant_id: "acme", role: "viewer", name: "ann", key_id: "k1", kind: "cookie", signed_in_at: new Date().toISOString(), idle_expires_at: null, expires_at: null } }));
  await page.route("**/api/v1/admin/**", (r) => assert.fail("a viewer asked for " + r.request().url()));
  await page.reload();
  await page.waitForSelector("text=ann");
  await page.waitForSelector(".admin-nav a");
  const names = (await page.locator(".admin-nav a").allInnerTexts()).map((n) => n.trim());
  assert.deepEqual(names, ["Overview", "Secrets", "Signing", "Notifications", "Badges", "Calendars", "Limits", "Operations", "Settings"]);
  for (const part of ["secrets", "notifications", "badges", "calendars", "limits", "signing"]) {
    await page.click(`.admin-nav a[href$="${part}"]`);
    await page.waitForSelector("text=needs the role");
    assert.equal(await page.locator(".head .actions button:enabled").count(), 0, part);
    assert.equal(await page.locator("td button:enabled:has-text('Delete'), td button:enabled:has-text('Change'), td button:enabled:has-text('Revoke')").count(), 0, part);
  }
  await page.evaluate(() => history.pushState(null, "", "/admin/keys"));
  await page.reload();
  await page.waitForSelector("text=This needs the role admin");
  await page.click('.nav a:has-text("Queues")');
  await page.waitForSelector("h1:has-text('Queues')");
  assert.equal(await page.locator("button:has-text('Limit')").count(), 0);
  await accessible(page);
  await page.context().close();
});

test("names that are markup stay text", async () => {
  for (const name of nasty) {
    await server.api("POST", "/tenants", { name: name.slice(0, 200) }).catch((e) => assert.match(String(e), /: 4\d\d /));
    await server.api("POST", "/api-keys", { name, role: "viewer" });
    await server.api("POST", "/jobs", { name, owner: name, schedule: { type: "CRON", cron_expression: "0 0 1 1 *" }, execution: { target: "simulate", work_kind: "noop" } });
  }
  for (const part of ["tenants", "keys", "audit", "audit?q=" + encodeURIComponent(`who:"${nasty[1].replaceAll('"', '\\"')}"`), "keys?new=" + encodeURIComponent(nasty[0]), "tenants/" + encodeURIComponent(nasty[1]), encodeURIComponent(nasty[1])]) {
    const page = await visit(browser, server.url + "/admin/" + part);
    await settle(page);
    if (part.startsWith("tenants/")) await forgive(page, /status of 40[04]/); // an id that is none
    await unharmed(page);
    await page.context().close();
  }
});
