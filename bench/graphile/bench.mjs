// Measures Graphile Worker with the phases of bench/peer, and prints the same JSON object:
//
//   node bench.mjs --database URL --jobs N --batch N --limit SECONDS ...
//
// Workers run in threads, since one thread of JavaScript uses one core. Handlers note
// their starts in shared memory; this costs less than a message and loses nothing.
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { Worker } from "node:worker_threads";
import { Logger, makeWorkerUtils } from "graphile-worker";
import pg from "pg";

const payloadBytes = 256;
const lookEvery = 5; // milliseconds
const warmUp = 10; // inserts into the idle queue that are not counted

const { values } = parseArgs({
  options: {
    database: { type: "string" },
    jobs: { type: "string", default: "50000" },
    batch: { type: "string", default: "1000" },
    limit: { type: "string", default: "60" },
    inserters: { type: "string", default: "4" },
    pickups: { type: "string", default: "200" },
    threads: { type: "string", default: "1" },
    concurrency: { type: "string", default: "24" },
    "local-queue": { type: "string", default: "500" },
    "complete-delay": { type: "string", default: "0" },
  },
});

function positive(name) {
  const n = Number(values[name]);
  if (!Number.isInteger(n) || n < 1) throw new Error(`--${name} is ${values[name]}; want a whole number above 0`);
  return n;
}

if (!values.database) throw new Error("--database is missing; want the URL of an empty PostgreSQL database");
const [jobs, batch, inserters, pickups, threads] = ["jobs", "batch", "inserters", "pickups", "threads"].map(positive);
const limit = positive("limit") * 1000;
const settings = {
  concurrentJobs: positive("concurrency"),
  localQueue: Number(values["local-queue"]),
  completeDelay: Number(values["complete-delay"]),
};

const pool = new pg.Pool({ connectionString: values.database, max: inserters + 1 });
pool.on("error", (err) => console.error(err.message)); // of an idle connection; a query that fails throws
pool.on("connect", (client) => client.on("error", (err) => console.error(err.message)));
const utils = await makeWorkerUtils({ pgPool: pool, logger: new Logger(() => () => {}) });
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const seconds = (from, to) => Number(to - from) / 1e9;

// --- The queue ----------------------------------------------------------------

function payload(seq) {
  const empty = JSON.stringify({ seq, pad: "" }).length;
  return { seq, pad: "x".repeat(Math.max(0, payloadBytes - empty)) };
}

async function insertAll() {
  const deadline = Date.now() + limit;
  let next = 0;
  let inserted = 0;
  const insertSome = async () => {
    while (next < jobs && Date.now() < deadline) {
      const first = next;
      const n = Math.min(batch, jobs - first);
      next += n;
      await utils.addJobs(Array.from({ length: n }, (_, i) => ({ identifier: "noop", payload: payload(first + i) })));
      inserted += n;
    }
  };
  await Promise.all(Array.from({ length: inserters }, insertSome));
  return inserted;
}

async function unfinished() {
  const { rows } = await pool.query("SELECT count(*)::int AS n FROM graphile_worker._private_jobs");
  return rows[0].n;
}

const clear = () => pool.query("TRUNCATE graphile_worker._private_jobs");
const settle = () => pool.query("VACUUM ANALYZE graphile_worker._private_jobs");

// --- Workers and what they note -------------------------------------------------

// A tally is shared with the threads: how often and when each job was started.
function newTally(size) {
  return {
    runs: new Int32Array(new SharedArrayBuffer(4 * size)),
    startedAt: new BigInt64Array(new SharedArrayBuffer(8 * size)),
    handled: new Int32Array(new SharedArrayBuffer(4)),
  };
}

async function startWorkers(tally) {
  const running = await Promise.all(
    Array.from({ length: threads }, () => {
      const worker = new Worker(new URL("./worker.mjs", import.meta.url), {
        workerData: { database: values.database, settings, tally },
      });
      return new Promise((resolve, reject) => {
        worker.once("message", () => resolve(worker));
        worker.once("error", reject);
      });
    }),
  );
  return () =>
    Promise.all(
      running.map(
        (worker) =>
          new Promise((resolve) => {
            worker.once("exit", resolve);
            worker.postMessage("stop");
          }),
      ),
    );
}

// finish waits until all wanted jobs were started and none is unfinished, or time is up.
async function finish(tally, wanted) {
  const deadline = Date.now() + limit;
  for (;;) {
    const handled = Atomics.load(tally.handled, 0);
    const late = Date.now() > deadline;
    if (handled >= wanted || late) {
      const left = await unfinished();
      if (left === 0 || late) {
        return { done: Math.min(handled, Math.max(0, wanted - left)), left, at: process.hrtime.bigint() };
      }
    }
    await pause(lookEvery);
  }
}

const result = { engine: "graphile", lost: 0, doubled: 0 };

function account(tally, count, left) {
  let never = 0;
  for (let i = 0; i < count; i++) {
    if (tally.runs[i] === 0) never++;
    if (tally.runs[i] > 1) result.doubled++;
  }
  result.lost += Math.max(0, never - left);
}

// --- Phases -------------------------------------------------------------------

async function insertPhase() {
  await clear();
  const start = process.hrtime.bigint();
  const inserted = await insertAll();
  result.insert_per_s = inserted / seconds(start, process.hrtime.bigint());
  result.insert_ways = { addJobs: result.insert_per_s };
  return inserted;
}

async function backlogPhase(waiting) {
  await settle();
  const tally = newTally(waiting);
  const stop = await startWorkers(tally);
  const { done, left, at } = await finish(tally, waiting);
  await stop();
  if (done === 0) throw new Error(`no job of the backlog was done in ${limit / 1000} s`);
  const first = tally.startedAt.reduce((least, t) => (t !== 0n && t < least ? t : least), at);
  result.work_per_s = done / seconds(first, at);
  account(tally, waiting, left);
}

async function pickup(tally, seq) {
  const begin = process.hrtime.bigint();
  const deadline = Date.now() + limit;
  await utils.addJob("noop", payload(seq));
  while (Atomics.load(tally.runs, seq) === 0) {
    if (Date.now() > deadline) throw new Error(`a job on the idle queue was not started in ${limit / 1000} s`);
    await pause(1);
  }
  return seconds(begin, tally.startedAt[seq]) * 1000;
}

// withWorkers calls work when the queue is empty and the workers are seen to work: they
// have done the last of the jobs that the tally is for.
async function withWorkers(count, work) {
  await clear();
  await settle();
  const tally = newTally(count);
  const stop = await startWorkers(tally);
  await pickup(tally, count - 1);
  await finish(tally, 1);
  await work(tally);
  await stop();
}

async function both(tally) {
  const start = process.hrtime.bigint();
  const inserted = await insertAll();
  const { done, left, at } = await finish(tally, inserted + 1);
  result.both_per_s = (done - 1) / seconds(start, at); // one was done before
  account(tally, inserted, left);
}

async function idle(tally) {
  const deadline = Date.now() + limit;
  const took = [];
  for (let i = 0; i < warmUp + pickups && Date.now() < deadline; i++) {
    const ms = await pickup(tally, i);
    await finish(tally, i + 2);
    if (i >= warmUp) took.push(ms);
  }
  result.picked = took.length;
  took.sort((a, b) => a - b);
  const percentile = (p) => took[Math.max(0, Math.ceil(p * took.length) - 1)];
  result.idle_pickup_ms = { p50: percentile(0.5), p99: percentile(0.99) };
}

await backlogPhase(await insertPhase());
await withWorkers(jobs + 1, both);
await withWorkers(warmUp + pickups + 1, idle);
await utils.release();
await pool.end();

const version = JSON.parse(readFileSync(new URL("./node_modules/graphile-worker/package.json", import.meta.url))).version;
result.rss_mb = process.resourceUsage().maxRSS / 1024;
result.settings =
  `graphile-worker ${version} on Node ${process.versions.node}, ${threads} threads with concurrentJobs ${settings.concurrentJobs}, ` +
  `localQueue.size ${settings.localQueue}, completeJobBatchDelay ${settings.completeDelay}, ${result.picked} idle pickups, ${inserters} inserters with batches of ${batch}`;
console.log(JSON.stringify(result));
