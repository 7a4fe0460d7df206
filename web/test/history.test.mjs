// History: where finished executions are, what moves, and what a check of the files finds.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { everyLook, launch, nasty, serve, settle, sound, unharmed, visit } from "./harness.mjs";

let server, plain, browser;
before(async () => {
  [server, plain, browser] = await Promise.all([serve("--archive-url", "file:history"), serve(), launch()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
  await plain?.stop();
});

const day = (i) => new Date(Date.UTC(2026, 10, 11) - i * 86_400_000).toISOString().slice(0, 10);
const days = (n) => Array.from({ length: n }, (_, i) => ({ day: day(i), settled: i > 0, files: 2 + (i % 3), executions: 1_240_000 - 3011 * i, log_lines: 8_310_442 - 20_001 * i, bytes: 97_000_000 - 410_000 * (i % 90) }));
const state = (more) => ({
  place: "s3://history/carillon", layout: "shared", hot_days: 7, lag_seconds: 0, checked_at: new Date(Date.now() - 240_000).toISOString(), overdue_since: null, moving: null,
  moved: 98_765_432, error: null, foreign_files: [], days: days(150), ...more,
});
const answer = (p, path, json) => p.route("**/api/v1/admin/archive" + path, (r) => r.fulfill({ json: typeof json === "function" ? json(r) : json }));
const open = (json, more) => visit(browser, server.url + "/admin/history", { ...more, prepare: (p) => answer(p, "", json) });

test("without an archive it says where history is, and how to have it elsewhere", () =>
  everyLook(browser, plain.url + "/admin/history", "history-none", (p) => p.waitForSelector("text=All history is in the database"), { prepare: (p) => void (p.expects = /status of 409/) }));

test("an archive to which nothing has moved, and one that is asked to look", async () => {
  const page = await visit(browser, server.url + "/admin/history");
  await page.waitForSelector("text=Nothing has moved yet");
  assert.match(await page.locator(".facts").innerText(), /In the archive\s+nothing yet[\s\S]*Place\s+file:.*history tenants share files/);
  await page.getByRole("button", { name: "Move what is due" }).click();
  await page.waitForSelector("text=A server is looking for what is due");
  await page.waitForFunction(() => !/Last looked\s+never/.test(document.querySelector(".facts").innerText));
  await sound(page);
  await page.context().close();
});

test("a year of days, in every look", () => everyLook(browser, server.url + "/admin/history", "history", undefined, { prepare: (p) => answer(p, "", state({ days: days(365) })) }));

test("an archive that fails, moves and has foreign files, in every look", () =>
  everyLook(browser, server.url + "/admin/history", "history-failing", (p) => p.locator("summary").click(), {
    prepare: (p) =>
      answer(p, "", state({
        error: "2026-11-10: put executions/year=2026/month=11/day=10/part-0000.parquet: s3://history/carillon cannot be reached: dial tcp 10.0.7.12:9000: connect: connection refused", overdue_since: "2026-11-10", lag_seconds: 190_000,
        moving: { day: "2026-11-10", step: "write", rows: 412_000 }, foreign_files: ["executions/year=2026/month=11/day=09/part-0007.parquet", "notes.txt"],
      })),
  }));

test("days come a page at a time, and back goes back", async () => {
  const page = await open(state());
  await settle(page);
  const names = () => page.locator("tbody .name").allInnerTexts();
  assert.deepEqual(await names(), days(60).map((d) => d.day));
  await page.getByRole("button", { name: "Next page" }).click();
  await page.waitForFunction((d) => document.querySelector("tbody .name")?.textContent === d, day(60));
  await page.getByRole("button", { name: "Next page" }).click();
  await page.waitForFunction((d) => document.querySelector("tbody .name")?.textContent === d, day(120));
  assert.equal((await names()).length, 30);
  assert.equal(await page.getByRole("button", { name: "Next page" }).count(), 0);
  await page.getByRole("button", { name: "Back" }).click();
  await page.waitForFunction((d) => document.querySelector("tbody .name")?.textContent === d, day(60));
  await sound(page);
  await page.context().close();
});

test("a check of the files goes on to the end, and names what is wrong", async () => {
  const page = await open(state());
  const asked = [];
  const file = "executions/year=2026/month=11/day=09/part-0000.parquet";
  await answer(page, "/verify", (r) => {
    const after = r.request().postDataJSON().after ?? "";
    asked.push(after);
    return after === "" ? { files: 40, bytes: 9, problems: [], next: file } : { files: 2, bytes: 9, problems: [{ file, problem: "its checksum is another" + nasty[0] }], next: "" };
  });
  await page.getByRole("button", { name: "Verify" }).click();
  const panel = page.getByLabel("Are the files intact?");
  await panel.getByText("42 files read.").waitFor();
  assert.deepEqual(asked, ["", file]);
  assert.match(await panel.innerText(), /1 problem[\s\S]*part-0000\.parquet: its checksum is another<script>/);
  await unharmed(page);
  await page.unroute("**/api/v1/admin/archive/verify");
  await answer(page, "/verify", { files: 1, bytes: 9, problems: [], next: "" });
  await page.getByRole("button", { name: "Verify" }).click();
  await panel.getByText("1 file read: it is as it was written.").waitFor();
  await sound(page);
  await page.context().close();
});
