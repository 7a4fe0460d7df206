// Live: what changes is shown as it changes, stands still while someone reads, and is told to be old when it is.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { between, forgive, launch, serve, settle, sound, visit } from "./harness.mjs";
import { byKind, hand, run } from "./seed.mjs";

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([serve(), launch()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const noop = (name) => server.api("POST", "/jobs", { name, execution: { target: "simulate", work_kind: "noop" } });

test("a list follows, and stands still under the pointer with a count of what is new", async () => {
  await noop("first");
  const page = await visit(browser, server.url + "/jobs");
  await page.waitForSelector("tbody tr:has-text('first')");
  await page.waitForSelector(".dot.live");
  await noop("second");
  await page.waitForSelector("tbody tr:has-text('second')");
  for (const x of [20, 40]) await page.hover("tbody tr:has-text('second')", { position: { x, y: 8 } }); // who points there moves
  await noop("third");
  await page.waitForSelector(".pill");
  assert.equal(await page.locator("tbody tr:has-text('third')").count(), 0);
  await page.mouse.move(2, 2);
  await page.waitForSelector("tbody tr:has-text('third')");
  await page.waitForSelector(".pill", { state: "detached" });
  await sound(page);
  await page.context().close();
});

test("switched off, nothing moves", async () => {
  const page = await visit(browser, server.url + "/jobs");
  await page.waitForSelector(".dot.live");
  await page.keyboard.press(".");
  await page.waitForSelector(".dot.off");
  await noop("unseen");
  await page.waitForTimeout(1500);
  assert.equal(await page.locator("tbody tr:has-text('unseen')").count(), 0);
  await page.keyboard.press(".");
  await sound(page);
  await page.context().close();
});

test("switched off, no screen asks for anything by itself, however long it is looked at, or when it is come back to", async () => {
  for (const path of ["/", "/queues"]) {
    const asked = [];
    let open = 0;
    const page = await visit(browser, server.url + path, {
      prepare: async (p) => {
        await p.addInitScript(() => localStorage.setItem("carillon.live", "true"));
        await p.clock.install();
        const ours = (r) => /\/api\/|\/healthz|\/readyz/.test(r.url()) && !/\/events\/stream/.test(r.url());
        p.on("request", (r) => ours(r) && (open++, asked.push(r.url())));
        for (const end of ["requestfinished", "requestfailed"]) p.on(end, (r) => ours(r) && open--);
      },
    });
    await settle(page);
    await page.clock.pauseAt(new Date((await page.evaluate(() => Date.now())) + 1000));
    const later = async (seconds) => {
      for (let i = 0; i < seconds; i += 5) {
        await page.clock.runFor(5000);
        for (let still = 0; still < 3; still = open === 0 ? still + 1 : 0) await page.evaluate(() => new Promise((r) => { const c = new MessageChannel(); c.port1.onmessage = r; c.port2.postMessage(0); }));
      }
    };
    asked.length = 0;
    await later(65);
    assert.ok(asked.length > 0, path + " asks for nothing although it is to follow");
    await page.keyboard.press(".");
    await page.waitForSelector(".dot.off");
    await later(5); // what was under way
    asked.length = 0;
    await later(200);
    await page.evaluate(() => (dispatchEvent(new Event("focus")), document.dispatchEvent(new Event("visibilitychange")), dispatchEvent(new Event("visibilitychange"))));
    await later(10);
    assert.deepEqual(asked, [], path);
    await page.keyboard.press(".");
    await later(5);
    assert.ok(asked.length > 0, path + " does not catch up");
    await sound(page);
    await page.context().close();
  }
});

// signs notes what the sign of the page says from now on.
async function signs(page) {
  await page.evaluate(() => {
    const dot = document.querySelector(".topbar .dot");
    window.signs = [];
    window.signWatch?.disconnect();
    window.signWatch = new MutationObserver(() => window.signs.push(dot.className.replace("dot ", "")));
    window.signWatch.observe(dot, { attributeFilter: ["class"] });
  });
  return () => page.evaluate(() => window.signs);
}

test("where streams are refused it reads every few seconds and says so; a server that is gone is told, and stays told", async (t) => {
  const way = await between(server);
  t.after(way.close);
  way.refuse = true;
  let open = 0; // requests that are on their way, but for streams
  const page = await visit(browser, way.url + "/jobs", {
    prepare: async (p) => {
      p.expects = /status of 503|net::ERR_/; // the streams that are refused, and the server that is away
      const counted = (by) => (r) => void (/\/api\//.test(r.url()) && !/\/events\/stream/.test(r.url()) && (open += by));
      p.on("request", counted(1)).on("requestfinished", counted(-1)).on("requestfailed", counted(-1));
      await p.clock.install();
    },
  });
  await settle(page);
  // From here the clock of the page stands still unless it is moved, a second at a time; what was asked for in that second is answered before
  // the next one, however busy the machine is.
  await page.clock.pauseAt(new Date((await page.evaluate(() => Date.now())) + 1000));
  const answered = async () => {
    for (let still = 0; still < 3; still = open === 0 ? still + 1 : 0) await page.evaluate(() => new Promise((r) => { const c = new MessageChannel(); c.port1.onmessage = r; c.port2.postMessage(0); }));
  };
  const later = async (seconds) => {
    for (let i = 0; i < seconds; i++) {
      await page.clock.runFor(1000);
      await answered();
    }
  };
  const until = async (what, within) => {
    for (let i = 0; i < within && !(await what()); i++) await later(1);
    assert.ok(await what(), `not within ${within} s: ${what}`);
  };
  const seen = (selector) => async () => (await page.locator(selector).count()) > 0;
  await until(seen(".dot.polling"), 10);
  const said = await signs(page);
  await noop("polled");
  await until(seen("tbody tr:has-text('polled')"), 10);
  // On a screen that reads nothing anew by itself the same is true.
  await page.click('.nav a:has-text("Admin")');
  await later(25);
  assert.deepEqual(await said(), [], "the sign flickers although the server answers");

  await page.click('.nav a:has-text("Jobs")');
  await until(seen("tbody tr:has-text('polled')"), 10);
  const gone = await signs(page);
  way.gone();
  await until(seen(".banner"), 15);
  await later(30);
  assert.deepEqual(await gone(), ["stale"], "the sign flickers although nothing answers");
  assert.ok((await page.locator("tbody tr").count()) > 0);

  const back = await signs(page);
  way.down = false;
  await until(async () => !(await seen(".banner")()), 10);
  way.refuse = false;
  // The stream is asked for again within 15 s; how long it takes to speak is not the page's to say.
  const streams = way.asked.length;
  await until(() => way.asked.length > streams, 20);
  await page.waitForSelector(".dot.live");
  assert.deepEqual(await back(), ["polling", "live"]);
  await sound(page);
  await page.context().close();
});

test("a stream that hangs is noticed and opened again behind what it said; a quiet one is left alone", async (t) => {
  const [quiet, hung] = await Promise.all([between(server), between(server)]);
  t.after(() => Promise.all([quiet.close(), hung.close()]));
  const open = async (way) => {
    const page = await visit(browser, way.url + "/jobs");
    await page.waitForSelector(".dot.live");
    return page;
  };
  const [still, page] = [await open(quiet), await open(hung)];
  const [calm, said] = [await signs(still), await signs(page)];
  await noop("before it hangs");
  await page.waitForSelector("tbody tr:has-text('before it hangs')");
  hung.hang();
  await noop("while it hangs");
  await page.waitForFunction(() => window.signs.at(-1) === "live", undefined, { timeout: 20_000 });
  await page.waitForSelector("tbody tr:has-text('while it hangs')");
  assert.notEqual((await said())[0], "live", "it never said that it was not");
  const again = hung.asked.at(-1);
  assert.ok(hung.asked.length >= 2 && again.last, "it goes on behind the last event");
  assert.match(again.said, /event: ready/);
  assert.match(again.said, /job\.created/);
  assert.equal(quiet.asked.length, 1);
  assert.match(quiet.asked[0].said, /event: beat/);
  assert.deepEqual(await calm(), []);
  await sound(page);
  await sound(still);
  await page.context().close();
  await still.context().close();
});

test("a stream that breaks goes on where it was: what happened meanwhile is told, nothing is read anew for nothing", async (t) => {
  const way = await between(server);
  t.after(way.close);
  const page = await visit(browser, way.url + "/jobs");
  await page.waitForSelector(".dot.live");
  await noop("before it breaks");
  await page.waitForSelector("tbody tr:has-text('before it breaks')");
  const id = /id: (\S+)\nevent: changes/.exec(way.asked[0].said.split("\n\n").findLast((e) => e.includes("event: changes")))[1];
  way.cut();
  await noop("while it is broken");
  await page.waitForFunction(() => !document.querySelector(".topbar .dot.live"));
  await page.waitForSelector(".dot.live", { timeout: 10_000 });
  await page.waitForSelector("tbody tr:has-text('while it is broken')");
  assert.equal(way.asked.length, 2);
  assert.equal(way.asked[1].last, id);
  assert.match(way.asked[1].said, /^(: \S*\n\n)?id: \S+\nevent: ready/);
  assert.match(way.asked[1].said, /event: changes\n.*job\.created/);
  await forgive(page, /ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_EMPTY_RESPONSE|ERR_CONNECTION/);
  await sound(page);
  await page.context().close();
});

test("a log is read on where its stream is refused, until the execution has ended", async (t) => {
  const worker = await hand(server, "log");
  const id = await run(server, { name: "Logs", execution: byKind("log") });
  const a = await worker.claim();
  await worker.log(a, ["the first line"]);
  const way = await between(server);
  t.after(way.close);
  way.refuse = true;
  const page = await visit(browser, `${way.url}/executions/${id}?tab=log`, { prepare: (p) => void (p.expects = /status of 503/) });
  await page.waitForSelector(".execution-line:has-text('the first line')");
  await page.waitForSelector(".execution-more");
  await worker.log(a, ["the second line"]);
  await page.waitForSelector(".execution-line:has-text('the second line')", { timeout: 10_000 });
  await worker.log(a, ["the last line"]);
  await worker.complete(a, { status: "SUCCEEDED" });
  await page.waitForSelector(".execution-line:has-text('the last line')", { timeout: 10_000 });
  await page.waitForSelector(".execution-more", { state: "detached", timeout: 15_000 });
  assert.equal(await page.locator(".execution-line").count(), 3);
  await sound(page);
  await page.context().close();
});
