// Sign-in: a server that asks for a key lets nobody see anything before, and brings one to where one wanted to go.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, everyLook, launch, nasty, serve, settle, sound, unharmed, visit } from "./harness.mjs";

const key = "a-key-for-the-tests-of-the-dashboard-only";
let server, browser;
before(async () => {
  [server, browser] = await Promise.all([serve.signIn(key), launch()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test("without a key there is only the sign-in page; with one, what was asked for", async () => {
  // What is asked for without a key is refused, each with a 401; nothing else is said.
  const page = await visit(browser, server.url + "/jobs?q=status%3Aactive#here", { prepare: (p) => void (p.expects = /status of 401/) });
  await page.waitForSelector("label:has-text('API key')");
  await accessible(page);
  await page.fill("input[type=password]", "wrong");
  await page.click("button[type=submit]");
  await page.waitForSelector("text=You are not signed in");
  await page.fill("input[type=password]", key);
  await page.click("button[type=submit]");
  await page.waitForURL("**/jobs?q=status%3Aactive#here");
  await page.waitForSelector("h1:has-text('Jobs')");
  assert.equal(await page.evaluate((k) => document.documentElement.outerHTML.includes(k) || JSON.stringify(localStorage).includes(k) || document.cookie !== "", key), false);
  await page.click("button[aria-label^='Account']");
  await page.click("[role=menuitem]:has-text('Sign out')");
  await page.waitForURL("**/sign-in*");
  await page.goto(server.url + "/sign-in?next=" + encodeURIComponent("//evil.example/"));
  await page.fill("input[type=password]", key);
  await page.click("button[type=submit]");
  await page.waitForSelector("h1:has-text('Now')");
  assert.equal(new URL(page.url()).origin, server.url);
  await sound(page);
  await page.context().close();
});

test("a viewer sees no buttons that change anything", async () => {
  const made = await server.api("POST", "/api-keys", { name: "looks only", role: "viewer" });
  const page = await visit(browser, server.url + "/sign-in");
  await page.fill("input[type=password]", made.key);
  await page.click("button[type=submit]");
  await page.waitForSelector("h1:has-text('Now')");
  await page.goto(server.url + "/jobs");
  await page.waitForSelector("text=looks only, viewer");
  assert.equal(await page.locator("text=New job").count(), 0);
  await sound(page);
  await page.context().close();
});

async function enter(with_) {
  const page = await visit(browser, server.url + "/sign-in");
  await page.fill("input[type=password]", with_);
  await page.click("button[type=submit]");
  await page.waitForSelector("h1:has-text('Now')");
  return page;
}

test("who is signed in is listed, and signed out by another", async () => {
  const made = await server.api("POST", "/api-keys", { name: "left a tab open", role: "operator" });
  const theirs = await enter(made.key);
  theirs.expects = /status of 401/;
  const page = await enter(key);
  await page.goto(server.url + "/admin/sign-ins");
  const row = page.locator("tr:has-text('left a tab open')");
  await row.getByText("key " + made.key_id).waitFor();
  await row.getByText("unless it is used").waitFor(); // an hour without a request ends it, before its twelve hours do
  assert.match(await row.innerText(), /in (59 min|1 h)/);
  const own = page.locator("tr:has-text('this browser')");
  assert.equal(await own.count(), 1);
  assert.equal(await own.getByRole("button").count(), 0);
  await accessible(page);
  await row.getByRole("button", { name: "End left a tab open" }).click();
  await page.waitForSelector("dialog >> text=carillon sign-in end");
  await accessible(page);
  await page.click("dialog button[type=submit]");
  await row.waitFor({ state: "detached" });
  await theirs.goto(server.url + "/jobs");
  await theirs.waitForSelector("label:has-text('API key')");
  const { audit } = await server.api("GET", "/audit?action=sign_in.end&limit=1");
  assert.deepEqual([audit[0].principal, audit[0].before.name], ["bootstrap", "left a tab open"]);
  await sound(page);
  await page.context().close();
  await theirs.context().close();
});

test("names of those who are signed in stay text, in the list and when one is signed out", async () => {
  for (const name of nasty) {
    const { key } = await server.api("POST", "/api-keys", { name, role: "viewer" });
    const r = await fetch(server.url + "/api/v1/sign-in", { method: "POST", headers: { "Content-Type": "application/json", Origin: server.url }, body: JSON.stringify({ credential: key }) });
    assert.equal(r.status, 200, await r.text());
  }
  const page = await enter(key);
  await page.goto(server.url + "/admin/sign-ins");
  await page.waitForSelector("tr:has-text('this browser')");
  for (const name of nasty) {
    const row = page.locator("tr", { hasText: name }).first();
    await row.getByRole("button").click();
    await page.waitForSelector("dialog h2:has-text('End the sign-in of')");
    assert.ok((await page.locator("dialog h2").innerText()).includes(name));
    await unharmed(page);
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
  }
  await unharmed(page);
  await page.context().close();
});

test("where a key is wanted, a line for curl names one", async () => {
  const page = await enter(key);
  await page.goto(server.url + "/executions");
  await settle(page);
  await page.click("button:has-text('Copy as')");
  await page.click("[role=menuitem]:has-text('curl')");
  await page.waitForSelector(".toast:has-text('curl line copied')");
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^curl -s -H "Authorization: Bearer \$CARILLON_TOKEN" http:/);
  await sound(page);
  await page.context().close();
});

test("every look of the sign-in page", async () => {
  await everyLook(browser, server.url + "/sign-in", "sign-in");
});
