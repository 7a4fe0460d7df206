// The plots of Now: how late schedules fired, how much waited, what comes in the next hour.

import { serverNow, useGet, type DelaySeries, type Forecast, type QueueSeries } from "../../api";
import { Link } from "../../router";
import { count, duration, percent } from "../../ui";
import { Heatmap } from "../../ui/heat";
import { PlotState, Series } from "../../ui/plot";

const seconds = (t: string) => Date.parse(t) / 1000;
const iso = (s: number) => new Date(s * 1000).toISOString().replace(".000", "");
const within = (at: number, step: number) => "/executions?q=" + encodeURIComponent(`from:${iso(at)} to:${iso(at + step)}`);
const short = (s: number) => (s < 1 ? s * 1000 + " ms" : s < 60 ? s + " s" : Math.round(s / 60) + " min");

export function DelayPlot() {
  const q = useGet<DelaySeries>("/series/delays", { hours: 24, step: 900 }, { every: 60_000 });
  return (
    <PlotState title="Trigger delay, 24 h" query={q}>
      {(d) => <Delays d={d} />}
    </PlotState>
  );
}

function Delays({ d }: { d: DelaySeries }) {
  // Rows that were never reached are left out above the first second, so that what there is has room.
  const highest = d.columns.reduce((n, c) => Math.max(n, c.counts.findLastIndex((k) => k > 0)), d.bounds_seconds.indexOf(1) + 1);
  const rows = [...d.bounds_seconds.map((b) => "≤ " + short(b)), "> " + short(d.bounds_seconds[d.bounds_seconds.length - 1] ?? 0)].slice(0, highest + 1);
  const t = d.total;
  const summary =
    t.fired === 0
      ? "No schedule fired in the last 24 hours."
      : `${count(t.fired)} fired; ${percent(t.within_1s / t.fired)} within a second; half within ${duration((t.p50_seconds ?? 0) * 1000)}, 99 % within ${duration((t.p99_seconds ?? 0) * 1000)}, the latest after ${duration((t.max_seconds ?? 0) * 1000)}.`;
  return (
    <Heatmap
      title="Trigger delay, 24 h"
      summary={summary}
      from={seconds(d.from)}
      until={seconds(d.to)}
      step={d.step_seconds}
      columns={d.columns.map((c) => ({ at: seconds(c.at), counts: c.counts.slice(0, highest + 1) }))}
      rows={rows}
      line={{ row: d.bounds_seconds.indexOf(1) + 1, label: "1 s" }}
      to={(at) => within(at, d.step_seconds)}
    />
  );
}

const hues = ["--fill-busy", "--fill-good", "--fill-warn", "--fill-bad", "--brand", "--fill-calm"];

/** QueuePlot draws how much waited; of one queue alone, if it is named. How much waits now is counted by the screen around it. */
export function QueuePlot({ scope, queue, waiting }: { scope?: string; queue?: string; waiting: number | null | undefined }) {
  const q = useGet<QueueSeries>("/series/queues", { hours: 24, step: 300, scope }, { every: 60_000 });
  return (
    <PlotState title="Queue depth, 24 h" query={q}>
      {(d) => <Depths d={queue === undefined ? d : only(d, queue)} waiting={waiting} />}
    </PlotState>
  );
}

function Depths({ d, waiting }: { d: QueueSeries; waiting: number | null | undefined }) {
  const from = Math.floor(seconds(d.from) / d.step_seconds) * d.step_seconds;
  const n = Math.max(1, Math.ceil((seconds(d.to) - from) / d.step_seconds));
  const at = Array.from({ length: n }, (_, i) => from + i * d.step_seconds);
  const by = new Map(d.columns.map((c) => [Math.round((seconds(c.at) - from) / d.step_seconds), c]));
  // The five fullest by name, the others together; each drawn on top of those before it.
  const sums = d.queues.map((name) => ({ name, sum: d.columns.reduce((s, c) => s + (c.queues.find((x) => x.queue === name)?.waiting ?? 0), 0) })).sort((a, b) => b.sum - a.sum);
  const named = sums.slice(0, 5).map((s) => s.name);
  const rest = sums.slice(5).map((s) => s.name);
  const groups = [...named.map((name) => ({ label: name, of: [name] })), ...(rest.length ? [{ label: "others", of: rest }] : [])];
  const stack = new Array<number>(n).fill(0);
  const areas = groups.map((g, i) => {
    const shown = at.map((_, k) => g.of.reduce((s, name) => s + (by.get(k)?.queues.find((x) => x.queue === name)?.waiting ?? 0), 0));
    shown.forEach((n, k) => (stack[k] = (stack[k] ?? 0) + n));
    return { label: g.label, values: [...stack], shown, colour: hues[i] ?? "--fill-calm", as: "fill" as const };
  });
  const most = d.columns.reduce((m, c) => Math.max(m, c.waiting), 0);
  const oldest = d.columns.reduce((m, c) => Math.max(m, c.oldest_seconds ?? 0), 0);
  const now = waiting == null ? "" : waiting === 0 ? "Nothing waits now; " : `${count(waiting)} ${waiting === 1 ? "waits" : "wait"} now; `;
  return (
    <Series
      title="Queue depth, 24 h"
      summary={most === 0 ? (waiting ? now.replace("; ", ".") : "Nothing had to wait in the last 24 hours.") : `${now}${now ? "at" : "At"} most ${count(most)} waited, the oldest for ${duration(oldest * 1000)}.`}
      at={at}
      lines={[
        ...(areas.length ? areas.reverse() : [{ label: "waiting", values: stack, colour: "--fill-busy", as: "fill" as const }]),
        ...(oldest > 0 ? [{ label: "oldest waits", values: at.map((_, k) => by.get(k)?.oldest_seconds ?? null), colour: "--dim", right: true }] : []),
      ]}
      formatRight={(s) => duration(s * 1000)}
      to={(t) => within(t, d.step_seconds)}
    />
  );
}

/** only is what a series tells of one queue. */
function only(d: QueueSeries, queue: string): QueueSeries {
  const columns = d.columns.flatMap((c) => c.queues.filter((x) => x.queue === queue).map((x) => ({ ...x, at: c.at, queues: [x] })));
  return { ...d, queues: [queue], columns };
}

export function LoadPlot() {
  const q = useGet<Forecast>("/forecast", { hours: 1 }, { every: 60_000 });
  return (
    <PlotState title="Next 60 minutes" query={q}>
      {(f) => <Load f={f} />}
    </PlotState>
  );
}

function Load({ f }: { f: Forecast }) {
  const from = Math.floor(serverNow() / 60_000) * 60;
  const at = Array.from({ length: 60 }, (_, i) => from + i * 60);
  const by = new Map(f.minutes.map((m) => [seconds(m.at), m.count]));
  const values = at.map((t) => by.get(t) ?? 0);
  const sum = values.reduce((a, b) => a + b, 0);
  const peak = Math.max(...values);
  return (
    <Series
      title="Next 60 minutes"
      summary={sum === 0 ? "No schedule fires within the next hour." : `${f.truncated ? "At least " : ""}${count(sum)} will fire, at most ${count(peak)} in one minute.`}
      at={at}
      lines={[{ label: "fires a minute", values, colour: "--fill-busy", as: "bars" }]}
      whole="/forecast"
      actions={<Link to="/forecast">Forecast</Link>}
    />
  );
}
