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
  for (let i = 0; i < 2400; i++) {
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
