// Screens do not contradict each other, nor themselves: one verdict, one count of what waits, workers that take nothing are not able.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, picture, serve, settle, sound, visit } from "./harness.mjs";
import { overview, queues } from "./fakes.mjs";

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([serve(), launch()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const id = (n) => "01a1e5ca-0969-772a-b94a-935a6d97d3b" + n;
const iso = (t) => new Date(t).toISOString();
const worker = (n, more) => ({ worker_id: id(n), host: "host-" + n, version: "", status: "IDLE", capacity: 5, running: 0, queues: [], labels: [], targets: ["http"], kinds: [], completed: 0, failed: 0, started_at: iso(Date.now() - 3_600_000), last_beat_at: iso(Date.now()), ...more });
const answer = (p, path, json) => p.route("**/api/v1" + path, (r) => r.fulfill({ json: typeof json === "function" ? json() : json }));
const workers = (...of) => ({ workers: of, pagination: { limit: 1000, total: of.length, next_cursor: null } });
const judged = (more) => ({ ...overview(), ...more });

const row = (page, what) => page.locator(".admin-health li", { has: page.locator(".what", { hasText: what }) });

test("workers that drain or are cordoned are not counted as able", async () => {
  const page = await visit(browser, server.url + "/admin", { prepare: (p) => answer(p, "/workers?*", workers(worker(1), worker(2, { status: "DRAINING" }), worker(3, { status: "CORDONED" }), worker(4, { status: "DEAD" }))) });
  await settle(page);
  assert.match(await row(page, "Workers").innerText(), /Workers\s+Healthy\s+1 with 5 slots; 1 draining; 1 cordoned$/);
  await page.route("**/api/v1/workers?*", (r) => r.fulfill({ json: workers(worker(2, { status: "DRAINING" })) }));
  await page.reload();
  await settle(page);
  assert.match(await row(page, "Workers").innerText(), /Workers\s+None takes new work\s+0 with 0 slots; 1 draining$/);
  await sound(page);
  await page.context().close();
});

test("Now and Admin give one verdict: the server's", async () => {
  const sentence = "All 5 schedules on time now; p99 delay 7.0 s, 1 of the last hour's fires more than 5 s late; 9 jobs failing.";
  const findings = [["schedules", "ok", "all 5 schedules on time now"], ["delays", "critical", "p99 delay 7.0 s, 1 of the last hour's fires more than 5 s late"], ["failures", "warning", "9 jobs failing"]].map(([about, health, text]) => ({ about, health, text }));
  const prepare = (p) => answer(p, "/overview", judged({ health: "critical", sentence, findings, failing_jobs: 9 }));
  for (const path of ["/", "/admin"]) {
    const page = await visit(browser, server.url + path, { prepare });
    await settle(page);
    assert.match(await page.locator(path === "/" ? ".now-sentence" : ".admin-health li:first-child").innerText(), /Critical\s+All 5 schedules on time now; .*9 jobs failing\./, path);
    if (path === "/admin") {
      assert.match(await row(page, "Outcomes").innerText(), /Failing[\s\S]*; 9 jobs failing$/);
      assert.match(await row(page, "Schedules").innerText(), /Late[\s\S]*more than 5 s late$/);
    }
    await sound(page);
    await page.context().close();
  }
});

test("how much waits now is the same in the tile, in the sentence and under the plot", async () => {
  // The last step of the series is minutes old: four waited then.
  const old = queues();
  old.columns.at(-1).waiting = 4;
  const prepare = async (p) => {
    await answer(p, "/overview", judged({ findings: [], queued: 1 }));
    await answer(p, "/series/queues*", old);
  };
  for (const [path, now] of [["/", /^1 waits now; at most/], ["/queues", /^Nothing waits now; at most/], ["/queues/default", /^Nothing waits now; at most/]]) {
    const page = await visit(browser, server.url + path, { prepare });
    await settle(page);
    assert.match(await page.locator("figure", { has: page.getByRole("heading", { name: "Queue depth" }) }).locator("figcaption").innerText(), now, path);
    await sound(page);
    await page.context().close();
  }
});

test("what is not due yet is not listed as waiting, and no row says both", async () => {
  const due = { 1: Date.now() - 5000, 2: Date.now() + 8000 };
  const one = (n) => ({ execution_id: id(n), job_id: id(n), job_name: "job " + n, status: "PENDING", trigger: "schedule", scheduled_time: iso(due[n]), due_at: iso(due[n]) });
  const page = await visit(browser, server.url + "/queues", {
    prepare: async (p) => {
      await answer(p, "/executions?*", { executions: [one(2), one(1)], pagination: { limit: 50, total: 2, next_cursor: null } });
      for (const n of [1, 2]) await answer(p, `/executions/${id(n)}/explain`, () => ({ execution_id: id(n), summary: Date.now() < due[n] ? "It is not due until then." : "All slots are taken." }));
    },
  });
  const rows = page.locator(".queues-why li");
  await rows.filter({ hasText: "All slots are taken." }).first().waitFor();
  if (Date.now() < due[2]) assert.equal(await rows.count(), 1, "one that is due later waits");
  await rows.nth(1).waitFor();
  await rows.nth(0).filter({ hasText: "All slots are taken." }).waitFor();
  assert.match(await rows.nth(0).innerText(), /job 2[\s\S]*due/);
  assert.doesNotMatch(await page.locator(".queues-why").innerText(), /not due/);
  await sound(page);
  await page.context().close();
});

test("of a worker that is listed no more it is not known how much of its slots it used", async () => {
  const ran = (n, by, from, to) => ({ execution_id: id(n), job_id: id(n), job_name: "job " + n, status: "SUCCEEDED", worker_id: by, scheduled_time: iso(from), due_at: iso(from), started_at: iso(from), finished_at: iso(to) });
  const now = Date.now();
  const page = await visit(browser, server.url + "/workers?table=worker-activity", {
    prepare: async (p) => {
      await answer(p, "/workers?*", workers(worker(1), worker(2, { status: "DEAD", capacity: 8, last_beat_at: iso(now - 60_000) })));
      await answer(p, "/executions?*", { executions: [ran(5, id(1), now - 300_000, now - 200_000), ran(6, id(2), now - 300_000, now - 299_000), ran(7, id(9), now - 300_000, now - 298_000)], pagination: { limit: 1000, total: 3, next_cursor: null } });
    },
  });
  await settle(page);
  const figure = page.locator("figure", { has: page.getByRole("heading", { name: "Worker activity" }) });
  assert.match(await figure.locator("figcaption").innerText(), /; host-1 was used the most, 2\.\d % of its slots\.$/);
  assert.match(await figure.locator("tr", { hasText: "01a1e5ca… (gone)" }).innerText(), /–$/);
  assert.match(await figure.locator("tr", { hasText: "host-2" }).innerText(), /0(\.\d)? %$/, "one that is gone, but still listed, has its slots");
  await sound(page);
  await picture(page, "agree-workers");
  await page.context().close();
});

test("of a panic the first line and the first own frame are told, not the stack", async () => {
  const message = "assignment to entry in nil map\n\nruntime.mapassign_faststr(0x1, 0x2)\n\t/usr/lib/go/src/runtime/map_faststr.go:205 +0x9c\nexample.com/shop/mail.(*Sender).Send(0xc000, {0x1, 0x2})\n\t/home/me/shop/mail/send.go:41 +0x1d\ngithub.com/carillon-jobs/carillon/worker.(*Worker).Execute(0xc)\n\t/go/worker/sdk.go:170 +0x2";
  const brief = "assignment to entry in nil map (in mail.(*Sender).Send, send.go:41)";
  const one = { fingerprint: "f1", type: "PANIC", message: message.replaceAll(/\s+/g, " "), sample_message: message, first_seen: iso(Date.now()), last_seen: iso(Date.now()), sample_execution_id: id(1), sample_job_id: id(1), jobs: [{ job_id: id(1), name: "mail", failed: 1, retried: 0, count: 1 }], jobs_total: 1, text: null };
  const o = overview();
  const prepare = async (p) => {
    await answer(p, "/overview", { ...o, failing: [{ ...o.failing[0], type: "PANIC", message }] });
    await answer(p, "/failures?*", { from: iso(0), to: iso(0), failed: 1, retried: 0, partial: false, groups: [{ ...one, failed: 1, retried: 0 }] });
    await answer(p, "/dead-letters?*", { dead_letters: [{ execution_id: id(1), job_id: id(1), job_name: "mail", status: "FAILED", reason: "ATTEMPTS_EXHAUSTED", dead_lettered_at: iso(Date.now()), total_attempts: 1, errors: [{ attempt_number: 1, error: { type: "PANIC", message } }] }], pagination: { limit: 50, total: 1, next_cursor: null } });
    await answer(p, "/dead-letters:groups?*", { total: 1, looked_at: 1, partial: false, groups: [{ ...one, count: 1, reasons: {} }] });
  };
  for (const path of ["/", "/dead-letters"]) {
    const page = await visit(browser, server.url + path, { prepare });
    await settle(page);
    const text = await page.locator("#main").innerText();
    assert.equal(text.split(brief).length - 1, 2, path + ": " + text);
    assert.doesNotMatch(text, /sdk\.go|runtime\.mapassign/, path);
    await sound(page);
    await page.context().close();
  }
});

test("at 1280 px nothing is pushed out of sight: neither columns, nor buttons, nor tabs", async () => {
  const busy = (n) => worker(n, { host: "worker-eu-central-1-" + n, version: "a2f1f0a", queues: ["mail", "reports"], labels: ["gpu", "eu"], targets: ["http", "command", "simulate"], kinds: ["send-email"], completed: 12345, failed: 38, memory_used_bytes: 60e6, memory_limit_bytes: 8e9 });
  const error = { type: "HANDLER_ERROR", message: "the warehouse answered with something that nobody had expected, and it said so at length" };
  const dead = { execution_id: id(1), job_id: id(1), job_name: "nightly invoices of the southern warehouse", status: "FAILED", reason: "ATTEMPTS_EXHAUSTED", dead_lettered_at: iso(Date.now() - 90_000), total_attempts: 12, errors: [{ attempt_number: 1, error }] };
  const prepare = async (p) => {
    await answer(p, "/workers?*", workers(busy(1), busy(2)));
    await answer(p, "/dead-letters?*", { dead_letters: [dead], pagination: { limit: 50, total: 1, next_cursor: null } });
  };
  for (const path of ["/workers", "/dead-letters", "/admin"]) {
    const page = await visit(browser, server.url + path, { prepare, width: 1280, height: 800 });
    await settle(page);
    const over = await page.evaluate(() => [...document.querySelectorAll("html, .tablebox, .admin-nav, td")].filter((e) => e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0).map((e) => `${e.tagName} ${e.className}: ${e.innerText.slice(0, 40)}`));
    assert.deepEqual(over, [], path);
    await sound(page);
    await page.context().close();
  }
});
