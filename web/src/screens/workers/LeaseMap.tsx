// LeaseMap: worker by time. Each bar is an execution that a worker held; gaps where there should be none are trouble.

import { useEffect, useMemo, useRef, useState } from "react";
import { serverNow, useGet, type Executions, type Worker } from "../../api";
import { navigate, useParam } from "../../router";
import { useZone } from "../../prefs";
import { clockTime, count, duration, percent, Segments, toneOf, wordOf } from "../../ui";
import { colour, PlotFrame, PlotState, useThemeCount, useWidth } from "../../ui/plot";
import { merged, rowsOf, share, type Row, type Span } from "./leases";

const windows: [string, string][] = [
  ["15", "15 min"],
  ["60", "1 h"],
  ["360", "6 h"],
];
const most = 1000;
const running = 500;
const shown = 40;

/** LeaseMap knows all workers; those that are gone and held nothing are drawn only if that is asked for. */
export function LeaseMap({ workers, only, gone = true }: { workers: Worker[]; only?: string; gone?: boolean }) {
  const [minutes, setMinutes] = useParam("span", "15");
  const span = (Number(minutes) || 15) * 60_000;
  // The minute, so that the same question is asked for a minute and its answer kept.
  const since = new Date(Math.floor((serverNow() - span) / 60_000) * 60_000).toISOString().replace(".000", "");
  // What was scheduled within the window seldom changes; what ended within it, or runs, may have begun long before it.
  const q = useGet<Executions>("/executions", { start_date: since, limit: most, worker_id: only }, { every: 30_000 });
  const before = useGet<Executions>("/executions", { end_date: since, finished_after: since, limit: running, worker_id: only }, { every: 60_000 });
  const now = useGet<Executions>("/executions", { status: "RUNNING,CANCELLING", limit: running, worker_id: only }, { every: 5000 });
  const list = useMemo(() => (q.data && before.data && now.data ? merged(q.data.executions, before.data.executions, now.data.executions) : undefined), [q.data, before.data, now.data]);
  const to = useMemo(() => serverNow(), [list, span]);
  // Where nobody lived longer, the map begins with the first, so that little has room too.
  const born = Math.min(...workers.map((w) => Date.parse(w.started_at)), ...(list ?? []).map((e) => Date.parse(e.started_at ?? e.scheduled_time)), to - 120_000);
  const from = Math.max(to - span, born - 5000);
  const rows = useMemo(() => rowsOf(workers, list ?? [], from, to).filter((r) => gone || !r.gone || r.spans.length > 0).slice(0, shown), [workers, list, from, to, gone]);
  const reads = [q, before, now];
  if (!list) return <PlotState title="Worker activity" query={{ data: undefined, error: reads.find((r) => r.error)?.error ?? null, refetch: () => reads.forEach((r) => r.error && void r.refetch()) }} children={() => null} />;
  const held = rows.reduce((n, r) => n + r.spans.length, 0);
  const used = rows.filter((r) => r.spans.length > 0);
  const shares = used.flatMap((r) => ((s) => (s === null ? [] : [{ name: r.name, share: s }]))(share(r, from, to))).sort((a, b) => b.share - a.share);
  const busiest = shares[0];
  const rounded = (s: number | null) => (s === null ? "–" : percent(Math.round(s * 1000) / 1000));
  const cut = (q.data?.pagination.total ?? 0) > most || before.data?.pagination.next_cursor != null || (now.data?.pagination.total ?? 0) > running;
  const summary =
    held === 0
      ? "No worker held an execution in this time."
      : `${count(used.length)} of ${count(rows.length)} ${rows.length === 1 ? "worker" : "workers"} ran ${count(held)}${cut ? " of the newest" : ""} ${held === 1 ? "execution" : "executions"}${busiest ? `; ${busiest.name} ${shares.length > 1 ? "was used the most" : "used"}${shares.length > 1 ? "," : ""} ${rounded(busiest.share)} of its slots` : ""}.`;
  return (
    <div className="panel">
      <PlotFrame
        title="Worker activity"
        summary={summary}
        actions={<Segments label="How far back" value={minutes} options={windows} onChange={(v) => setMinutes(v)} />}
        table={() => ({
          head: ["Worker", "Executions", "Failed", "Held for", "Slots used"],
          rows: rows.map((r) => [r.name, r.spans.length, r.failed, duration(r.busy), rounded(share(r, from, to))]),
          to: rows.map((r) => "/executions?q=" + encodeURIComponent(`worker:${r.id} from:-${span / 60_000}m`)),
        })}
        legend={
          <>
            <span>
              <i style={{ background: "var(--fill-good)" }} />
              succeeded
            </span>
            <span>
              <i style={{ background: "var(--fill-busy)" }} />
              running
            </span>
            <span>
              <i style={{ background: "var(--fill-bad)" }} />
              failed (with a mark above)
            </span>
            <span>
              <i style={{ background: "var(--calm-soft)" }} />
              the worker lived
            </span>
          </>
        }
      >
        <Drawing rows={rows} from={from} to={to} label={"Worker activity. " + summary} />
      </PlotFrame>
    </div>
  );
}

const height = 26;
const bottom = 20;

function Drawing({ rows, from, to, label }: { rows: Row[]; from: number; to: number; label: string }) {
  const [box, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useThemeCount();
  const [zone] = useZone();
  const [under, setUnder] = useState<Span>();
  const left = Math.min(150, Math.max(70, width * 0.2));
  const tall = rows.length * height + bottom;
  const x = (t: number) => left + ((t - from) / (to - from)) * (width - left);
  useEffect(() => {
    const el = canvas.current;
    const g = el?.getContext("2d");
    if (!el || !g || width < 60) return;
    const dpr = devicePixelRatio || 1;
    el.width = width * dpr;
    el.height = tall * dpr;
    g.scale(dpr, dpr);
    g.font = "11px system-ui, sans-serif";
    g.textBaseline = "middle";
    const tones: Record<string, string> = { good: colour("--fill-good"), bad: colour("--fill-bad"), busy: colour("--fill-busy"), warn: colour("--fill-warn"), calm: colour("--fill-calm") };
    const dim = colour("--dim");
    const track = colour("--calm-soft");
    rows.forEach((r, i) => {
      const y = i * height;
      g.textAlign = "left";
      g.fillStyle = dim;
      g.fillText(fit(g, r.name, left - 8), 0, y + height / 2);
      g.fillStyle = track;
      const a = Math.max(left, x(r.from));
      g.fillRect(a, y + 5, Math.max(0, Math.min(width, x(r.to)) - a), height - 8);
      const lane = (height - 8) / Math.max(r.lanes, 2);
      for (const s of r.spans) {
        const tone = toneOf(s.status);
        const b = Math.max(left, x(s.from));
        const w = Math.max(1.5, Math.min(width, x(s.to)) - b);
        g.fillStyle = tones[tone] ?? dim;
        g.fillRect(b, y + 5 + s.lane * lane, w, Math.max(1, lane - 0.6));
        if (tone === "bad") g.fillRect(b, y, 2, 5);
      }
    });
    g.fillStyle = dim;
    const ticks = Math.max(2, Math.floor((width - left) / 90));
    for (let i = 0; i <= ticks; i++) {
      g.textAlign = i === 0 ? "left" : i === ticks ? "right" : "center";
      g.fillText(clockTime(from + ((to - from) * i) / ticks, zone), left + ((width - left) * i) / ticks, tall - 8);
    }
  }, [width, tall, theme, zone, rows, from, to]);
  const at = (px: number, py: number): Span | undefined => {
    const r = rows[Math.floor(py / height)];
    if (!r) return undefined;
    const t = from + ((px - left) / (width - left)) * (to - from);
    const slack = ((to - from) / (width - left)) * 2;
    const lane = Math.floor(((py % height) - 5) / ((height - 8) / Math.max(r.lanes, 2)));
    const hits = r.spans.filter((s) => s.from - slack <= t && t <= s.to + slack);
    return hits.find((s) => s.lane === lane) ?? hits[0];
  };
  return (
    <div ref={box}>
      <canvas
        ref={canvas}
        role="img"
        aria-label={label}
        style={{ width, height: tall, cursor: under ? "pointer" : "default" }}
        onPointerMove={(e) => setUnder(at(e.nativeEvent.offsetX, e.nativeEvent.offsetY))}
        onPointerLeave={() => setUnder(undefined)}
        onClick={(e) => {
          const s = at(e.nativeEvent.offsetX, e.nativeEvent.offsetY);
          if (s) navigate("/executions/" + s.id);
        }}
      />
      <p className="small dim workers-under wrap">{under ? `${under.name}: ${wordOf(under.status)}, ${duration(under.to - under.from)} from ${clockTime(under.from, zone)}` : "Point at a bar to see its execution; click to open it."}</p>
    </div>
  );
}

function fit(g: CanvasRenderingContext2D, text: string, room: number): string {
  if (g.measureText(text).width <= room) return text;
  let t = text;
  while (t.length > 1 && g.measureText(t + "…").width > room) t = t.slice(0, -1);
  return t + "…";
}
