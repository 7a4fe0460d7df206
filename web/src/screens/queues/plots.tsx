// The plots of queues: how much went through.

import { isProblem, serverNow, useGet, type QueueStatus, type Series as Counted } from "../../api";
import { count, percent } from "../../ui";
import { PlotState, Series } from "../../ui/plot";

const step = 300;

/** ThroughputPlot draws what ended in each five minutes of a day: of the tenant, or, where there is no such series, of the installation. */
export function ThroughputPlot({ status, system }: { status: QueueStatus | undefined; system: boolean | undefined }) {
  const q = useGet<Counted>(system === undefined ? undefined : "/series", { hours: 24, step, ...(system ? { scope: "installation" } : {}) }, { every: 60_000 });
  const sums = new Map<number, [good: number, bad: number]>();
  const add = (at: string, good: number, bad: number) => {
    const t = Math.floor(Date.parse(at) / 1000 / step) * step;
    const s = sums.get(t) ?? [0, 0];
    sums.set(t, [s[0] + good, s[1] + bad]);
  };
  if (q.data) for (const p of q.data.points) add(p.at, p.succeeded, p.failed + p.timed_out);
  else if (isProblem(q.error) && status?.minutes) for (const m of status.minutes) add(m.at, m.completed, m.failed);
  else return <PlotState title="Throughput, 24 h" query={{ ...q, data: undefined }} children={() => null} />;
  const end = Math.floor(serverNow() / 1000 / step) * step;
  const at = Array.from({ length: 288 }, (_, i) => end - (287 - i) * step);
  const good = at.map((t) => sums.get(t)?.[0] ?? 0);
  const bad = at.map((t) => sums.get(t)?.[1] ?? 0);
  const all = good.map((g, i) => g + (bad[i] ?? 0));
  const total = all.reduce((a, b) => a + b, 0);
  const failures = bad.reduce((a, b) => a + b, 0);
  const summary = total === 0 ? "Nothing ended in the last 24 hours." : `${count(total)} executions ended, ${count(failures)} of them (${percent(failures / total)}) failed; at most ${count(Math.round(Math.max(...all) / 5))} a minute.`;
  return (
    <div className="panel">
      <Series
        title="Throughput, 24 h"
        summary={summary}
        at={at}
        lines={[
          { label: "ended, in 5 min", values: all, colour: "--fill-good", as: "fill" },
          { label: "failed", values: bad, colour: "--bad" },
        ]}
      />
    </div>
  );
}
