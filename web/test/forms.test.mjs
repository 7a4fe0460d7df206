// The form of a job does what it says, and nothing else: what is not touched stays, what is cleared goes. Filters choose what they say.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, everyLook, launch, serve, sound, visit } from "./harness.mjs";

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([serve("--demo"), launch()]);
  await server.api("PUT", "/calendars/holidays", { yearly: ["12-25"] });
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const field = (page, label) => page.locator(`.field:has(> label:text-is("${label}")) >> input, textarea, select`).first();
// openAll opens what is folded; before the job has been read there is a heading, and no form.
async function openAll(page) {
  await page.waitForSelector(".form details", { state: "attached" });
  await page.evaluate(() => document.querySelectorAll(".form details").forEach((d) => (d.open = true)));
}
const pretend = { target: "simulate", work_kind: "noop" };

/** What of a job is its definition. */
function definition({ job_id, execution_id, key, created_at, updated_at, revision, stats, status, pause_reason, paused_until, schedule, ...rest }) {
  const { next_run_at, last_run_at, ...plan } = schedule;
  return { ...rest, schedule: plan };
}

async function edit(id) {
  const page = await visit(browser, `${server.url}/jobs/${id}/edit`);
  await page.waitForSelector("h1:has-text('Edit')");
  await openAll(page);
  return page;
}

async function save(page) {
  await page.click("button:has-text('Save')");
  await page.waitForURL(/\/jobs\/[0-9a-f-]+$/);
  await sound(page);
  await page.context().close();
}

const policies = {
  description: "What it is for.", tags: ["two words", "a,b", "plain"], owner: "billing & co", runbook: "Look at the\nother thing.",
  retry_policy: { max_retries: 7, backoff: "LINEAR", initial_delay_ms: 1234, max_delay_ms: 56789 }, overlap: "skip", catch_up: "all", catch_up_limit: 17, priority: 2, queue: "slow", labels: ["gpu", "eu"],
  max_concurrent: 3, concurrency_key: "payload.customer", rate_limit: { count: 10, per: "1m30s", burst: 9 }, unique_key: "only", expires_after: "1h30m", auto_redrive_after: "6h", retention: { days: 7, failed_days: 90 },
};
const bounds = { jitter_ms: 1500, start_at: "2030-01-01T00:00:00Z", end_at: "2031-01-01T00:00:00Z", max_runs: 12, calendar: "holidays" };
const limits = { timeout_seconds: 77, stall_timeout_seconds: 33, total_timeout_seconds: 999 };
const kinds = {
  "HTTP by cron": {
    schedule: { type: "CRON", cron_expression: "30 2 1 * MON", timezone: "Europe/Berlin", day: "and", ...bounds },
    execution: { target: "http", callback_url: "https://example.com/run?x=1", method: "PUT", headers: { "X-One": "1", Authorization: "Bearer abc" }, expect: { status: [200, 204], body_contains: " ok " }, follow_redirects: true, payload: { customer: 1, list: [1.0, {}, []] }, ...limits },
  },
  "a command by interval": {
    schedule: { type: "INTERVAL", every: "1h30m", timezone: "Asia/Tokyo", ...bounds },
    execution: { target: "command", command: ["/bin/sh", "-c", "echo one\necho two\n", "", " padded "], env: { A: "1", EMPTY: "" }, payload: {}, ...limits },
  },
  "a worker, once": { concurrency_key: null, schedule: { type: "ONE_TIME", scheduled_time: "2030-05-01T10:00:00.25Z", jitter_ms: 2000 }, execution: { target: "worker", kind: "mail.send", payload: [], ...limits } },
  "pretended work": { concurrency_key: null, schedule: { type: "CRON", cron_expression: "0 0 1 1 *" }, execution: { target: "simulate", work_kind: "sleep", duration_ms: 5, fail_attempts: 2, payload: "text", ...limits } },
};

test("one field is changed, and all others are as they were", async () => {
  for (const [name, of] of Object.entries(kinds)) {
    const j = await server.api("POST", "/jobs", { name, ...policies, ...of, unique_key: name });
    const want = definition(await server.api("GET", "/jobs/" + j.job_id));
    const changes = [
      ["owner", (page) => field(page, "Owner").fill("someone else"), () => (want.owner = "someone else")],
      ["execution.timeout_seconds", (page) => field(page, "Attempt timeout, s").fill("78"), () => (want.execution.timeout_seconds = 78)],
      ["retry_policy.initial_delay_ms", (page) => field(page, "First delay, ms").fill("4321"), () => (want.retry_policy.initial_delay_ms = 4321)],
      ["schedule.jitter_ms", (page) => field(page, "Jitter, ms").fill("250"), () => (want.schedule.jitter_ms = 250)],
      ["tags", (page) => page.fill("input[aria-label='Tags, 3']", "other words"), () => (want.tags[2] = "other words")],
      ["rate_limit.burst", (page) => field(page, "Burst").fill("8"), () => (want.rate_limit.burst = 8)],
      ...(of.execution.headers ? [["execution.expect.body_contains", (page) => field(page, "The response must contain").fill("yes"), () => (want.execution.expect.body_contains = "yes")]] : []),
      ...(of.execution.command ? [["execution.command", (page) => page.fill("textarea[aria-label='Program and arguments, 2']", "-ec"), () => (want.execution.command[1] = "-ec")]] : []),
    ];
    for (const [what, change, also] of changes) {
      const page = await edit(j.job_id);
      await change(page);
      await save(page);
      also();
      assert.deepEqual(definition(await server.api("GET", "/jobs/" + j.job_id)), want, `${name}: ${what}`);
      // And what is not shown, such as a credential, is still what it was.
      const { revisions } = await server.api("GET", `/jobs/${j.job_id}/revisions`);
      assert.equal(revisions[0].changes.length, 1, `${name}: ${what}: ${JSON.stringify(revisions[0].changes)}`);
    }
  }
});

test("a clone is the same job but for its name, its key and its credentials", async () => {
  for (const [name, of] of Object.entries(kinds)) {
    const j = await server.api("POST", "/jobs", { name: "To clone: " + name, ...policies, ...of, unique_key: "clone " + name });
    const page = await visit(browser, `${server.url}/jobs/new?clone=${j.job_id}`);
    await page.waitForSelector("h1:has-text('Clone job')");
    if (of.execution.headers) await page.fill(".form-pairs > div:has(input[value=Authorization]) input >> nth=1", "Bearer other");
    await page.click("button:has-text('Create job')");
    await page.waitForURL(/\/jobs\/[0-9a-f-]+$/);
    const copy = await server.api("GET", "/jobs/" + page.url().split("/").pop());
    assert.notEqual(copy.job_id, j.job_id);
    assert.deepEqual(definition(copy), { ...definition(await server.api("GET", "/jobs/" + j.job_id)), name: j.name + " (copy)" });
    await sound(page);
    await page.context().close();
  }
});

test("what is cleared is gone, and a lower rate has a lower burst", async () => {
  const j = await server.api("POST", "/jobs", { name: "Cleared", ...policies, ...kinds["HTTP by cron"], unique_key: "cleared", concurrency_key: null, max_concurrent: null, rate_limit: { count: 10000, per: "1s" } });
  assert.equal(j.rate_limit.burst, 1000);
  let page = await edit(j.job_id);
  await field(page, "The response must contain").fill("");
  await field(page, "Rate limit").fill("5");
  await field(page, "Period").fill("1m");
  await field(page, "Stalled after, s").fill("");
  await field(page, "Calendar").selectOption("");
  await page.click("button[aria-label='Remove a,b']");
  await save(page);
  let now = await server.api("GET", "/jobs/" + j.job_id);
  assert.deepEqual(now.execution.expect, { status: [200, 204] });
  assert.deepEqual(now.rate_limit, { count: 5, per: "1m", burst: 1 });
  assert.deepEqual([now.execution.stall_timeout_seconds, now.schedule.calendar, now.tags], [null, undefined, ["two words", "plain"]]);

  // A burst that was said stays with another rate, for everyone to see.
  page = await edit(j.job_id);
  await field(page, "Burst").fill("4");
  await save(page);
  page = await edit(j.job_id);
  assert.equal(await field(page, "Burst").inputValue(), "4");
  await field(page, "Rate limit").fill("6");
  await field(page, "Statuses that count as success").fill("");
  await save(page);
  now = await server.api("GET", "/jobs/" + j.job_id);
  assert.deepEqual([now.rate_limit, now.execution.expect], [{ count: 6, per: "1m", burst: 4 }, null]);
});

test("with another target or type of schedule, what was cleared is gone, too", async () => {
  const j = await server.api("POST", "/jobs", { name: "Turned", ...policies, ...kinds["HTTP by cron"], unique_key: "turned", concurrency_key: null });
  const page = await edit(j.job_id);
  await page.click(".segments button:has-text('Pretend')");
  await page.click(".segments button:has-text('Every')");
  await openAll(page);
  for (const label of ["Jitter, ms", "Not before", "Not at or after", "Maximum runs", "Stalled after, s", "Total timeout, s"]) await field(page, label).fill("");
  await field(page, "Calendar").selectOption("");
  await page.fill("section[aria-label=Payload] textarea", "");
  await save(page);
  const now = await server.api("GET", "/jobs/" + j.job_id);
  const { next_run_at, last_run_at, ...schedule } = now.schedule;
  assert.deepEqual(schedule, { type: "INTERVAL", every: "10m", timezone: "UTC", jitter_ms: 0 });
  assert.deepEqual([now.execution.target, now.execution.payload, now.execution.stall_timeout_seconds, now.execution.total_timeout_seconds, now.execution.timeout_seconds], ["simulate", null, null, null, 77]);
});

test("arguments and tags are rows: anything fits into one", async () => {
  const page = await visit(browser, server.url + "/jobs/new");
  await field(page, "Name").fill("Rows");
  await page.click(".segments button:has-text('Once')");
  await field(page, "At").fill("2030-01-01T00:00:00");
  await page.click("button:has-text('Add a tag')");
  await page.keyboard.type("two words, and a comma");
  await page.keyboard.press("Enter");
  await page.keyboard.type("gone");
  await page.click("button[aria-label='Remove gone']");
  await page.click(".segments button:has-text('Command')");
  await page.click("button:has-text('Add the program')");
  await page.keyboard.type("/bin/sh");
  await page.keyboard.press("Enter");
  await page.keyboard.type("one");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("two");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Enter");
  await page.keyboard.type("last");
  await accessible(page);
  await page.click("button:has-text('Create job')");
  await page.waitForSelector("h1:has-text('Rows')");
  const j = await server.api("GET", "/jobs/" + page.url().split("/").pop());
  assert.deepEqual([j.tags, j.execution.command], [["two words, and a comma"], ["/bin/sh", "one\ntwo", "", "last"]]);
  await page.click(".tag:has-text('two words')");
  await page.waitForURL("**/jobs?q=*");
  await page.waitForSelector("td a:has-text('Rows')");
  await page.waitForSelector("text=1 match");
  assert.equal(await page.locator("tbody tr").count(), 1);
  await sound(page);
  await page.context().close();
});

test("an answer that was lost makes no second job", async () => {
  const page = await visit(browser, server.url + "/jobs/new");
  page.expects = /ERR_FAILED|504/;
  let lost = 0;
  await page.route("**/api/v1/jobs", async (r) => {
    if (r.request().method() !== "POST" || lost++ > 0) return r.fallback();
    await r.fetch(); // it is done, and nobody hears of it
    return r.abort();
  });
  await field(page, "Name").fill("Only once");
  await page.click(".segments button:has-text('Pretend')");
  await page.click("button:has-text('Create job')");
  await page.waitForSelector(".error:has-text('may have been created')");
  await page.click("button:has-text('Create job')");
  await page.waitForSelector("h1:has-text('Only once')");
  assert.equal((await server.api("GET", "/jobs?name=Only%20once")).pagination.total, 1);
  await sound(page);
  await page.context().close();
});

test("what the server refuses is told where it stands, also in what was shut", async () => {
  const page = await visit(browser, server.url + "/jobs/new");
  page.expects = /422|400/;
  await field(page, "Name").fill("Refused");
  await field(page, "URL").fill("https://example.com/");
  await page.click("button:has-text('Add a tag')");
  await page.keyboard.type("same");
  await page.keyboard.press("Enter");
  await page.keyboard.type("same");
  await page.click("fieldset:has(legend:text-is('Headers')) button:has-text('Add')");
  await page.fill("input[aria-label=Name]", "Bad header");
  await page.fill("section[aria-label=Payload] textarea", '{"a": "${secret:nothing}"}');
  await openAll(page);
  await field(page, "Priority").fill("99");
  await field(page, "Statuses that count as success").fill("200 9000");
  await field(page, "Jitter, ms").fill("-1");
  await page.evaluate(() => document.querySelectorAll(".form details").forEach((d) => (d.open = false)));
  await page.click("button:has-text('Create job')");
  await page.waitForSelector(".error");
  await page.waitForSelector("fieldset:has(legend:text-is('Tags')) .wrong:has-text('tags[1] wanted: each tag only once')");
  assert.equal(await page.getAttribute("input[aria-label='Tags, 2']", "aria-invalid"), "true");
  await page.waitForSelector("fieldset:has(legend:text-is('Headers')) .wrong");
  await page.waitForSelector(".field:has(> label:text-is('Statuses that count as success')) .wrong:has-text('status[1]')");
  await page.waitForSelector(".field:has(> label:text-is('Priority')) .wrong:visible");
  await page.waitForSelector(".field:has(> label:text-is('Jitter, ms')) .wrong:visible");
  await accessible(page);
  await sound(page);
  await page.context().close();
});

test("what was typed is not lost by a click elsewhere", async () => {
  const j = await server.api("POST", "/jobs", { name: "Unsaved", schedule: { type: "CRON", cron_expression: "0 0 1 1 *" }, execution: pretend });
  const page = await visit(browser, `${server.url}/jobs/${j.job_id}`);
  await page.click("a:has-text('Edit')");
  await page.waitForSelector("h1:has-text('Edit')");
  await field(page, "Owner").fill("half");
  const asked = [];
  let answer = false;
  page.on("dialog", (d) => {
    asked.push(d.message());
    return answer ? d.accept() : d.dismiss();
  });
  await page.click("nav a:has-text('Executions')");
  await page.click("button:has-text('Cancel')"); // which goes back
  await page.waitForTimeout(200);
  assert.equal(asked.length, 2);
  assert.match(asked[0], /without saving/);
  assert.equal(await field(page, "Owner").inputValue(), "half");
  assert.match(page.url(), /\/edit$/);
  answer = true;
  await page.click("button:has-text('Cancel')");
  await page.waitForURL(/\/jobs\/[0-9a-f-]+$/);
  assert.equal((await server.api("GET", "/jobs/" + j.job_id)).owner, null);
  // What is saved needs no question.
  await page.click("a:has-text('Edit')");
  await page.waitForSelector("h1:has-text('Edit')");
  await field(page, "Owner").fill("whole");
  await page.click("button:has-text('Save')");
  await page.waitForSelector("dd:has-text('whole')");
  assert.equal(asked.length, 3);
  await sound(page);
  await page.context().close();
});

test("a payload that was emptied says that the job's own is used", async () => {
  const j = await server.api("POST", "/jobs", { name: "Own payload", schedule: { type: "CRON", cron_expression: "0 0 1 1 *" }, execution: { ...pretend, payload: { own: 1 } } });
  const page = await visit(browser, `${server.url}/jobs/${j.job_id}`);
  await page.waitForSelector("h1:has-text('Own payload')");
  await page.keyboard.press("r");
  for (const none of ["", "null"]) {
    await page.fill("dialog textarea", none);
    await page.waitForSelector("dialog >> text=it runs with the job's payload");
  }
  assert.equal(await page.locator("dialog code:has-text('--payload')").count(), 0);
  const sent = page.waitForRequest("**/trigger");
  await page.click("dialog button[type=submit]");
  assert.equal((await sent).postData(), "{}");
  await page.waitForURL("**/executions/*");
  await sound(page);
  await page.context().close();
});

test("a form with everything set, and the list it leads to, in every look", async () => {
  const j = await server.api("POST", "/jobs", { name: "Looked at", ...policies, ...kinds["a command by interval"], unique_key: "looked at" });
  await everyLook(browser, `${server.url}/jobs/${j.job_id}/edit`, "job-edit", openAll);
  await everyLook(browser, `${server.url}/jobs?q=${encodeURIComponent('owner:"billing & co" whose:x late:')}`, "jobs-filtered");
  await everyLook(browser, server.url + "/jobs", "jobs-owned");
});
