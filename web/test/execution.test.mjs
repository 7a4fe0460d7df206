// Execution: its timeline, why it waits or failed, its log as it is written, and running it again.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, nasty, serve, settle, sound, unharmed, visit } from "./harness.mjs";
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

test("the timeline names delays and attempts, shows the refused result, and is there as a table", async () => {
  const page = await visit(browser, server.url + "/executions/" + story);
  await settle(page);
  await page.waitForSelector("figcaption:has-text('in 2 attempts')");
  await page.waitForSelector("figcaption:has-text('1 stale result was refused')");
  assert.equal(await page.locator(".execution-timeline .execution-mark.refused").count(), 1);
  assert.equal(await page.locator(".execution-bar.bad").count(), 1);
  assert.equal(await page.locator(".execution-bar.good").count(), 1);
  await page.click("figure button:has-text('Table')");
  await page.waitForSelector("figure td:has-text('a stale result was refused')");
  assert.equal(await page.locator("table[aria-label=Attempts] tbody tr").count(), 2);
  await page.waitForSelector("text=A stale result was refused");
  await unharmed(page);
  await page.context().close();
});

test("the log: colours as spans, no markup, line links, search, folds", async () => {
  const page = await visit(browser, server.url + `/executions/${story}?tab=log`);
  await page.waitForSelector(".execution-line");
  await page.waitForSelector(".execution-fold");
  assert.equal(await page.locator(".ansi-1").first().textContent(), "could not connect");
  assert.equal(await page.locator(".execution-lines a[href^='javascript']").count(), 0);
  assert.ok((await page.locator(".execution-text").nth(2).textContent()).startsWith("100 % done"));
  for (const text of nasty.slice(0, 7)) assert.ok((await page.locator(".execution-lines").textContent()).includes(text), text);
  await page.click(".execution-rest");
  // Search by keys alone finds what is folded, and its line is linked.
  await page.keyboard.press("/");
  await page.keyboard.type("row 1234 imp");
  await page.waitForSelector(".execution-line[data-hit] mark");
  await page.keyboard.press("Escape");
  await page.fill("input[type=search]", "row 1234 imp");
  await page.waitForSelector(".execution-line[data-hit]");
  await page.locator("input[type=search]").blur();
  await page.keyboard.press("y");
  await page.waitForFunction(() => /^#L\d+\.1234$/.test(location.hash));
  const link = page.url().replace(/[?&]find=[^#&]*/, "");
  await page.goto("about:blank");
  await page.goto(link);
  await page.waitForSelector(".execution-line[data-chosen]");
  assert.match(await page.locator(".execution-line[data-chosen]").textContent(), /row 1234 imported/);
  assert.ok(await page.locator(".execution-line[data-chosen]").isVisible());
  await page.locator(".execution-line[data-chosen] + .execution-line + .execution-line .execution-number").click({ modifiers: ["Shift"] });
  await page.waitForFunction(() => document.querySelectorAll(".execution-line[data-chosen]").length === 3);
  await unharmed(page);
  await page.context().close();
});

test("a log is followed while it is written, with progress and heartbeat", async () => {
  const id = await run(server, { name: "Follows", execution: byKind("k") });
  const a = await worker.claim();
  const page = await visit(browser, server.url + `/executions/${id}?tab=log`);
  await page.waitForSelector("text=Listening");
  await worker.log(a, ["first line"]);
  await page.waitForSelector(".execution-line:has-text('first line')");
  await worker.beat(a, { percent: 40, message: "half of " + nasty[1] });
  await page.waitForSelector(".execution-progress:has-text('40 %')");
  await page.waitForSelector(".execution-mark.beat");
  await worker.log(a, [`${red}second${off}`]);
  await page.waitForSelector(".execution-line:has-text('second')");
  await worker.complete(a, { status: "SUCCEEDED" });
  await page.waitForSelector(".head .state:has-text('Succeeded')");
  await page.waitForSelector(".execution-more", { state: "detached" });
  await unharmed(page);
  await page.context().close();
});

test("why it failed, request and answer without secrets, and again with an edited payload, by keys", async () => {
  const page = await visit(browser, server.url + "/executions/" + dead);
  await settle(page);
  await page.waitForSelector("section[aria-label='Why it failed'] >> text=NOT_RETRYABLE");
  await page.waitForSelector(".head >> text=Dead letter");
  await page.click("a[role=tab]:has-text('Request and response')");
  await page.waitForSelector("section[aria-label=Response] >> text=HTTP 404");
  const shown = await page.locator("#tabpanel").innerText();
  assert.ok(!shown.includes("geheim") && shown.includes(nasty[2]) && shown.includes("<img src=x onerror"), shown);
  await page.locator("#main").focus();
  await page.keyboard.press("e");
  await page.waitForSelector("dialog textarea");
  await page.fill("dialog textarea", '{"n": 12345678901234567890, ');
  await page.waitForSelector("dialog >> text=Invalid JSON");
  await page.fill("dialog textarea", '{"n": 12345678901234567890}');
  await page.locator("dialog button:has-text('Run with this payload')").focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction((id) => !location.pathname.endsWith(id), dead);
  await page.waitForSelector(".head >> text=retry of");
  await page.click("a[role=tab]:has-text('Request and response')");
  await page.waitForSelector("text=12345678901234567890");
  await page.waitForSelector("text=in place of the job's");
  await page.click(".head a:has-text('" + dead.slice(-12) + "')");
  await page.waitForSelector(".head >> text=run again as");
  await unharmed(page);
  await page.context().close();
});

test("why it waits; cancelled by a key, and taken back", async () => {
  const id = await run(server, { name: "Nobody can", execution: byKind("nobody") });
  const page = await visit(browser, server.url + "/executions/" + id);
  await page.waitForSelector("section[aria-label='Why it waits'] >> text=NO_MATCHING_WORKER");
  await settle(page);
  await page.keyboard.press("c");
  await page.waitForSelector(".head .state:has-text('Cancelled')");
  await page.click(".toast button:has-text('Undo')");
  await page.waitForSelector(".head >> text=retry of");
  await page.waitForSelector(".head .state:has-text('Pending')");
  await sound(page);
  await page.context().close();
});

test("one that runs is asked to stop, with a reason", async () => {
  const id = await run(server, { name: "Long", execution: sleep(60_000) });
  await until(server, id, "RUNNING");
  const page = await visit(browser, server.url + "/executions/" + id);
  await page.waitForSelector(".head .state:has-text('Running')");
  await page.click(".head button:has-text('Cancel')");
  await page.fill("dialog input", nasty[3]);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".head .state:has-text('Cancelled')");
  await page.waitForSelector("section[aria-label='Why it was cancelled'] >> text=javascript:window.pwned=1");
  await unharmed(page);
  await page.context().close();
});

test("compared with the last success, differences first; copied as a link", async () => {
  const job = await server.api("POST", "/jobs", { name: "Sometimes", schedule: { type: "INTERVAL", every: "720h" }, execution: { target: "simulate", work_kind: "random", duration_ms: 5 }, retry_policy: { ...often, max_retries: 0 } });
  const ends = {};
  for (let n = 0; n < 60 && !(ends.SUCCEEDED && ends.FAILED); n++) {
    const t = await server.api("POST", `/jobs/${job.job_id}/trigger`, { payload_override: { n } });
    const e = await until(server, t.execution_id, "SUCCEEDED", "FAILED");
    ends[e.status] ??= e.execution_id;
  }
  const page = await visit(browser, server.url + `/executions/${ends.FAILED}?tab=compare`);
  await page.waitForSelector("table[aria-label=Compared] tr[data-differs] th:has-text('Error')");
  await page.waitForSelector("table[aria-label=Compared] tr[data-differs] th:has-text('Payload')");
  await page.click(".head button:has-text('Copy as')");
  await page.click("[role=menuitem]:has-text('Link')");
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), `${server.url}/x/${ends.FAILED}`);
  await sound(page);
  await page.context().close();
});

test("one that is not there says so", async () => {
  const page = await visit(browser, server.url + "/executions");
  page.expects = /status of 404/;
  await page.goto(server.url + "/executions/01a1e5ca-0969-772a-b94a-935a6d97d3b4");
  await page.waitForSelector("h1:has-text('No such execution')");
  await sound(page);
  await page.context().close();
});
