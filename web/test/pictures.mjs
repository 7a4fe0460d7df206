// The pictures in the docs: screens of a server that has some things to do, dark and light, made small. What takes a day or
// a year to come about (series, strips of executions, the calendar of a job) is told by fakes.mjs; all else is real.
//
//   make pictures
//   make pictures ARGS="now job"      only these, beside the others

import assert from "node:assert/strict";
import { mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { busy } from "./fakes.mjs";
import { launch, serve, settle, sound, visit } from "./harness.mjs";
import { small } from "./png.mjs";
import { byKind, hand, until } from "./seed.mjs";

const to = join(dirname(fileURLToPath(import.meta.url)), "../../docs/pictures");
const [server, browser] = await Promise.all([serve("--demo"), launch()]);
try {
  const made = await seed();
  const only = process.argv.slice(2);
  if (only.length === 0) rmSync(to, { recursive: true, force: true });
  mkdirSync(to, { recursive: true });
  const screens = {
    now: { path: "/", ready: "text=Jobs to look at" },
    jobs: { path: "/jobs", ready: "tbody tr" },
    job: { path: "/jobs/" + made.job, ready: "text=The past year", height: 1240 },
    execution: { path: "/executions/" + made.execution, ready: "figcaption:has-text('attempts')" },
    "dead-letters": { path: "/dead-letters", ready: "tbody tr" },
    forecast: { path: "/forecast?hours=168", ready: "h2:has-text('Herds')", height: 1240 },
  };
  const wanted = (name) => only.length === 0 || only.includes(name);
  for (const [name, s] of Object.entries(screens)) for (const theme of wanted(name) ? ["dark", "light"] : []) await shoot(name, s, theme, 1440, s.height ?? 900);
  if (wanted("now-narrow")) await shoot("now-narrow", screens.now, "dark", 390, 844);
  const files = readdirSync(to);
  const bytes = files.reduce((n, f) => n + statSync(join(to, f)).size, 0);
  console.log(`${files.length} pictures, ${Math.round(bytes / 1024)} KiB, in docs/pictures`);
  assert.ok(bytes < 1.5 * 1024 * 1024, "they are too large for a repository");
} finally {
  await browser.close();
  await server.stop();
}

async function shoot(name, { path, ready }, theme, width, height) {
  const page = await visit(browser, server.url + path, { width, height, theme, prepare: async (p) => (await busy(p), await old(p)) });
  await page.waitForSelector(ready);
  await page.waitForSelector(".dot.live");
  await settle(page);
  await page.waitForTimeout(600); // plots draw themselves when their width is known
  await sound(page);
  writeFileSync(join(to, `${name}-${theme}.png`), small(await page.screenshot()));
  await page.context().close();
}

// old gives jobs the numbers of a year, as their strips have them.
function old(page) {
  return page.route(/\/api\/v1\/jobs(\/[0-9a-f-]{36})?(\?.*)?$/, async (route) => {
    if (route.request().method() !== "GET") return route.continue();
    const r = await route.fetch();
    const told = await r.json();
    const age = (j, i = 3) => ({ ...j, schedule: { ...j.schedule, last_run_at: new Date(Date.now() - 22 * 3_600_000).toISOString() }, stats: { ...j.stats, last_status: "SUCCEEDED", total_runs: 365 * (1 + (i % 5)), success_rate: 1 - ((i * 7) % 5) / 100, avg_duration_ms: 180 + 90 * (i % 7), p95_duration_ms: 420 + 260 * (i % 6) } });
    await route.fulfill({ response: r, json: told.jobs ? { ...told, jobs: told.jobs.map(age) } : age(told) });
  });
}

// seed makes a small company's jobs, some of which have failed, and one execution with a story.
async function seed() {
  const cron = (cron_expression, timezone = "Europe/Berlin") => ({ type: "CRON", cron_expression, timezone });
  // Of the demonstration only its echo is wanted.
  for (const j of (await server.api("GET", "/jobs?tag=demo")).jobs) await server.api("DELETE", "/jobs/" + j.job_id);
  const works = { target: "simulate", work_kind: "sleep", duration_ms: 40 };
  const echo = (payload = {}) => ({ target: "http", callback_url: server.url + "/demo/echo", payload });
  const jobs = [
    ["Invoices for the day", cron("0 2 * * *"), "billing", ["billing", "nightly"], "Writes an invoice for every order that was shipped."],
    ["Reminders of unpaid invoices", cron("30 9 * * MON-FRI"), "billing", ["billing", "mail"], "Second and third reminders; never on a holiday."],
    ["Close the books", cron("0 3 1 * *"), "billing", ["billing", "monthly"], "Sums up the month for accounting."],
    ["Import orders, south", cron("*/5 * * * *"), "warehouse", ["import", "south"], "Reads what the southern warehouse has put into its folder."],
    ["Import orders, north", cron("*/5 * * * *"), "warehouse", ["import", "north"], "Reads what the northern warehouse has put into its folder."],
    ["Stock levels to the shop", cron("*/15 * * * *"), "warehouse", ["sync"], "Tells the shop what can be sold."],
    ["Newsletter", cron("0 10 * * TUE"), "marketing", ["mail"], "To everyone who asked for it."],
    ["Abandoned baskets", cron("0 * * * *"), "marketing", ["mail"], "A friendly word an hour later."],
    ["Search index", cron("*/10 * * * *"), "shop", ["search"], "Puts new products into the index."],
    ["Thumbnails", cron("*/15 * * * *"), "shop", ["images"], "Makes small pictures of new ones."],
    ["Exchange rates", cron("0 17 * * MON-FRI"), "billing", ["import"], "From the central bank."],
    ["Sitemap", cron("0 4 * * *"), "shop", ["search", "nightly"], "For search engines."],
    ["Sales of yesterday", cron("0 6 * * *"), "reports", ["reports", "nightly"], "Ready when people come in."],
    ["Sales of the week", cron("0 6 * * MON"), "reports", ["reports"], "For the meeting on Monday."],
    ["Dashboard figures", cron("0 * * * *"), "reports", ["reports"], "Hourly numbers for the wall."],
    ["Certificates", cron("0 0 * * *", "UTC"), "platform", ["nightly", "ops"], "Renews what ends within 30 days."],
    ["Backup of the shop", cron("0 0 * * *", "UTC"), "platform", ["nightly", "ops", "backup"], "To another region, and read back."],
    ["Rotate logs", cron("0 0 * * *", "UTC"), "platform", ["nightly", "ops"], "Keeps 30 days."],
    ["Purge old sessions", cron("0 0 * * *", "UTC"), "platform", ["nightly", "ops"], "Those that ended a day ago."],
    ["Vacuum of the warehouse database", cron("0 0 * * SUN", "UTC"), "platform", ["ops"], "While nobody works."],
    ["Fraud scores", cron("*/2 * * * *"), "risk", ["risk"], "Of orders that wait for payment."],
    ["Sanctions lists", cron("0 5 * * *"), "risk", ["risk", "import"], "Three lists, compared with all customers."],
  ];
  const ids = {};
  await server.api("PUT", "/calendars/holidays", { yearly: ["01-01", "05-01", "12-25", "12-26"], timezone: "Europe/Berlin" });
  await server.api("PUT", "/calendars/weekends", { weekdays: ["SAT", "SUN"], timezone: "Europe/Berlin" });
  const more = { "Invoices for the day": { key: "invoices", runbook: "Look whether the order service answers; then run it again with the day in its payload." } };
  const queue = (tags) => (tags.includes("mail") ? "mail" : tags.includes("reports") ? "reports" : "default");
  await server.api("POST", "/jobs:batch", jobs.map(([name, schedule, owner, tags, description]) => ({ name, schedule: owner === "billing" ? { ...schedule, calendar: "holidays" } : schedule, owner, tags, description, queue: queue(tags), execution: owner === "billing" ? { target: "http", callback_url: "https://billing.example/run", payload: { kind: name } } : works, ...more[name] })));
  const partners = {
    "Orders to the carrier": ["shipping", echo({ status: 503 }), 6],
    "Customers to the CRM": ["sync", { target: "http", callback_url: server.url + "/crm/customers", payload: {} }, 3],
    "Print labels": ["shipping", { target: "http", callback_url: "http://127.0.0.1:9/labels", payload: {} }, 2],
    "Resize pictures": ["images", { target: "simulate", work_kind: "fail_permanent", duration_ms: 30 }, 2],
  };
  for (const [name, [tag, execution]] of Object.entries(partners)) await server.api("POST", "/jobs", { name, owner: "shop", tags: [tag], schedule: cron("20 */4 * * *"), retry_policy: { max_retries: 0 }, execution });
  const again = { max_retries: 3, backoff: "FIXED", initial_delay_ms: 1000, max_delay_ms: 1000 };
  await server.api("POST", "/jobs", { name: "Import orders of the partner", owner: "warehouse", tags: ["import"], schedule: cron("40 */2 * * *"), execution: { ...byKind("import"), payload: { file: "orders-2026-11-16.csv", rows: 1200 } }, retry_policy: again });
  for (const j of (await server.api("GET", "/jobs?limit=200")).jobs) ids[j.name] = j.job_id;
  for (const [name, , owner] of jobs) if (owner !== "billing") await server.api("POST", `/jobs/${ids[name]}/trigger`, {});
  await server.api("POST", `/jobs/${ids["Newsletter"]}/pause`, { reason: "The new design is not ready yet." });

  // What has failed for good, for reasons of several kinds.
  for (const [name, [, execution, n]] of Object.entries(partners))
    for (let i = 0; i < n; i++) {
      const t = await server.api("POST", `/jobs/${ids[name]}/trigger`, execution.payload ? { payload_override: { ...execution.payload, order: 7100 + i } } : {});
      await until(server, t.execution_id, "FAILED");
    }

  // One that failed, was handed back, was answered by the one that had lost it, and succeeded.
  const worker = await hand(server, "import");
  const { execution_id: execution } = await server.api("POST", `/jobs/${ids["Import orders of the partner"]}/trigger`, {});
  const wait = (ms) => new Promise((r) => setTimeout(r, ms));
  const first = await worker.claim();
  await worker.log(first, ["opened orders-2026-11-16.csv", "could not connect to db-7: connection refused"]);
  await wait(700);
  await worker.complete(first, { status: "FAILED", error: { type: "HANDLER_ERROR", message: "could not connect to db-7: connection refused" }, retryable: true });
  const second = await worker.claim();
  await wait(500);
  await worker.release(second);
  const third = await worker.claim();
  await worker.log(third, ["opened orders-2026-11-16.csv", "1200 rows imported"]);
  await wait(400);
  await worker.complete(second, { status: "SUCCEEDED", result: { rows: 640 } });
  await wait(900);
  await worker.complete(third, { status: "SUCCEEDED", result: { rows: 1200 } });
  await until(server, execution, "SUCCEEDED");
  return { job: ids["Invoices for the day"], execution };
}
