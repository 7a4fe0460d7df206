// Executions and dead letters, as they look: both widths, both themes, with nothing and with a lot.

import { after, before, test } from "node:test";
import { everyLook, launch, nasty, serve } from "./harness.mjs";
import { fails, run, sleep, until } from "./seed.mjs";

let server, empty, browser;
before(async () => {
  [server, empty, browser] = await Promise.all([serve(), serve(), launch()]);
  const made = [];
  for (let i = 0; i < 30; i++) made.push(await run(server, { name: "report-" + (i % 4), tags: ["nightly"], execution: i % 5 === 0 ? fails : sleep(5) }));
  for (const [i, name] of nasty.entries()) made.push(await run(server, { name, execution: { target: "http", callback_url: `${server.url}/nothing-here/${i}`, payload: { name } } }));
  for (const id of made) await until(server, id, "SUCCEEDED", "FAILED");
});
after(async () => {
  await browser?.close();
  await Promise.all([server?.stop(), empty?.stop()]);
});

test("a lot of executions, in every look", () => everyLook(browser, server.url + "/executions", "executions"));
test("chosen ones, in every look", () => everyLook(browser, server.url + "/executions?q=status:failed", "executions-failed", async (page) => {
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await page.setViewportSize({ ...page.viewportSize(), height: 5000 }); // so that neither bar covers a row
}));
test("no executions, in every look", () => everyLook(browser, empty.url + "/executions", "executions-none"));
test("dead letters, in every look", () => everyLook(browser, server.url + "/dead-letters", "dead-letters"));
test("none, in every look", () => everyLook(browser, empty.url + "/dead-letters", "dead-letters-none"));
