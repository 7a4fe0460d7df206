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
  const { jobs } = await server.api("GET", "/jobs?limit=2");
  for (const j of jobs) await server.api("POST", "/badges", { job_id: j.job_id });
  await server.api("POST", "/badges", { job_id: jobs[0].job_id, label: "Reports of the night" });
  await server.api("POST", "/jobs:bulk", { filter: { tag: "seed" }, action: "tag", tags: ["tagged"] });
}
