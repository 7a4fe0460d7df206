// Dependencies between jobs: what a job runs after, what it still waits for, and how that is changed by hand.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, everyLook, forgive, launch, nasty, picture, serve, settle, sound, unharmed, visit } from "./harness.mjs";
import { until } from "./seed.mjs";

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([serve(), launch()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const job = (key, name, more = {}) => server.api("POST", "/jobs", { key, name, schedule: { type: "MANUAL" }, execution: { target: "simulate", work_kind: "noop" }, ...more });
const on = (key) => server.api("GET", `/jobs/key:${key}/dependencies`);
const ends = async (key) => until(server, (await server.api("POST", `/jobs/key:${key}/trigger`)).execution_id, "SUCCEEDED");

/** untilToken waits for a job to have what another has left. */
async function untilToken(key, parent) {
  for (let i = 0; ; i++) {
    const p = (await on(key)).depends_on.find((p) => p.key === parent);
    if (p?.execution_id) return;
    assert.ok(i < 1200, `${parent} left nothing for ${key}`);
    await new Promise((r) => setTimeout(r, 50));
  }
}

test("a job shows what it runs after, what is missing, and what runs after it", async () => {
  await job("extract", "Extract the orders");
  await job("load", nasty[0]);
  const report = await job("report", "Report of the day");
  await job("mail", "Mail the report to everybody who asked for it, in every language that they speak");
  await server.api("PUT", "/jobs/key:report/dependencies", { depends_on: ["key:extract", "key:load"] });
  await server.api("PUT", "/jobs/key:mail/dependencies", { depends_on: ["key:report"], condition: "always" });
  await ends("extract");
  await untilToken("report", "extract");
  await everyLook(browser, server.url + "/jobs/" + report.job_id, "job-dependencies", async (page) => {
    const panel = page.getByRole("region", { name: "Dependencies" });
    await panel.getByText("Runs each time that all of these have succeeded; 1 is missing.").waitFor();
    await panel.locator("li", { hasText: "Extract the orders" }).getByText("Ended").waitFor();
    await panel.locator("li", { hasText: nasty[0] }).getByText("Missing").waitFor();
    await panel.getByRole("link", { name: /Mail the report/ }).waitFor();
    await page.getByText("After 2 others").waitFor();
    await unharmed(page);
  });
  // What is copied as a file says it, too, and no more: a file without it would remove the dependencies.
  const definition = await visit(browser, server.url + "/jobs/" + report.job_id + "?tab=definition");
  await definition.getByText("- extract").waitFor();
  assert.equal((await definition.locator("#main").innerText()).includes(report.job_id), false);
  await definition.getByRole("button", { name: "JSON" }).click();
  await definition.getByText('"schedule"').waitFor();
  assert.equal((await definition.locator("#main").innerText()).includes("depends_on"), false, "POST /jobs takes no dependencies");
  await sound(definition);
  await definition.context().close();
  // It is live: what the others leave is shown, and gone when the job has run by it.
  const page = await visit(browser, server.url + "/jobs/" + report.job_id);
  const panel = page.getByRole("region", { name: "Dependencies" });
  await panel.getByText("1 is missing").waitFor();
  await ends("load");
  await panel.getByText("2 are missing").waitFor();
  await sound(page);
  await page.context().close();
});

test("an operator has a job run after others, found by their names, and takes them out again", async () => {
  const a = await job("first", "First of all");
  await job("second", "Second of all");
  const child = await job("last", "Last of all");
  const page = await visit(browser, server.url + "/jobs/" + child.job_id);
  await page.waitForSelector("h1:has-text('Last of all')");
  assert.equal(await page.getByRole("region", { name: "Dependencies" }).count(), 0);
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Run after others…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("It depends on nothing.").waitFor();
  assert.equal(await dialog.getByRole("button", { name: "Save" }).isDisabled(), true);
  await page.keyboard.type("of all"); // it has the focus
  await dialog.getByRole("button", { name: "Add First of all" }).waitFor();
  assert.equal(await dialog.getByRole("button", { name: "Add Last of all" }).count(), 0, "a job is offered to itself");
  await dialog.getByRole("button", { name: "Add First of all" }).click();
  await dialog.getByLabel("Add a job").fill("second");
  await dialog.getByRole("button", { name: "Add Second of all" }).click();
  await dialog.getByLabel("When they have").selectOption("always");
  await dialog.getByText("carillon job depend last --on first --on second --condition always").waitFor();
  await settle(page);
  await accessible(page);
  await picture(page, "job-depend-1440-dark");
  await dialog.getByRole("button", { name: "Save" }).click();
  const panel = page.getByRole("region", { name: "Dependencies" });
  await panel.getByText("all of these have ended; 2 are missing").waitFor();
  const set = await on("last");
  assert.deepEqual([set.condition, set.depends_on.map((p) => p.key)], ["always", ["first", "second"]]);

  // A cycle is refused, with its name, and nothing that was chosen is lost.
  const other = await visit(browser, server.url + "/jobs/" + a.job_id);
  await other.getByRole("region", { name: "Dependencies" }).getByRole("button", { name: "Edit…" }).click();
  await other.getByLabel("Add a job").fill("last");
  await other.getByRole("button", { name: "Add Last of all" }).click();
  await other.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await other.getByRole("dialog").getByText("first → last → first", { exact: true }).waitFor();
  await forgive(other, /status of 422/);
  await other.getByRole("button", { name: "Remove Last of all" }).waitFor();
  await sound(other);
  await other.context().close();

  // What somebody else has changed is not overwritten.
  await panel.getByRole("button", { name: "Edit…" }).click();
  await dialog.getByRole("button", { name: "Remove First of all" }).click();
  await server.api("PATCH", "/jobs/key:last", { priority: 3 });
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByText(/someone else changed it/).waitFor();
  await forgive(page, /status of 412/);
  await page.reload();
  await panel.getByRole("button", { name: "Edit…" }).click();
  await dialog.getByRole("button", { name: "Remove First of all" }).click();
  await dialog.getByRole("button", { name: "Remove Second of all" }).click();
  await dialog.getByText("carillon job depend last --none").waitFor();
  await dialog.getByRole("button", { name: "Remove all" }).click();
  await page.waitForSelector("dialog", { state: "detached" });
  await panel.waitFor({ state: "detached" });
  assert.deepEqual((await on("last")).depends_on, []);
  await sound(page);
  await page.context().close();
});

test("an execution that waits says which jobs are missing", async () => {
  await job("there", "There already");
  await job("away", "Away still");
  const child = await job("due", "Due by its own schedule", { schedule: { type: "INTERVAL", every: "1s" } });
  await server.api("PUT", "/jobs/key:due/dependencies", { depends_on: ["key:there", "key:away"] });
  await ends("there");
  await untilToken("due", "there");
  let e;
  for (let i = 0; !e; i++) {
    e = (await server.api("GET", `/executions?job_id=${child.job_id}&status=WAITING`)).executions[0];
    assert.ok(i < 1200, "nothing waits");
    await new Promise((r) => setTimeout(r, 50));
  }
  await everyLook(browser, server.url + "/executions/" + e.execution_id, "execution-waits-for-parents", async (page) => {
    const why = page.getByRole("region", { name: "Why it waits" });
    await why.getByText("WAITING_FOR_PARENTS").waitFor();
    await why.locator(".execution-summary", { hasText: "away" }).waitFor();
    assert.ok(!(await why.innerText()).includes("there"), "it names a job that has ended");
    await why.getByRole("link", { name: "Due by its own schedule" }).waitFor();
  });
});

test("a viewer sees dependencies and cannot change them", async () => {
  const only = await job("seen", "Seen by all");
  await job("before-seen", "Before it");
  await server.api("PUT", "/jobs/key:seen/dependencies", { depends_on: ["key:before-seen"] });
  const page = await visit(browser, server.url + "/jobs/" + only.job_id, {
    prepare: (p) => p.route("**/api/v1/session", (r) => r.fulfill({ json: { tenant_id: "default", role: "viewer", name: "ann", key_id: "k1", kind: "cookie", signed_in_at: new Date().toISOString(), idle_expires_at: null, expires_at: null } })),
  });
  const panel = page.getByRole("region", { name: "Dependencies" });
  await panel.getByText("Runs each time that this job has succeeded.").waitFor();
  assert.equal(await panel.getByRole("button").count(), 0);
  await sound(page);
  await page.context().close();
});
