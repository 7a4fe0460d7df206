// Dead letters: grouped by error, run again one by one or many at a rate, edited, discarded.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, nasty, serve, settle, sound, unharmed, visit } from "./harness.mjs";
import { fails, run, until } from "./seed.mjs";

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([serve(), launch()]);
  const made = [];
  for (let i = 0; i < 12; i++) made.push(await run(server, { name: "report-" + (i % 3), execution: fails }));
  for (const [i, name] of nasty.entries()) made.push(await run(server, { name, execution: { target: "http", callback_url: `${server.url}/nothing-here/${i}?${encodeURIComponent(name)}`, payload: { name } } }));
  for (const id of made) await until(server, id, "FAILED");
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const rows = (page) => page.locator("table[aria-label='Dead letters'] tbody tr");
const total = async () => (await server.api("GET", "/dead-letters")).pagination.total;

test("they are grouped by error, the most first, with the age of the oldest", async () => {
  const page = await visit(browser, server.url + "/dead-letters");
  await settle(page);
  assert.equal(await rows(page).count(), 12 + nasty.length);
  await page.waitForSelector(".head >> text=the oldest died");
  const groups = page.locator(".dead-group");
  assert.equal(await groups.count(), 2);
  assert.match(await groups.first().innerText(), /12[\s\S]*HANDLER_ERROR/);
  await groups.nth(1).locator(".dead-show").click();
  await page.waitForFunction((n) => document.querySelectorAll("table[aria-label='Dead letters'] tbody tr").length === n, nasty.length);
  await page.click(".segments button:has-text('Poison')");
  await page.waitForFunction(() => /reason%3Apoison/.test(location.search));
  await page.waitForSelector("text=None matches");
  await unharmed(page);
  await page.context().close();
});

test("one is run again, and leaves; one is run again edited", async () => {
  const page = await visit(browser, server.url + "/dead-letters?q=" + encodeURIComponent("reason:not_retryable"));
  await settle(page);
  await rows(page).filter({ hasText: "report-2" }).first().locator("button:has-text('Redrive')").click();
  await page.waitForSelector(".toast:has-text('Runs again as')");
  await page.locator(".toast a").click();
  await page.waitForSelector(".head >> text=redrive of");
  await page.goBack();
  await settle(page);
  await rows(page).filter({ hasText: nasty[1] }).locator("button[aria-haspopup=menu]").click();
  await page.click("[role=menuitem]:has-text('Edit and redrive')");
  await page.waitForSelector("dialog textarea");
  assert.ok((await page.inputValue("dialog textarea")).includes("onerror"));
  await page.fill("dialog textarea", '{"edited": true}');
  await page.click("dialog button:has-text('Run with this payload')");
  await page.waitForSelector(".head >> text=retry of");
  await unharmed(page);
  await page.context().close();
});

test("many are run again by keys at a rate, with the progress of it", async () => {
  const page = await visit(browser, server.url + "/dead-letters?q=simulated");
  await settle(page);
  for (const k of ["j", "x", "j", "x", "j", "x"]) await page.keyboard.press(k);
  await page.waitForSelector("text=3 selected");
  await page.keyboard.press("r");
  await page.waitForSelector("dialog h2:has-text('Redrive: 3 dead letters')");
  await page.fill("dialog input[inputmode=decimal]", "100");
  await page.keyboard.press("Enter");
  await page.waitForSelector("section[aria-label=Operations] >> text=3 of 3");
  await page.waitForSelector("section[aria-label=Operations] .state:has-text('Succeeded')");
  await sound(page);
  await page.context().close();
});

test("a slow redrive of all that match is stopped", async () => {
  const page = await visit(browser, server.url + "/dead-letters?q=simulated");
  await settle(page);
  await page.click(".selbar button:has-text('Redrive all')");
  await page.waitForSelector("dialog >> text=Later dead letters are not included");
  await page.fill("dialog input[inputmode=decimal]", "0.5");
  await page.keyboard.press("Enter");
  await page.click("section[aria-label=Operations] button:has-text('Stop')");
  await page.waitForSelector("section[aria-label=Operations] .state:has-text('Cancelled')");
  await sound(page);
  await page.context().close();
});

test("a group is discarded only when its number was typed", async () => {
  const before = await total();
  const page = await visit(browser, server.url + "/dead-letters");
  await settle(page);
  const group = page.locator(".dead-group").filter({ hasText: "HTTP_ERROR" });
  const n = Number(await group.locator("strong").innerText());
  await group.locator("button:has-text('Discard')").click();
  const go = page.locator("dialog button[type=submit]");
  await page.waitForSelector(`dialog h2:has-text('Discard: ${n} dead letters')`);
  assert.equal(await go.isDisabled(), true);
  await page.fill("dialog input[inputmode=numeric]", String(n));
  await go.click();
  await page.waitForSelector("dialog", { state: "detached" });
  for (let i = 0; (await total()) > before - n && i < 100; i++) await new Promise((r) => setTimeout(r, 50));
  assert.equal(await total(), before - n);
  await unharmed(page);
  await page.context().close();
});
