// Queues and workers: what is seen, what is done, by pointer and by keys.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { accessible, everyLook, forgive, launch, nasty, serve, settle, sound, unharmed, visit } from "./harness.mjs";
import { seedLoad } from "./busy.mjs";

const binary = process.env.CARILLON_BINARY ?? join(dirname(fileURLToPath(import.meta.url)), "../../bin/carillon");
let server, browser;
before(async () => {
  [server, browser] = await Promise.all([serve(), launch()]);
  await seedLoad(server);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test("queues look right at both widths and in both themes", () => everyLook(browser, server.url + "/queues", "queues"));

test("one queue and one worker, in every look", async () => {
  await everyLook(browser, server.url + "/queues/mail", "queue", (p) => p.waitForSelector("h2:has-text('Workers that serve it')"));
  const { workers } = await server.api("GET", "/workers?limit=1");
  await everyLook(browser, server.url + "/workers/" + workers[0].worker_id, "worker", (p) => p.waitForSelector("h2:has-text('Serves')"));
});

test("a queue is limited with keys alone, and the limit is taken back", async () => {
  const page = await visit(browser, server.url + "/queues");
  await page.waitForSelector("text=2 at once");
  await page.keyboard.press("l");
  await page.waitForSelector("dialog h2:has-text('Limit a queue')");
  await page.keyboard.type("slow");
  await page.keyboard.press("Tab");
  await page.keyboard.type("0");
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog .wrong"); // the server says what it wants
  await forgive(page, /status of 422/);
  await page.keyboard.press("Control+a");
  await page.getByLabel("At once, at most").fill("7");
  await accessible(page);
  await page.keyboard.press("Enter");
  await page.waitForSelector("tr:has-text('slow') >> text=7 at once");
  assert.ok((await page.locator("dialog").count()) === 0);
  await page.click(".toast button:has-text('Undo')");
  await page.waitForSelector("tr:has-text('slow')", { state: "detached" });
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/queues\/[a-z]+$/);
  await settle(page);
  await page.waitForSelector("h2:has-text('Workers that serve it')");
  await accessible(page);
  await sound(page);
  await page.context().close();
});

test("a limit keeps its burst, and a name that has one is looked up", async () => {
  await server.api("PUT", "/limits/queues/bursty", { rate_limit: { count: 10, per: "1s", burst: 9 } });
  const limit = async () => (await server.api("GET", "/limits?limit=1000")).limits.find((l) => l.queue === "bursty");
  const page = await visit(browser, server.url + "/queues/bursty");
  await page.click("button:has-text('Limit')");
  await page.waitForSelector("dialog h2:has-text('Limit bursty')");
  await page.waitForFunction(() => document.querySelector("dialog")?.textContent.includes("--burst 9"));
  await page.getByLabel("At once, at most").fill("4");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".toast:has-text('Limited bursty')");
  assert.deepEqual([(await limit()).max_concurrent, (await limit()).rate_limit], [4, { count: 10, per: "1s", burst: 9 }]);
  await page.goto(server.url + "/queues");
  await page.waitForSelector("tr:has-text('bursty') >> text=4 at once");
  await page.keyboard.press("l");
  await page.waitForSelector("dialog h2:has-text('Limit a queue')");
  await page.keyboard.type("bursty");
  await page.waitForSelector("dialog >> text=It has a limit: 4 at once, 10 in 1s");
  await page.getByLabel("At once, at most").fill("5");
  await page.keyboard.press("Enter");
  await page.waitForSelector("tr:has-text('bursty') >> text=5 at once");
  await page.click(".toast button:has-text('Undo')");
  await page.waitForSelector("tr:has-text('bursty') >> text=4 at once");
  assert.deepEqual((await limit()).rate_limit, { count: 10, per: "1s", burst: 9 });
  await server.api("PUT", "/limits/queues/bursty", {});
  await sound(page);
  await page.context().close();
});

test("a queue is paused with a reason and an end, by keys, and resumed; both can be undone", async () => {
  const pause = async () => (await server.api("GET", "/queues/held")).pause;
  const j = await server.api("POST", "/jobs", { name: "held", queue: "held", execution: { target: "worker", kind: "nobody-has-this" } });
  const page = await visit(browser, server.url + "/queues/held");
  await settle(page);
  await page.keyboard.press("p");
  await page.waitForSelector("dialog h2:has-text('Pause held')");
  await page.keyboard.type("it's moved");
  await page.getByLabel("Resumes").selectOption("14400000");
  await accessible(page);
  assert.equal(await page.locator("dialog code").last().innerText(), "carillon queue pause held --reason 'it'\\''s moved' --until +4h");
  await page.click("dialog button:has-text('Pause')");
  await page.waitForSelector("text=Paused since");
  await page.waitForSelector("text=it's moved");
  assert.ok(Date.parse((await pause()).until) > Date.now() + 3 * 3600_000);
  await page.waitForSelector("section[aria-label='What waits, and why'] >> text=Its queue \"held\" is paused since");
  await page.click(".toast button:has-text('Undo')");
  await page.waitForSelector("button:has-text('Pause')");
  assert.equal(await pause(), null);
  await server.api("POST", "/queues/held/pause", { reason: "again" });
  await page.goto(server.url + "/queues");
  const row = page.locator("tr:has-text('held')");
  await row.locator("text=Paused").first().waitFor();
  await accessible(page);
  await row.getByRole("button", { name: "Resume held" }).click();
  await page.waitForSelector(".toast:has-text('Resumed held')");
  assert.equal(await pause(), null);
  await page.click(".toast button:has-text('Undo')");
  await row.getByRole("button", { name: "Resume held" }).waitFor();
  assert.equal((await pause()).reason, "again");
  await row.getByLabel("Select this row").check();
  await page.keyboard.press("p");
  await row.getByRole("button", { name: "Pause held" }).waitFor();
  assert.equal(await pause(), null);
  await server.api("POST", `/executions/${j.execution_id}/cancel`);
  await sound(page);
  await page.context().close();
});

test("workers look right, and each is a page", async () => {
  await everyLook(browser, server.url + "/workers", "workers");
  const page = await visit(browser, server.url + "/workers");
  await page.waitForSelector('[role=meter][aria-label^="Memory of"][aria-valuetext*=" of "]');
  await page.click(".table .name");
  await page.waitForSelector("h2:has-text('Serves')");
  await page.waitForSelector('[role=meter][aria-label^="Memory of"][aria-valuetext*=" of "]');
  await page.waitForSelector("text=Worker activity");
  await page.click(".plot button:has-text('Table')");
  await page.waitForSelector("th:has-text('Slots used')");
  await accessible(page);
  await sound(page);
  await page.context().close();
});

test("the map of leases shows what began long before the window, and runs or ended within it", async () => {
  const page = await visit(browser, server.url + "/queues");
  const w = (await server.api("GET", "/workers?limit=1")).workers[0];
  const began = new Date(Date.now() - 7200_000).toISOString();
  const long = { execution_id: "0190a6c8-7b3e-7cc0-8a1b-0123456789ab", job_id: "0190a6c8-7b3e-7cc0-8a1b-0123456789ac", job_name: "long", status: "RUNNING", trigger: "SCHEDULE", scheduled_time: began, due_at: began, started_at: began, finished_at: null, worker_id: w.worker_id, attempt_number: 1, max_attempts: 1, metadata: {}, priority: 5 };
  const over = { ...long, execution_id: "0190a6c8-7b3e-7cc0-8a1b-0123456789ad", status: "SUCCEEDED", finished_at: new Date(Date.now() - 60_000).toISOString() };
  await page.route("**/api/v1/executions?*", (r) => {
    const q = new URL(r.request().url()).searchParams;
    const within = q.get("finished_after") && q.get("finished_after") === q.get("end_date");
    r.fulfill({ json: { executions: q.get("status")?.includes("RUNNING") ? [long] : within ? [over] : [], pagination: { limit: 1, total: 1, next_cursor: null } } });
  });
  await page.click('.nav a:has-text("Workers")');
  await page.waitForSelector("text=ran 2 executions");
  await page.context().close();
});

test("a worker joins while someone listens, and is drained", async () => {
  const page = await visit(browser, server.url + "/workers");
  await settle(page);
  await page.keyboard.press("a");
  await page.waitForSelector("dialog >> text=Listening for a worker");
  assert.match(await page.locator("dialog .command code").innerText(), /^carillon worker --server http:\/\/127\.0\.0\.1:\d+ --token \$CARILLON_TOKEN$/);
  await page.getByLabel("Only these queues").fill("mail reports");
  assert.match(await page.locator("dialog .command code").innerText(), /--queues mail,reports/);
  const worker = spawn(binary, ["worker", "--server", server.url, "--token", "x".repeat(40), "--queues", "mail", "--labels", "gpu,eu", "--capacity", "3"], { stdio: "ignore" });
  try {
    await page.waitForSelector("dialog .workers-listening.joined", { timeout: 15_000 });
    await accessible(page);
    await page.keyboard.press("Escape");
    const row = page.locator("tr:has-text('gpu')");
    await row.waitFor();
    await row.getByRole("button", { name: /^Cordon/ }).click();
    await row.locator("text=Cordoned").waitFor();
    await page.click(".toast button:has-text('Undo')");
    await row.getByRole("button", { name: /^Cordon/ }).waitFor();
    await row.getByRole("button", { name: /Drain/ }).click();
    await page.waitForSelector("dialog >> text=carillon workers drain");
    await page.click("dialog button:has-text('Drain')");
    await page.waitForSelector(".toast:has-text('is draining')");
    await page.waitForFunction(() => ![...document.querySelectorAll("tr")].some((r) => r.textContent.includes("gpu") && !/Draining|Dead/.test(r.textContent)), undefined, { timeout: 15_000 }); // with nothing to finish it leaves
  } finally {
    worker.kill("SIGKILL");
  }
  await sound(page);
  await page.context().close();
});

test("no worker: the line that starts one, and a lamp", async () => {
  const page = await visit(browser, server.url + "/queues");
  await page.route("**/api/v1/workers?*", (r) => r.fulfill({ json: { workers: [], pagination: { limit: 200, total: 0, next_cursor: null } } }));
  await page.click('.nav a:has-text("Workers")');
  await page.waitForSelector("text=No worker: nothing runs");
  await page.waitForSelector("text=Listening for a worker");
  await page.waitForSelector(".command code:has-text('carillon worker --server')");
  await accessible(page);
  await page.unroute("**/api/v1/workers?*");
  await page.waitForSelector(".workers-listening.joined", { timeout: 10_000 });
  await sound(page);
  await page.context().close();
});

test("names that are markup stay text", async () => {
  for (const host of nasty) await server.api("POST", "/workers", { host, version: host.slice(0, 60), capacity: 1, targets: ["worker"], kinds: ["x"] });
  const none = "/workers/" + encodeURIComponent(nasty[0]); // an id that is none
  for (const path of ["/workers", "/queues", "/queues/" + encodeURIComponent(nasty[1]), none, "/workers?span=" + encodeURIComponent(nasty[1])]) {
    const page = await visit(browser, server.url + path);
    await settle(page);
    if (path === none || path.startsWith("/queues/")) page.faults.splice(0, page.faults.length, ...page.faults.filter((f) => !/status of 40[04]/.test(f))); // what is none is asked for more than once
    await unharmed(page);
    await page.context().close();
  }
});
