// Answers of endpoints as they look on a busy installation, for pictures and tests of screens with a lot on them.

const iso = (t) => new Date(t).toISOString();
const noise = (i) => Math.abs(Math.sin(i * 12.9898) * 43758.5453) % 1;

export function overview(now = Date.now()) {
  const last_hour = { started: 4120, succeeded: 3987, failed: 41, timed_out: 3, cancelled: 2, retried: 120, dead: 40, skipped: 1, fired: 3600, within_1s: 3598, within_5s: 3600, average_wait_seconds: 0.02, max_wait_seconds: 0.9, max_delay_seconds: 1.4, success_rate: 0.989 };
  return {
    sentence: "1 of 12,418 schedules late; p99 delay 50 ms; 3 jobs failing.", health: "warning", findings: [{ about: "schedules", health: "warning", text: "1 of 12,418 schedules late" }, { about: "delays", health: "ok", text: "p99 delay 50 ms" }, { about: "failures", health: "warning", text: "3 jobs failing" }], schedules: 12418, schedules_is_estimate: false, paused: 3, late_jobs: 1, late_jobs_is_minimum: false,
    late: [{ job_id: "01a1e5ca-0969-772a-b94a-935a6d97d3b4", name: "Import of orders from the southern warehouse", next_run_at: iso(now - 42_000), late_seconds: 42 }],
    delay: { fired: 3600, within_1s: 3598, within_5s: 3600, p50_seconds: 0.01, p99_seconds: 0.05, max_seconds: 1.4 }, failing_jobs: 3, failing_is_minimum: false,
    failing: ["Nightly report", "Send reminders", "Sync warehouse"].map((name, i) => ({ job_id: "01a1e5ca-0969-772a-b94a-935a6d97d3b" + i, name, last_status: i === 2 ? "TIMED_OUT" : "FAILED", failed_24h: 12 * (i + 1), last_failed_at: iso(now - 60_000 * i), type: i === 2 ? "TIMEOUT" : "HTTP_ERROR", message: ["POST https://carrier.example/v2/orders answered 503 Service Unavailable", "POST https://mail.example/send answered 429 Too Many Requests", "took longer than 30 s"][i] })),
    running: 12, queued: 40, queued_is_minimum: false, oldest_queued_seconds: 1.5, dead_letters: 9, dead_letters_is_estimate: false, workers: 2, last_hour,
  };
}

export function delays(now = Date.now()) {
  const step = 900;
  const to = Math.ceil(now / 1000 / step) * step;
  const bounds = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
  const columns = Array.from({ length: 96 }, (_, i) => {
    const counts = new Array(17).fill(0);
    for (let b = 0; b < 6; b++) counts[b] = Math.floor((900 / 3 ** b) * (0.6 + noise(i * 7 + b)));
    if (i > 60 && i < 64) for (let b = 5; b < 10; b++) counts[b] = Math.floor(200 * noise(i + b));
    return { at: iso((to - (96 - i) * step) * 1000), fired: counts.reduce((a, b) => a + b, 0), within_1s: 0, within_5s: 0, max_seconds: 1, counts };
  });
  return { from: iso((to - 86400) * 1000), to: iso(to * 1000), step_seconds: step, bounds_seconds: bounds, columns, total: { fired: 96 * 1300, within_1s: 96 * 1299, within_5s: 96 * 1300, p50_seconds: 0.01, p95_seconds: 0.02, p99_seconds: 0.05, max_seconds: 14 } };
}

export function queues(now = Date.now()) {
  const step = 300;
  const to = Math.ceil(now / 1000 / step) * step;
  // Little at night, more by day, a heap when the hour strikes, and one hour in which a worker was missing.
  const columns = Array.from({ length: 288 }, (_, i) => {
    const day = 1 - Math.cos((i / 288) * 2 * Math.PI);
    const heap = i > 170 && i < 184 ? 60 : i % 12 < 2 ? 30 : 0;
    const qs = ["default", "mail", "reports"].map((queue, k) => ({ queue, waiting: Math.floor((4 + 10 * day + heap / (k + 1)) * (0.7 + 0.3 * noise(i + k * 31))), running: 3, oldest_seconds: 0.2 + heap / 20 + 0.3 * noise(i) }));
    return { at: iso((to - (288 - i) * step) * 1000), waiting: qs.reduce((a, q) => a + q.waiting, 0), running: 9, oldest_seconds: qs[0].oldest_seconds, queues: qs };
  });
  return { from: iso((to - 86400) * 1000), to: iso(to * 1000), step_seconds: step, queues: ["default", "mail", "reports"], columns };
}

export function failures(now = Date.now()) {
  const groups = [
    ["HTTP_ERROR", "POST https://<host>/v<n>/orders answered <n> Service Unavailable", "POST https://carrier.example/v2/orders answered 503 Service Unavailable", 30, 60],
    ["TIMEOUT", "took longer than <n> s", "took longer than 30 s", 8, 44],
    ["CONNECTION_REFUSED", "dial tcp <addr>: connect: connection refused", "dial tcp 10.0.7.12:5432: connect: connection refused", 3, 16],
  ].map(([type, message, sample_message, failed, retried], i) => ({ fingerprint: "9f86d081884c7d6" + i, type, message, sample_message, failed, retried, first_seen: iso(now - 3_600_000), last_seen: iso(now - 30_000 * (i + 1)), sample_execution_id: "01a1e5ca-0969-772a-b94a-935a6d97d3b4", sample_job_id: "01a1e5ca-0969-772a-b94a-935a6d97d3b4", jobs: [{ job_id: "01a1e5ca-0969-772a-b94a-935a6d97d3b4", name: "Nightly report", failed, retried }, { job_id: "01a1e5ca-0969-772a-b94a-935a6d97d3b5", name: "Send reminders", failed: 1, retried: 2 }], jobs_total: 7 - i * 3, text: "answered" }));
  return { from: iso(now - 86_400_000), to: iso(now), failed: 41, retried: 120, partial: false, groups };
}

export function runs(ids) {
  return {
    jobs: ids.map((job_id, k) => ({
      job_id, total_runs: 512, success_rate: 0.98, avg_duration_ms: 40, p95_duration_ms: 120, last_status: "SUCCEEDED",
      runs: Array.from({ length: k % 4 === 3 ? 7 : 30 }, (_, i) => {
        const n = noise(i + k * 17);
        const status = i === 0 && k % 2 ? "RUNNING" : n > 0.93 ? "FAILED" : n > 0.9 ? "SKIPPED" : n > 0.87 ? "TIMED_OUT" : "SUCCEEDED";
        return { execution_id: `01a1e5ca-0969-772a-b94a-9${String(k * 100 + i).padStart(11, "0")}`, status, scheduled_time: iso(Date.now() - i * 60_000), started_at: null, duration_ms: status === "RUNNING" || status === "SKIPPED" ? null : Math.floor(20 + 400 * noise(i * 3 + k)) };
      }),
    })),
  };
}

export function calendar(job_id, now = Date.now()) {
  const to = Math.floor(now / 86_400_000 + 1) * 86_400_000;
  const days = Array.from({ length: 365 }, (_, i) => {
    const n = noise(i);
    return { date: iso(to - (365 - i) * 86_400_000).slice(0, 10), succeeded: Math.floor(1440 * (0.5 + n / 2)), failed: n > 0.95 ? 12 : 0, timed_out: 0, cancelled: 0, skipped: n > 0.9 && n < 0.93 ? 3 : 0, late: n < 0.04 ? 5 : 0 };
  }).filter((_, i) => i > 120);
  const total = days.reduce((t, d) => ({ succeeded: t.succeeded + d.succeeded, failed: t.failed + d.failed, timed_out: 0, cancelled: 0, skipped: t.skipped + d.skipped, late: t.late + d.late }), { succeeded: 0, failed: 0, timed_out: 0, cancelled: 0, skipped: 0, late: 0 });
  return { job_id, from: iso(to - 366 * 86_400_000).slice(0, 10), to: iso(to).slice(0, 10), total, days };
}

export function revisions() {
  return {
    revisions: [
      { revision: 3, at: iso(Date.now() - 3_600_000), by: "ann", role: "operator", action: "job.update", current: true, changes: [{ field: "schedule.cron_expression", before: "0 2 * * *", after: "30 2 * * MON-FRI" }, { field: "execution.payload", before: { n: 1 }, after: { n: 2, deep: [1, 2, 3] } }], spec: {}, status: "ACTIVE" },
      { revision: 2, at: iso(Date.now() - 86_400_000), by: "ben", role: "admin", action: "job.pause", current: false, changes: [{ field: "status", before: "ACTIVE", after: "PAUSED" }], spec: {}, status: "PAUSED" },
      { revision: 1, at: iso(Date.now() - 9 * 86_400_000), by: null, role: null, action: null, current: false, changes: null, spec: {}, status: "ACTIVE" },
    ],
    pagination: { limit: 20, total: 3, next_cursor: null },
  };
}

/** busy has a page see a busy installation in place of what its server tells. */
export async function busy(page) {
  const answer = (make) => (route) => route.fulfill({ status: 200, contentType: "application/json", body: JSON.stringify(make(new URL(route.request().url()))) });
  await page.route("**/api/v1/overview", answer(() => overview()));
  await page.route("**/api/v1/series/delays*", answer(() => delays()));
  await page.route("**/api/v1/series/queues*", answer(() => queues()));
  await page.route("**/api/v1/failures*", answer(() => failures()));
  await page.route("**/api/v1/jobs:runs*", answer((u) => runs(u.searchParams.get("ids").split(","))));
  await page.route("**/api/v1/jobs/*/calendar*", answer((u) => calendar(u.pathname.split("/")[4])));
  await page.route("**/api/v1/jobs/*/revisions*", answer(() => revisions()));
}
