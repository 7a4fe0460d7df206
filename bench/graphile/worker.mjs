// One thread of workers for bench.mjs. It says "ready", and stops at any message.
import { parentPort, workerData } from "node:worker_threads";
import { Logger, run } from "graphile-worker";

const { database, settings, tally } = workerData;
const { runs, startedAt, handled } = tally;

// noop notes the start of a job. The time is written before the count that others wait for.
function noop({ seq }) {
  if (startedAt[seq] === 0n) startedAt[seq] = process.hrtime.bigint();
  if (Atomics.add(runs, seq, 1) === 0) Atomics.add(handled, 0, 1);
}

const runner = await run({
  taskList: { noop },
  preset: {
    worker: {
      connectionString: database,
      concurrentJobs: settings.concurrentJobs,
      maxPoolSize: 10,
      pollInterval: 100,
      localQueue: settings.localQueue > 0 ? { size: settings.localQueue } : undefined,
      completeJobBatchDelay: settings.completeDelay,
      failJobBatchDelay: settings.completeDelay,
      logger: new Logger(() => () => {}),
    },
  },
});

parentPort.postMessage("ready");
parentPort.once("message", async () => {
  await runner.stop();
  parentPort.close();
});
