// The forecast: what comes, as drawings and as tables, and herds that are taken apart.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, everyLook, forgive, launch, nasty, serve, settle, sound, unharmed, visit } from "./harness.mjs";
import { seedLoad } from "./busy.mjs";

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([serve(), launch()]);
  await seedLoad(server);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test("the forecast looks right for a day", () => everyLook(browser, server.url + "/forecast", "forecast", (p) => p.waitForSelector("h2:has-text('Herds')")));

test("a week and a month look right", async () => {
  for (const hours of [168, 720]) await everyLook(browser, server.url + "/forecast?hours=" + hours, "forecast-" + hours, (p) => p.waitForSelector("h2:has-text('Herds')"));
});

test("the forecast of a month, of a week and of a day, as tables, and exported", async () => {
  const page = await visit(browser, server.url + "/forecast?hours=720", { theme: "light" });
  await page.waitForSelector("text=will fire in the next 30 d");
  await page.click("button:has-text('7 d')");
  await page.waitForURL("**/forecast?hours=168");
  await page.waitForSelector("text=will fire in the next 7 d");
  await page.click("button:has-text('24 h')");
  await page.waitForSelector("text=will fire in the next 24 h");
  for (const name of ["Upcoming load", "Busiest minutes and worker capacity", "By time of day"]) {
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
  await page.waitForSelector("h2:has-text('Excluded by calendars')");
  const said = await page.locator("section[aria-label='Excluded by calendars']").innerText();
  assert.match(said, /weekends\s+\d{4}-\d\d-\d\d 23:00 to \d{4}-\d\d-\d\d 23:00/); // Europe/Berlin in winter, told in UTC
  await page.context().close();
});

// at has a page believe that it is some time by the server's clock.
const at = (now) => async (page) => {
  await page.route("**/api/v1/**", async (r) => {
    if (/events\/stream/.test(r.request().url())) return r.continue();
    const got = await r.fetch();
    await r.fulfill({ response: got, headers: { ...got.headers(), date: new Date(now).toUTCString() } });
  });
};

test("where clocks change, a day is a column and a time of day a row, before and behind it", async () => {
  const now = Date.parse("2027-03-20T11:00:00Z"); // on the 28th clocks in Berlin go forward
  const days = Array.from({ length: 29 }, (_, i) => ({ at: new Date(Date.parse("2027-03-21T02:00:00Z") + i * 86_400_000 - (i > 6 ? 3_600_000 : 0)).toISOString(), count: 7 })); // 03:00 in Berlin, each day
  const page = await visit(browser, server.url + "/forecast?hours=720", {
    prepare: async (p) => {
      await at(now)(p);
      await p.route("**/api/v1/forecast*", (r) => r.fulfill({ headers: { date: new Date(now).toUTCString() }, json: { minutes: days, herds: [], truncated: false } }));
    },
  });
  const map = page.locator("figure", { hasText: "Upcoming load" });
  const box = await map.locator("canvas").boundingBox();
  const [columns, left, body] = [31, 66, 96 * 3 + 12]; // from the 20th to the 19th
  const look = async (day, row) => {
    await page.mouse.move(box.x + left + ((day + 0.5) * (Math.floor(box.width) - left)) / columns, box.y + ((row + 0.5) * body) / 96);
    return map.locator(".legend").innerText();
  };
  assert.match(await look(1, 12), /2027-03-21 03:00: 7 /);
  assert.match(await look(8, 12), /2027-03-28 03:00: 7 /);
  assert.match(await look(9, 12), /2027-03-29 03:00: 7 /);
  assert.match(await look(29, 12), /2027-04-18 03:00: 7 /);
  assert.match(await look(9, 8), /2027-03-29 02:00: 0 /);
  await page.locator("figure", { hasText: "By time of day" }).getByText("the busiest ten minutes start at 03:00").waitFor();
  await sound(page);
  await page.context().close();
});

test("a window before a day that is left out stays a stretch of its own", async () => {
  const now = Date.parse("2027-03-20T11:00:00Z");
  const page = await visit(browser, server.url + "/forecast?hours=720&tz=utc", {
    prepare: async (p) => {
      await at(now)(p);
      await p.route("**/api/v1/calendars*", (r) =>
        r.fulfill({ json: { calendars: [{ name: "rests", timezone: "Europe/Berlin", weekdays: ["WED"], dates: [], yearly: [], windows: [{ from: "2027-04-01T08:00", to: "2027-04-01T10:00" }, { from: "2027-03-22T08:00", to: "2027-03-22T10:00" }, { from: "2027-03-22T09:00", to: "2027-03-22T11:00" }] }], pagination: { limit: 200, total: 1, next_cursor: null } } }),
      );
    },
  });
  const said = await page.locator("section[aria-label='Excluded by calendars'] .forecast-days").innerText();
  const want = ["2027-03-22 07:00 to 2027-03-22 10:00", "2027-03-23 23:00 to 2027-03-24 23:00", "2027-03-30 22:00 to 2027-03-31 22:00", "2027-04-01 06:00 to 2027-04-01 08:00"];
  assert.deepEqual(said.split("\n").map((l) => l.trim()).filter(Boolean).slice(0, 4), want);
  await sound(page);
  await page.context().close();
});

test("herds are spread, looked at, applied and put back; what someone else changed is left as it is", async () => {
  const page = await visit(browser, server.url + "/forecast");
  await page.click("button:has-text('Suggest how')");
  await page.waitForSelector("text=The busiest minute would have");
  await accessible(page);
  const { spread } = await server.api("GET", "/forecast?hours=24&spread=true");
  const [kept, other, moved, back] = spread.jobs;
  assert.ok(back, "there are fewer than four to move");
  const cron = async (m) => (await server.api("GET", "/jobs/" + m.job_id)).schedule.cron_expression;
  const box = (name) => page.locator("section[aria-label='Spread these']").getByRole("checkbox", { name, exact: true });
  await box("All of them").click();
  for (const m of [other, moved, back]) await box("Move " + m.name).click();
  await page.click("button:has-text('Move 3 jobs…')");
  await server.api("PATCH", "/jobs/" + other.job_id, { schedule: { cron_expression: "1 2 3 4 *" } });
  assert.equal(await page.locator("dialog button:has-text('Move them')").isDisabled(), true);
  await page.click("dialog .check input");
  await page.click("dialog button:has-text('Move them')");
  await page.waitForSelector("dialog >> text=2 moved, 1 not.");
  await page.waitForSelector("dialog .error >> text=1 2 3 4 *");
  assert.deepEqual([await cron(kept), await cron(other), await cron(moved), await cron(back)], [kept.before, "1 2 3 4 *", moved.after, back.after]);
  await server.api("PATCH", "/jobs/" + moved.job_id, { schedule: { cron_expression: "4 3 2 1 *" } });
  await page.click("dialog button:has-text('Put them back')");
  await page.waitForSelector(".toast:has-text('1 could not be restored')");
  await forgive(page, /status of 412/);
  assert.deepEqual([await cron(moved), await cron(back)], ["4 3 2 1 *", back.before]);
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
