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
  await everyLook(browser, server.url + "/queues/mail", "queue", (p) => p.waitForSelector("h2:has-text('Workers that take from it')"));
  const { workers } = await server.api("GET", "/workers?limit=1");
  await everyLook(browser, server.url + "/workers/" + workers[0].worker_id, "worker", (p) => p.waitForSelector("h2:has-text('What it takes')"));
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
  await page.waitForSelector("h2:has-text('Workers that take from it')");
  await accessible(page);
  await sound(page);
  await page.context().close();
});

test("workers look right, and each is a page", async () => {
  await everyLook(browser, server.url + "/workers", "workers");
  const page = await visit(browser, server.url + "/workers");
  await page.click(".table .name");
  await page.waitForSelector("h2:has-text('What it takes')");
  await page.waitForSelector("text=Who held what");
  await page.click(".plot button:has-text('Table')");
  await page.waitForSelector("th:has-text('Slots used')");
  await accessible(page);
  await sound(page);
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
    if (path === none) await forgive(page, /status of 40[04]/);
    await unharmed(page);
    await page.context().close();
  }
});
