// Administration, looked at: every part, at some width and in some theme.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { everyLook, launch, nasty, serve, settle, unharmed, visit } from "./harness.mjs";
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

const parts = ["tenants", "tenants/acme-industries", "keys", "sign-ins", "secrets", "signing", "notifications", "badges", "calendars", "limits", "operations", "audit", "settings"];

test("the overview, in every look", () => everyLook(browser, server.url + "/admin", "admin"));

for (const part of parts) test(part + ", in every look", () => everyLook(browser, server.url + "/admin/" + part, "admin-" + part.replace("/", "-")));

test("an operation, in every look", async () => {
  const { operations } = await server.api("GET", "/operations?limit=1");
  await everyLook(browser, server.url + "/operations/" + operations[0].operation_id, "operation", (p) => p.waitForSelector("dt:has-text('Skipped')"));
});

// poison puts what is not to come to life into every text that the server tells, but for what names a kind, an instant or an id.
const kinds = /^(role|kind|type|status|tier|algorithm|health|action|code|events|weekdays|timezone|level|state|scope|outcome|request_id|field|source|trigger|target|work_kind|backoff|overlap|catch_up|next_cursor)$|_id$|_at$|_ids$/;
const fixed = /^\d{4}-\d\d(-|$)|^\d\d-\d\d$|^[0-9a-f-]{36}$/;
let turn = 0;
function poison(v, key = "") {
  if (typeof v === "string") return kinds.test(key) || fixed.test(v) || v === "" ? v : nasty[turn++ % nasty.length] + v;
  if (Array.isArray(v)) return v.map((x) => poison(x, key));
  if (v === null || typeof v !== "object") return v;
  return Object.fromEntries(Object.entries(v).map(([k, x]) => [k, poison(x, k)]));
}

test("foul text in every field of every part stays text, in dialogs, too", async () => {
  await server.api("PUT", "/limits/queues/mail", { max_concurrent: 2 });
  const page = await visit(browser, server.url + "/jobs");
  let told = "";
  await page.route(/\/api\/v1\/(?!session|events)/, async (route) => {
    if (route.request().method() !== "GET") return route.abort();
    const r = await route.fetch();
    if (!/json/.test(r.headers()["content-type"] ?? "")) return route.fulfill({ response: r });
    const body = JSON.stringify(poison(JSON.parse(await r.text())));
    told += body;
    return route.fulfill({ response: r, body });
  });
  for (const part of ["", ...parts, "operations"]) {
    told = "";
    await page.goto(server.url + "/admin" + (part && "/" + part));
    await settle(page);
    await unharmed(page);
    const shown = await page.locator("#main").innerText();
    if (!["", "settings", "sign-ins", "signing", "audit"].includes(part)) assert.ok(nasty.some((n) => told.includes(JSON.stringify(n).slice(1, -1)) && shown.includes(n.slice(0, 8))), part + " shows nothing of what it was told");
    // Every dialog that a row or the head offers.
    const buttons = page.locator("#main button:enabled", { hasText: /^(Change|Delete|Rotate|Revoke|Limit|Set|New|Silence)/ });
    for (let i = 0; i < Math.min(await buttons.count(), 6); i++) {
      await buttons.nth(i).click();
      await page.waitForTimeout(80);
      await unharmed(page);
      if (await page.locator("dialog").count()) {
        await page.keyboard.press("Escape");
        await page.waitForSelector("dialog", { state: "detached" });
      } else await page.keyboard.press("Escape");
    }
    for (const menu of (await page.locator("#main button[aria-haspopup=menu]:enabled").all()).slice(0, 2)) {
      await menu.click();
      await unharmed(page);
      await page.keyboard.press("Escape");
    }
  }
  await page.context().close();
});
