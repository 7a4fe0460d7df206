// A tenant of the tier free: what its quota does not have is not offered, and what there is in its place is.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, everyLook, launch, serve, settle, sound, visit } from "./harness.mjs";

const key = "a-key-for-the-tests-of-the-dashboard-only";
let server, browser, own, failed;
before(async () => {
  [server, browser] = await Promise.all([serve.signIn(key), launch()]);
  const t = await server.api("POST", "/tenants", { name: "Small Shop", tier: "free" });
  own = (await server.api("POST", "/api-keys", { name: "shopkeeper", role: "operator", tenant_id: t.tenant_id })).key;
  const api = async (method, path, body) => {
    const r = await fetch(server.url + "/api/v1" + path, { method, headers: { "Content-Type": "application/json", Authorization: "Bearer " + own }, ...(body ? { body: JSON.stringify(body) } : {}) });
    assert.ok(r.ok, `${path}: ${r.status} ${await r.clone().text()}`);
    return r.json();
  };
  const j = await api("POST", "/jobs", { name: "sold out", retry_policy: { max_retries: 0 }, execution: { target: "simulate", work_kind: "fail_permanent", duration_ms: 5 } });
  failed = j.execution_id;
  for (let i = 0; (await api("GET", "/executions/" + failed)).status !== "FAILED"; i++) {
    assert.ok(i < 600, "it does not fail");
    await new Promise((r) => setTimeout(r, 100));
  }
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const enter = async (page) => {
  await page.fill("input[type=password]", own);
  await page.click("button[type=submit]");
  await page.waitForSelector("h1:has-text('Now')");
};

test("what failed is run again as a retry: there are no dead letters to redrive", async () => {
  // The tier's requests a second are few: what is refused for that the page asks for again.
  const page = await visit(browser, server.url + "/sign-in", { prepare: (p) => void (p.expects = /status of 429/) });
  await enter(page);
  await page.goto(server.url + "/executions/" + failed);
  await page.waitForSelector(".execution-timeline");
  await settle(page);
  const again = page.getByRole("button", { name: "Run again" });
  await again.waitFor();
  assert.equal(await page.getByRole("button", { name: "Redrive" }).count(), 0);
  assert.equal(await page.locator(".head >> text=Dead letter").count(), 0);
  await page.click(".head button[aria-label=More]");
  assert.equal(await page.locator("[role=menuitem]:has-text('Discard')").count(), 0);
  await page.keyboard.press("Escape");
  await accessible(page);
  await again.click();
  await page.waitForSelector(".head >> text=retry of");
  assert.notEqual(new URL(page.url()).pathname, "/executions/" + failed);
  await sound(page);
  await page.context().close();
});

test("the tile and the screen of dead letters say that the tier has none", async () => {
  const page = await visit(browser, server.url + "/sign-in", { prepare: (p) => void (p.expects = /status of 429/) });
  await enter(page);
  const tile = page.locator(".now-tile", { hasText: "Dead letters" });
  await tile.getByText("not in the tier free").waitFor();
  await tile.click();
  await page.waitForSelector("text=The tier free has no dead letters");
  await page.click("a:has-text('Executions that failed')");
  await page.waitForSelector("tbody tr:has-text('sold out')");
  await sound(page);
  await page.context().close();
});

test("that screen, in every look", () =>
  everyLook(browser, server.url + "/dead-letters", "dead-letters-free", async (page) => {
    await page.fill("input[type=password]", own);
    await page.click("button[type=submit]");
    await page.waitForSelector("text=The tier free has no dead letters");
  }, { prepare: (p) => void (p.expects = /status of (401|429)/) }));
