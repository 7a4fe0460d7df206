// Administration, looked at: every part, at some width and in some theme.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, everyLook, launch, picture, serve, settle, sound, visit } from "./harness.mjs";
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

const parts = ["tenants", "tenants/acme-industries", "keys", "secrets", "signing", "notifications", "calendars", "limits", "operations", "audit", "settings"];

test("the overview looks right at both widths and in both themes", () => everyLook(browser, server.url + "/admin", "admin"));

for (const [i, part] of parts.entries())
  test(part + " is sound and accessible", async () => {
    const [width, theme] = [[1440, "dark"], [390, "light"], [1440, "light"], [390, "dark"]][i % 4];
    const page = await visit(browser, server.url + "/admin/" + part, { width, theme, height: width === 390 ? 844 : 900 });
    await settle(page);
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)) <= 0, "wider than the screen");
    await accessible(page);
    await picture(page, "admin-" + part.replace("/", "-") + "-" + width + "-" + theme);
    await sound(page);
    await page.context().close();
  });
