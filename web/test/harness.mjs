// What the tests in a browser share: a server of its own, a browser, and pages that forgive nothing.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer as createProxy, request } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
export const binary = process.env.CARILLON_BINARY ?? join(here, "../../bin/carillon");
const axe = readFileSync(join(here, "../node_modules/axe-core/axe.min.js"), "utf8");

/** The folder for pictures, if they are wanted. */
export const shots = process.env.CARILLON_SHOTS ?? "";

async function freePort() {
  const s = createServer();
  await new Promise((r) => s.listen(0, "127.0.0.1", r));
  const { port } = s.address();
  await new Promise((r) => s.close(r));
  return port;
}

/** serve starts the binary on a port and in a folder of its own, without sign-in; stop ends it by its process id. */
export const serve = (...flags) => start((dir) => ["dev", "--data", join(dir, "data"), ...flags]);

/** serve.signIn starts one that asks for a key; this one is of the role system. */
serve.signIn = (key) => start((dir) => ["serve", "--database", "sqlite:" + join(dir, "carillon.db")], key);

/** serve.fresh starts the demonstration as a newcomer does, in an empty folder, where it keeps its data. */
serve.fresh = () => start(() => ["dev", "--demo"]);

async function start(args, key) {
  assert.ok(existsSync(binary), `${binary} is missing: make build`);
  const dir = mkdtempSync(join(tmpdir(), "carillon-browser-"));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  let child, gone, said = "";
  const begin = async () => {
    child = spawn(binary, [...args(dir), "--listen", `127.0.0.1:${port}`], { stdio: ["ignore", "pipe", "pipe"], cwd: dir, env: { ...process.env, XDG_CONFIG_HOME: dir, ...(key ? { CARILLON_BOOTSTRAP_KEY: key } : {}) } });
    child.stdout.on("data", (d) => (said += d));
    child.stderr.on("data", (d) => (said += d));
    gone = new Promise((r) => child.once("exit", r));
    for (let i = 0; ; i++) {
      const ok = await fetch(url + "/readyz").then((r) => r.ok, () => false);
      if (ok) break;
      assert.ok(i < 2400 && child.exitCode === null, "the server did not start:\n" + said);
      await new Promise((r) => setTimeout(r, 50));
    }
  };
  const end = async (signal) => {
    child.kill(signal);
    const late = setTimeout(() => child.kill("SIGKILL"), 5000);
    await gone;
    clearTimeout(late);
  };
  await begin();
  return {
    url,
    dir,
    log: () => said,
    api: async (method, path, body) => {
      const r = await fetch(url + "/api/v1" + path, { method, headers: { "Content-Type": "application/json", ...(key ? { Authorization: "Bearer " + key } : {}) }, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
      const text = await r.text();
      assert.ok(r.ok, `${method} ${path}: ${r.status} ${text}`);
      return text ? JSON.parse(text) : undefined;
    },
    /** kill is kill -9; again starts it where it was. */
    kill: () => end("SIGKILL"),
    again: begin,
    stop: async () => {
      if (child.exitCode === null && child.signalCode === null) await end("SIGTERM");
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/**
 * between stands between pages and a server, and does what networks do: it refuses streams (refuse), is away (down), lets the
 * streams that are open hang (hang) or cuts them off (cut). asked is what streams were asked for, and what they said.
 */
export async function between(server) {
  const streams = new Set();
  const sockets = new Set();
  const way = { refuse: false, down: false, asked: [] };
  const proxy = createProxy((req, res) => {
    if (way.down) return void req.socket.destroy();
    const ask = /\/events\/stream|follow=true/.test(req.url) ? { url: req.url, last: req.headers["last-event-id"] ?? new URL(req.url, server.url).searchParams.get("last_event_id"), said: "", mute: false, res } : undefined;
    if (ask) way.asked.push(ask);
    if (ask && way.refuse) return void res.writeHead(503).end();
    const up = request(server.url + req.url, { method: req.method, headers: req.headers }, (r) => {
      res.writeHead(r.statusCode, r.headers).flushHeaders();
      if (ask) streams.add(ask);
      r.on("data", (d) => {
        if (ask?.mute) return;
        if (ask) ask.said += d;
        res.write(d);
      });
      r.on("end", () => res.end());
      r.on("error", () => res.destroy());
    });
    up.on("error", () => res.destroy());
    res.on("close", () => (streams.delete(ask), up.destroy()));
    req.pipe(up);
  });
  proxy.on("connection", (s) => (sockets.add(s), s.on("close", () => sockets.delete(s))));
  await new Promise((r) => proxy.listen(0, "127.0.0.1", r));
  return Object.assign(way, {
    url: `http://127.0.0.1:${proxy.address().port}`,
    hang: () => streams.forEach((s) => (s.mute = true)),
    cut: () => streams.forEach((s) => s.res.destroy()),
    gone: () => ((way.down = true), sockets.forEach((s) => s.destroy())),
    close: () => (sockets.forEach((s) => s.destroy()), new Promise((r) => proxy.close(r))),
  });
}

/** What must come is waited for so long: a test that passes does not wait, and a machine may be several times slower than usual. */
const patience = 120_000;

/** launch starts the browser. */
export function launch() {
  return chromium.launch({
    timeout: patience,
    executablePath: process.env.CARILLON_CHROMIUM ?? "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

/**
 * visit opens a page that remembers whatever it should not have done: errors in the console, requests to other hosts,
 * violations of the content security policy.
 */
export async function visit(browser, url, { width = 1440, height = 900, theme = "dark", reducedMotion = "reduce", prepare } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, reducedMotion, locale: "en-GB", timezoneId: "Europe/Berlin" });
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: new URL(url).origin });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  const faults = [];
  page.on("console", (m) => {
    if (m.type() !== "error" && m.type() !== "warning") return;
    if (page.expects?.test(m.text())) return;
    faults.push(`console ${m.type()}: ${m.text()} (${m.location().url})`);
  });
  page.on("pageerror", (e) => faults.push("page error: " + (e.stack ?? e)));
  page.on("request", (r) => {
    const to = new URL(r.url());
    if (to.protocol !== "data:" && to.protocol !== "blob:" && to.origin !== new URL(url).origin) faults.push("request to elsewhere: " + r.url());
  });
  await page.addInitScript(() => {
    window.violations = [];
    document.addEventListener("securitypolicyviolation", (e) => window.violations.push(`${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}:${e.lineNumber}`));
  });
  page.faults = faults;
  await prepare?.(page);
  await page.goto(url);
  await page.waitForSelector("#main");
  return page;
}

/** forgive takes out of a page's faults the one that was asked for, which has to be there; no other. */
export async function forgive(page, fault) {
  for (let i = 0; ; i++) {
    const k = page.faults.findIndex((f) => fault.test(f));
    if (k >= 0) return void page.faults.splice(k, 1);
    assert.ok(i < 1200, `no fault is ${fault}: ${page.faults}`);
    await new Promise((r) => setTimeout(r, 50));
  }
}

/** sound fails where a page has done what it should not. */
export async function sound(page) {
  const violations = await page.evaluate(() => window.violations);
  assert.deepEqual([...page.faults, ...violations.map((v) => "policy: " + v)], []);
}

/** accessible fails where axe-core finds something. */
export async function accessible(page, ...without) {
  await page.evaluate(axe);
  const found = await page.evaluate(
    (rules) => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], rules: Object.fromEntries(rules.map((r) => [r, { enabled: false }])) }),
    without,
  );
  const said = found.violations.map((v) => `${v.id}: ${v.help}\n    ${v.nodes.slice(0, 5).map((n) => n.html.slice(0, 160) + "  " + (n.any[0]?.message ?? n.all[0]?.message ?? "")).join("\n    ")}`);
  assert.equal(said.length, 0, "axe: " + said.join("\n"));
}

/** settle waits until what a screen reads is there. */
export async function settle(page) {
  await page.waitForFunction(() => !document.querySelector('[role=status][aria-label="Loading"]'));
  await page.waitForTimeout(150);
}

/** toJobs goes to the jobs by the keys g and j; again, where a slow machine let too much time pass between the two. */
export async function toJobs(page) {
  for (let i = 0; ; i++) {
    await page.keyboard.press("g");
    await page.keyboard.press("j");
    const there = await page.waitForURL("**/jobs", { timeout: 10_000 }).then(() => true, (e) => (i < 6 ? false : Promise.reject(e)));
    if (there) return;
  }
}

/** picture keeps a picture of the page, if they are wanted. */
export async function picture(page, name) {
  if (!shots) return;
  mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: join(shots, name + ".png"), fullPage: true });
}

// With CARILLON_BROWSER=slice two looks stand for the four.
const looks = [["dark", 1440], ["light", 390], ...(process.env.CARILLON_BROWSER === "slice" ? [] : [["light", 1440], ["dark", 390]])];

/** everyLook opens a path at both widths and in both themes, checks each, and keeps pictures. */
export async function everyLook(browser, url, name, ready, { prepare } = {}) {
  for (const [theme, width] of looks) {
    const page = await visit(browser, url, { width, theme, height: width === 390 ? 844 : 900, prepare });
    await settle(page);
    if (ready) await ready(page);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    await picture(page, `${name}-${width}-${theme}`);
    assert.ok(over <= 0, `${name} at ${width}: ${over} px wider than the screen`);
    await accessible(page);
    await sound(page);
    await page.context().close();
  }
}

/** A corpus of what people have put into fields to get markup or code out of them. */
export const nasty = [
  `<script>window.pwned=1</script>`,
  `"><img src=x onerror=window.pwned=1>`,
  `<svg/onload=window.pwned=1>`,
  `javascript:window.pwned=1`,
  `{{constructor.constructor('window.pwned=1')()}}`,
  `</textarea><iframe src="javascript:parent.pwned=1">`,
  `<a href="javascript:window.pwned=1">x</a>`,
  `\u202Eevil\u202C <b>bold</b> & &amp; &#x3c;`,
];

/** unharmed fails where any of it came to life. */
export async function unharmed(page) {
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  assert.equal(await page.locator("a[href^='javascript:' i], iframe, #main script").count(), 0);
  await sound(page);
}
