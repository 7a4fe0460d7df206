// The first five minutes of a newcomer: one command, a page that moves, a job of one's own, a failure that is understood and
// mended, a server that is killed, files to commit. Each step as it is told in the README, with what it promises.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { binary, launch, serve, settle, sound, toJobs, visit } from "./harness.mjs";
import { until } from "./seed.mjs";

const lines = (text) => text.trim().split("\n").map((l) => JSON.parse(l));

test("the first five minutes", { timeout: 900_000 }, async (t) => {
  const [server, browser] = await Promise.all([serve.fresh(), launch()]);
  t.after(async () => {
    await browser.close();
    await server.stop();
  });
  const cli = (...args) => {
    const r = spawnSync(binary, args, { cwd: server.dir, encoding: "utf8", env: { ...process.env, CARILLON_SERVER: server.url, HOME: server.dir, NO_COLOR: "1" } });
    assert.equal(r.status, 0, `carillon ${args.join(" ")}: ${r.stderr}`);
    return r.stdout;
  };
  let page;

  await t.test("one command: it says where to look, three bells ring every 10 s, and a workflow every 2 minutes", async () => {
    assert.match(server.log(), new RegExp("Open +" + server.url));
    const jobs = lines(cli("job", "list", "--tag", "demo", "-o", "jsonl"));
    assert.deepEqual(jobs.map((j) => j.schedule.every), ["2m", "10s", "10s", "10s"]);
  });

  await t.test("the page moves by itself, and shows the one that fails on purpose", async () => {
    page = await visit(browser, server.url + "/");
    await page.waitForSelector(".dot.live");
    await page.waitForSelector(".now-sentence");
    const succeeded = () => page.locator(".now-tile", { hasText: "Succeeded" }).innerText();
    const before = await succeeded();
    await page.waitForFunction((b) => [...document.querySelectorAll(".now-tile")].some((e) => e.textContent.includes("Succeeded") && e.innerText !== b && /\d execution/.test(e.innerText)), before);
    await page.waitForSelector("section[aria-label='Jobs to look at'] a:has-text('Fails on purpose')");
    await page.waitForSelector("section[aria-label=Failures] >> text=503");
  });

  await t.test("a job of one's own: in words, and its first bar within 10 s", async () => {
    await toJobs(page);
    cli("job", "create", "hello", "--key", "hello", "--every", "10s", "--http", server.url + "/demo/echo");
    const made = Date.now();
    const row = page.locator("tbody tr", { has: page.locator("a.name", { hasText: /^hello$/ }) });
    await row.waitFor();
    assert.match(await row.innerText(), /10 ?s/);
    await row.locator(".strip a[aria-label^=Succeeded]").first().waitFor();
    // The interval is ten seconds; a look takes one or two, and a slow machine more.
    assert.ok(Date.now() - made < 22_000, "the first bar took longer than the interval and a look");
    assert.match(cli("cron", "explain", "*/10 9-17 * * MON-FRI"), /Every 10 minutes.*(Monday|weekday)/is);
  });

  await t.test("the failing one: why, and again with an edited payload, by keys", async () => {
    await page.click("tbody a.name:has-text('Fails on purpose')");
    await page.waitForSelector("h1:has-text('Fails on purpose')");
    await page.click("[role=tab]:has-text('Executions')");
    await page.locator("#tabpanel tbody tr", { hasText: "Failed" }).first().click();
    await page.waitForURL("**/executions/*");
    const why = await page.locator("section[aria-label='Why it failed']").innerText();
    for (const want of [/503/, /127\.0\.0\.1|\/demo\/echo/, /attempt/i]) assert.match(why, want);
    await settle(page);
    await page.keyboard.press("e");
    await page.waitForSelector("dialog textarea");
    await page.fill("dialog textarea", '{"hello": "again"}');
    await page.locator("dialog button:has-text('Run with this payload')").focus();
    await page.keyboard.press("Enter");
    await page.waitForSelector(".head .state:has-text('Succeeded')");
    await page.waitForSelector(".head >> text=retry of");
    await sound(page); // until here nothing was amiss
  });

  await t.test("kill -9 in the middle of a run: fired once, tried twice, nothing missed", async () => {
    const { execution_id: id } = await server.api("POST", "/jobs", { name: "slow", execution: { target: "simulate", work_kind: "sleep", duration_ms: 10_000 } });
    await page.goto(server.url + "/executions/" + id);
    await page.waitForSelector(".head .state:has-text('Running')");
    page.expects = /net::ERR_/; // while the server is gone
    await server.kill();
    await server.again();
    await until(server, id, "SUCCEEDED");
    await page.waitForSelector(".head .state:has-text('Succeeded')");
    await page.waitForSelector("figcaption:has-text('in 2 attempts')");
    const [lost, won] = (await server.api("GET", `/executions/${id}/report`)).attempts;
    assert.ok(won.fencing_token > lost.fencing_token, "the second attempt holds a greater token, so that the first could not have reported");
    const { executions } = await server.api("GET", "/executions?job_name=slow&limit=50");
    assert.equal(executions.length, 1, "it was fired once");
    const jobs = lines(cli("job", "list", "-o", "jsonl"));
    assert.equal(jobs.filter((j) => j.name === "hello").length, 1, "state is kept");
    const hellos = (await server.api("GET", "/executions?job_name=hello&limit=50")).executions.filter((e) => e.trigger !== "manual").map((e) => e.scheduled_time);
    assert.equal(new Set(hellos).size, hellos.length, "no instant is fired twice");
  });

  await t.test("files to commit, and the week to come", async () => {
    const yaml = cli("job", "export");
    assert.match(yaml, /name: hello/);
    assert.match(yaml, /every: "10s"/);
    assert.match(cli("forecast"), /\d/);
    await page.goto(server.url + "/forecast?hours=168");
    await page.waitForSelector("text=will fire in the next 7 d");
  });

  await t.test("what to do next: a worker, PostgreSQL, a key, one line each", () => {
    for (const line of [/carillon worker --server http/, /carillon move .* --to postgres:\/\//, /an API key/]) assert.match(server.log(), line);
  });
  await sound(page);
  await page.context().close();
});
