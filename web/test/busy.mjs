// What the tests of executions and dead letters start from: jobs that end in every way, made by the API and by a worker of our own.

import assert from "node:assert/strict";

const once = { max_retries: 1, backoff: "FIXED", initial_delay_ms: 1000, max_delay_ms: 1000 };

/** run makes a job that runs at once, and gives its execution back. */
export async function run(server, job) {
  const j = await server.api("POST", "/jobs", { retry_policy: once, ...job });
  return j.execution_id;
}

/** until waits for an execution to be in one of the states. */
export async function until(server, id, ...states) {
  for (let i = 0; i < 300; i++) {
    const e = await server.api("GET", "/executions/" + id);
    if (states.includes(e.status)) return e;
    await new Promise((r) => setTimeout(r, 50));
  }
  assert.fail(`execution ${id} is not ${states.join(" or ")}`);
}

export const sleep = (ms) => ({ target: "simulate", work_kind: "sleep", duration_ms: ms });
export const fails = { target: "simulate", work_kind: "fail_permanent", duration_ms: 5 };

/** Hand is a worker that does as the test says. */
export async function hand(server, kind) {
  const w = await server.api("POST", "/workers", { host: "by-hand", version: "test", targets: ["worker"], kinds: [kind], capacity: 10 });
  const api = async (method, path, body) => {
    const r = await fetch(`${server.url}/api/v1/workers/${w.worker_id}${path}`, { method, headers: { "Content-Type": "application/json", "X-Worker-Session": w.session }, body: JSON.stringify(body) });
    const text = await r.text();
    assert.ok(r.ok, `${path}: ${r.status} ${text}`);
    return JSON.parse(text);
  };
  return {
    id: w.worker_id,
    claim: async () => (await api("POST", "/claim", { max: 1, wait_seconds: 10 })).attempts[0],
    release: (a) => api("POST", "/release", { executions: [{ execution_id: a.execution_id, fencing_token: a.fencing_token }] }),
    beat: (a, progress) => api("POST", "/beat", { executions: [{ execution_id: a.execution_id, fencing_token: a.fencing_token, progress }] }),
    log: (a, lines) => api("POST", "/logs", { execution_id: a.execution_id, fencing_token: a.fencing_token, lines: lines.map((l) => (typeof l === "string" ? { stream: "log", text: l, at: new Date().toISOString() } : { at: new Date().toISOString(), ...l })) }),
    complete: (a, outcome) => api("POST", "/complete", { outcomes: [{ execution_id: a.execution_id, fencing_token: a.fencing_token, ...outcome }] }),
  };
}

export const byKind = (kind) => ({ target: "worker", kind });

// Data for tests of screens that show many things: schedules that come together, queues, limits, keys and the rest.

/** seedLoad makes schedules, some of them herds, and queues with work. */
export async function seedLoad(server, n = 60) {
  const jobs = [];
  for (let i = 0; i < n; i++)
    jobs.push({
      name: `report ${i} for team ${i % 7}`, tags: ["seed"], queue: ["default", "mail", "reports"][i % 3],
      schedule: { type: "CRON", cron_expression: i % 4 === 0 ? "0 0 * * *" : i % 4 === 1 ? "0 * * * *" : i % 4 === 2 ? "*/15 * * * *" : `${(i * 7) % 60} ${i % 24} * * *`, timezone: "Europe/Berlin" },
      execution: { target: "simulate", work_kind: "noop" },
    });
  await server.api("POST", "/jobs:batch", jobs);
  const now = [];
  for (let i = 0; i < 40; i++) now.push({ name: `work ${i}`, queue: ["default", "mail"][i % 2], execution: { target: "simulate", work_kind: i % 9 === 0 ? "fail_permanent" : "sleep", ...(i % 9 === 0 ? {} : { duration_ms: 300 + ((i * 137) % 2500) }) } });
  await server.api("POST", "/jobs:batch", now);
  await server.api("PUT", "/limits/queues/mail", { max_concurrent: 2 });
  await server.api("PUT", "/limits/queues/reports", { rate_limit: { count: 10, per: "1s" } });
  await server.api("PUT", "/limits/tenant", { max_concurrent: 100 });
  await server.api("PUT", "/calendars/weekends", { weekdays: ["SAT", "SUN"], timezone: "Europe/Berlin" });
  await server.api("PUT", "/calendars/holidays", { yearly: ["12-25", "12-26"], dates: ["2026-12-31"], windows: [{ from: "2026-12-24T18:00", to: "2026-12-27" }] });
}

/** seedAdmin makes some of everything that administration keeps. */
export async function seedAdmin(server) {
  const t = await server.api("POST", "/tenants", { name: "Acme Industries", tier: "pro" });
  await server.api("PATCH", "/tenants/" + t.tenant_id, { quotas: { active_jobs: 50, requests_per_second: -1 } });
  await server.api("POST", "/tenants", { name: "Small Shop", tier: "free" });
  await server.api("POST", "/api-keys", { name: "ci", role: "operator" });
  await server.api("POST", "/api-keys", { name: "grafana", role: "viewer", expires_at: new Date(Date.now() + 30 * 86_400_000).toISOString() });
  const k = await server.api("POST", "/api-keys", { name: "old laptop", role: "admin" });
  await server.api("DELETE", "/api-keys/" + k.key_id);
  await server.api("PUT", "/secrets/api-token", { value: "correct horse battery staple" });
  await server.api("PUT", "/secrets/smtp-password", { value: "hunter2" });
  await server.api("PUT", "/secrets/smtp-password", { value: "hunter3" });
  await server.api("POST", "/signing-secrets", { overlap_seconds: 3600 });
  await server.api("PUT", "/notification-rules/on-call", { events: ["failed", "late", "recovered"], tags: ["billing"], callback_url: server.url + "/demo/echo" });
  await server.api("PUT", "/notification-rules/night", { events: ["missing"], callback_url: server.url + "/demo/echo", silence_until: new Date(Date.now() + 5 * 3_600_000).toISOString() });
  await server.api("POST", "/jobs:bulk", { filter: { tag: "seed" }, action: "tag", tags: ["tagged"] });
}
