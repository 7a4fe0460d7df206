// Live: what changes is shown as it changes, stands still while someone reads, and is told to be old when it is.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, serve, settle, sound, visit } from "./harness.mjs";

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([serve(), launch()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const noop = (name) => server.api("POST", "/jobs", { name, execution: { target: "simulate", work_kind: "noop" } });

test("a list follows, and stands still under the pointer with a count of what is new", async () => {
  await noop("first");
  const page = await visit(browser, server.url + "/jobs");
  await page.waitForSelector("tbody tr:has-text('first')");
  await page.waitForSelector(".dot.live");
  await noop("second");
  await page.waitForSelector("tbody tr:has-text('second')");
  await page.hover("tbody tr:has-text('second')");
  await noop("third");
  await page.waitForSelector(".pill");
  assert.equal(await page.locator("tbody tr:has-text('third')").count(), 0);
  await page.mouse.move(2, 2);
  await page.waitForSelector("tbody tr:has-text('third')");
  await page.waitForSelector(".pill", { state: "detached" });
  await sound(page);
  await page.context().close();
});

test("switched off, nothing moves", async () => {
  const page = await visit(browser, server.url + "/jobs");
  await page.waitForSelector(".dot.live");
  await page.keyboard.press(".");
  await page.waitForSelector(".dot.off");
  await noop("unseen");
  await page.waitForTimeout(1500);
  assert.equal(await page.locator("tbody tr:has-text('unseen')").count(), 0);
  await page.keyboard.press(".");
  await sound(page);
  await page.context().close();
});

test("a server that is gone makes a banner, and what was read stays", async () => {
  const page = await visit(browser, server.url + "/jobs");
  page.expects = /./;
  await settle(page);
  await page.waitForSelector(".dot.live");
  await page.context().setOffline(true);
  await server.stop();
  await page.waitForSelector(".banner", { timeout: 40_000 });
  assert.ok((await page.locator("tbody tr").count()) > 0);
  server = undefined;
  await page.context().close();
});
