// Sign-in: a server that asks for a key lets nobody see anything before, and brings one to where one wanted to go.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, everyLook, launch, serve, sound, visit } from "./harness.mjs";

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
  const page = await visit(browser, server.url + "/jobs?q=status%3Aactive", { prepare: (p) => void (p.expects = /status of 401/) });
  await page.waitForSelector("label:has-text('API key')");
  await accessible(page);
  await page.fill("input[type=password]", "wrong");
  await page.click("button[type=submit]");
  await page.waitForSelector("text=You are not signed in");
  await page.fill("input[type=password]", key);
  await page.click("button[type=submit]");
  await page.waitForURL("**/jobs?q=status%3Aactive");
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

test("every look of the sign-in page", async () => {
  await everyLook(browser, server.url + "/sign-in", "sign-in");
});
