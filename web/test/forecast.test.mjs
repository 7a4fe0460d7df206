// The forecast: what comes, as drawings and as tables, and herds that are taken apart.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, everyLook, launch, nasty, serve, settle, sound, unharmed, visit } from "./harness.mjs";
import { seedLoad } from "./busy.mjs";

let server, browser, jobs;
before(async () => {
  [server, browser] = await Promise.all([serve(), launch()]);
  await seedLoad(server);
  jobs = (await server.api("GET", "/jobs?tag=seed&limit=100")).jobs;
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test("the forecast looks right for a day", () => everyLook(browser, server.url + "/forecast", "forecast", (p) => p.waitForSelector("h2:has-text('Herds')")));

test("the forecast of a month, of a week and of a day, as tables, and exported", async () => {
  const page = await visit(browser, server.url + "/forecast?hours=720", { theme: "light" });
  await page.waitForSelector("text=will fire in the next 30 d");
  await page.click("button:has-text('7 d')");
  await page.waitForURL("**/forecast?hours=168");
  await page.waitForSelector("text=will fire in the next 7 d");
  await page.click("button:has-text('24 h')");
  await page.waitForSelector("text=will fire in the next 24 h");
  for (const name of ["Coming load", "Fullest minutes, and what the workers take", "A day on the clock"]) {
    await page.locator("figure", { hasText: name }).getByRole("button", { name: "Table" }).click();
    await page.waitForSelector(`[aria-label="${name} as a table"]`);
  }
  await accessible(page);
  const [file] = await Promise.all([page.waitForEvent("download"), page.click("button:has-text('Export')").then(() => page.click("[role=menuitem]:has-text('CSV')"))]);
  assert.equal(file.suggestedFilename(), "forecast-24h.csv");
  await page.goBack();
  await page.waitForSelector("text=will fire in the next 7 d");
  await sound(page);
  await page.context().close();
});

test("what a calendar leaves out is drawn where the week-end is", async () => {
  const page = await visit(browser, server.url + "/forecast?hours=168&tz=utc");
  await page.waitForSelector("h2:has-text('Left out by calendars')");
  const said = await page.locator("section[aria-label='Left out by calendars']").innerText();
  assert.match(said, /weekends\s+\d{4}-\d\d-\d\d 23:00 to \d{4}-\d\d-\d\d 23:00/); // Europe/Berlin in winter, told in UTC
  await page.context().close();
});

test("herds are spread, looked at, applied and put back", async () => {
  const herd = jobs.filter((j) => j.schedule.cron_expression === "0 * * * *").slice(0, 3);
  const page = await visit(browser, server.url + "/forecast");
  const moves = herd.map((j, i) => ({ job_id: j.job_id, name: j.name, field: "schedule.cron_expression", before: "0 * * * *", after: `${7 + i} * * * *`, moved: 24 }));
  await page.route(/forecast\?.*spread=true/, async (r) => {
    const real = await (await fetch(server.url + "/api/v1/forecast?hours=24")).json();
    await r.fulfill({ json: { ...real, spread: { peak_before: 45, peak_after: 12, jobs_total: 3, jobs: moves, minutes: real.minutes.map((m) => ({ ...m, count: Math.min(12, m.count) })) } } });
  });
  await page.click("button:has-text('Suggest how')");
  await page.waitForSelector("text=The fullest minute would have 12 instead of 45");
  await accessible(page);
  await page.locator("section[aria-label='Spread these']").getByRole("checkbox", { name: "Move " + herd[2].name, exact: true }).click();
  await page.click("button:has-text('Move 2 jobs…')");
  assert.equal(await page.locator("dialog button:has-text('Move them')").isDisabled(), true);
  await page.click("dialog .check input");
  await page.click("dialog button:has-text('Move them')");
  await page.waitForSelector("dialog >> text=2 moved.");
  const cron = async (i) => (await server.api("GET", "/jobs/" + herd[i].job_id)).schedule.cron_expression;
  assert.equal(await cron(0), "7 * * * *");
  assert.equal(await cron(2), "0 * * * *");
  await page.click("dialog button:has-text('Put them back')");
  await page.waitForSelector(".toast:has-text('as before')");
  assert.equal(await cron(0), "0 * * * *");
  await sound(page);
  await page.context().close();
});

test("names that are markup stay text", async () => {
  await server.api("POST", "/jobs:batch", nasty.flatMap((name) => [1, 2, 3, 4].map(() => ({ name, description: name, tags: [], schedule: { type: "CRON", cron_expression: "0 12 * * *" }, execution: { target: "simulate", work_kind: "noop" } }))));
  for (const path of ["/forecast?hours=24", "/forecast?hours=" + encodeURIComponent(nasty[2])]) {
    const page = await visit(browser, server.url + path);
    await settle(page);
    await page.waitForSelector("h2:has-text('Herds')");
    await unharmed(page);
    await page.context().close();
  }
});
