// Execution, as it looks: both widths, both themes, every part of it.

import { after, before, test } from "node:test";
import { everyLook, launch, nasty, serve } from "./harness.mjs";
import { byKind, hand, run, sleep, until } from "./seed.mjs";

let server, browser, worker, story, dead;
const often = { max_retries: 3, backoff: "FIXED", initial_delay_ms: 1000, max_delay_ms: 1000 };
const red = "\x1b[31m", off = "\x1b[0m";

before(async () => {
  [server, browser] = await Promise.all([serve(), launch()]);
  worker = await hand(server, "k");
  // One that fails, is handed back, is answered by the one that lost it, and succeeds.
  story = await run(server, { name: "Import of orders", execution: { ...byKind("k"), payload: { big: 1 } }, retry_policy: often });
  const first = await worker.claim();
  await worker.log(first, [`${red}could not connect${off} to \x1b[1mdb-7${off}`, { stream: "stderr", text: "\x1b]8;;javascript:window.pwned=1\x07click\x1b]8;;\x07" }, "5 %\r50 %\r100 % done", ...nasty, "x".repeat(5000)]);
  await worker.complete(first, { status: "FAILED", error: { type: "HANDLER_ERROR", message: nasty[1] }, retryable: true });
  const second = await worker.claim();
  await worker.release(second);
  const third = await worker.claim();
  await worker.complete(second, { status: "SUCCEEDED", result: 11 });
  for (let i = 0; i < 4; i++) await worker.log(third, Array.from({ length: 500 }, (_, k) => `row ${i * 500 + k} imported`));
  await worker.complete(third, { status: "SUCCEEDED", result: { rows: 12 } });
  await until(server, story, "SUCCEEDED");
  dead = await run(server, { name: nasty[0], execution: { target: "http", callback_url: server.url + "/nothing-here", headers: { Authorization: "Bearer geheim", "X-Env": nasty[2] }, payload: { text: nasty[1], n: 1 } }, retry_policy: often });
  await until(server, dead, "FAILED");
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test("attempts, in every look", () => everyLook(browser, server.url + "/executions/" + story, "execution"));
test("the log, in every look", () => everyLook(browser, server.url + `/executions/${story}?tab=log`, "execution-log", (page) => page.waitForSelector(".execution-fold")));
test("request and response, in every look", () => everyLook(browser, server.url + `/executions/${dead}?tab=exchange`, "execution-exchange"));
test("events, in every look", () => everyLook(browser, server.url + `/executions/${story}?tab=events`, "execution-events"));
test("compare, in every look", () => everyLook(browser, server.url + `/executions/${dead}?tab=compare&with=${story}`, "execution-compare", (page) => page.waitForSelector("table[aria-label=Compared]")));
test("one that waits, in every look", async () => everyLook(browser, server.url + "/executions/" + (await run(server, { name: "Waits", execution: byKind("nobody") })), "execution-waiting"));
