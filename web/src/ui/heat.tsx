// Heatmaps: a grid of cells over time, and a year of days.

import { useEffect, useRef, useState, type ReactNode } from "react";
import { useZone } from "../prefs";
import { navigate } from "../router";
import { count } from "./basics";
import { clockTime, shortTime, zoneName } from "./format";
import { colour, PlotFrame, useThemeCount, useWidth, type PlotTable } from "./plot";

type HeatmapProps = {
  title: string;
  summary: string;
  /** Seconds since 1970 of each column, evenly apart by step. */
  from: number;
  until: number;
  step: number;
  columns: { at: number; counts: number[] }[];
  /** The rows from the bottom up. */
  rows: string[];
  /** A line drawn below this row, and what it means. */
  line?: { row: number; label: string };
  height?: number;
  /** Where a column leads, and its row in the table. */
  to?: (at: number) => string;
  actions?: ReactNode;
};

/** Heatmap draws how many there were of each kind at each time; the stronger the colour, the more, by logarithm. */
export function Heatmap({ title, summary, from: begin, until, step, columns, rows, line, height = 190, to, actions }: HeatmapProps) {
  const [box, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useThemeCount();
  const [zone] = useZone();
  const [under, setUnder] = useState<{ at: number; row: number; n: number } | null>(null);
  const left = 64;
  const bottom = 20;
  const from = Math.floor(begin / step) * step; // where the first column begins
  const n = Math.max(1, Math.ceil((until - from) / step));
  const cw = Math.max(0, (width - left) / n);
  const rh = (height - bottom) / rows.length;
  const most = Math.max(1, ...columns.flatMap((c) => c.counts));
  useEffect(() => {
    const el = canvas.current;
    const g = el?.getContext("2d");
    if (!el || !g || width < 60) return;
    const dpr = devicePixelRatio || 1;
    el.width = width * dpr;
    el.height = height * dpr;
    g.scale(dpr, dpr);
    g.clearRect(0, 0, width, height);
    g.font = "11px system-ui, sans-serif";
    g.fillStyle = colour("--sunken");
    g.fillRect(left, 0, width - left, height - bottom);
    const heat = colour("--heat");
    for (const c of columns) {
      const x = left + ((c.at - from) / step) * cw;
      c.counts.forEach((k, row) => {
        if (k === 0) return;
        g.globalAlpha = 0.18 + 0.82 * (Math.log1p(k) / Math.log1p(most));
        g.fillStyle = heat;
        g.fillRect(x, height - bottom - (row + 1) * rh, Math.max(cw - (cw > 4 ? 1 : 0), 0.8), rh - 1);
      });
    }
    g.globalAlpha = 1;
    g.fillStyle = colour("--dim");
    g.textAlign = "right";
    g.textBaseline = "middle";
    const every = Math.ceil(14 / rh);
    rows.forEach((r, i) => i % every === 0 && g.fillText(r, left - 6, height - bottom - (i + 0.5) * rh));
    g.textAlign = "center";
    const ticks = Math.max(2, Math.floor((width - left) / 90));
    for (let i = 0; i <= ticks; i++) {
      const t = from + (n * step * i) / ticks;
      g.textAlign = i === 0 ? "left" : i === ticks ? "right" : "center";
      g.fillText(clockTime(t * 1000, zone), left + ((width - left) * i) / ticks, height - 8);
    }
    if (line) {
      const y = height - bottom - line.row * rh;
      g.strokeStyle = colour("--bad");
      g.setLineDash([4, 3]);
      g.beginPath();
      g.moveTo(left, y);
      g.lineTo(width, y);
      g.stroke();
      g.setLineDash([]);
      g.textAlign = "right";
      g.fillStyle = colour("--bad");
      g.fillText(line.label, width - 4, y - 7);
    }
  }, [width, height, theme, zone, JSON.stringify(columns), from, until]);
  const cell = (x: number, y: number) => {
    const i = Math.floor((x - left) / cw);
    const row = Math.floor((height - bottom - y) / rh);
    if (i < 0 || i >= n || row < 0 || row >= rows.length) return null;
    const at = from + i * step;
    return { at, row, n: columns.find((c) => Math.abs(c.at - at) < step / 2)?.counts[row] ?? 0 };
  };
  return (
    <PlotFrame
      title={title}
      summary={summary}
      actions={actions}
      table={() => ({ head: [`Time (${zoneName(zone)})`, ...rows], rows: columns.map((c) => [shortTime(c.at * 1000, zone, undefined, false), ...c.counts]), ...(to ? { to: columns.map((c) => to(c.at)) } : {}) })}
      legend={under ? <span>{`${shortTime(under.at * 1000, zone, undefined, false)} · ${rows[under.row]}: ${count(under.n)}`}</span> : <span>A stronger colour means more; point at a cell for its number.</span>}
    >
      <div ref={box} style={{ overflow: "hidden" }}>
        <canvas
          ref={canvas}
          role="img"
          aria-label={`${title}. ${summary}`}
          style={{ width, height, cursor: to ? "pointer" : "default" }}
          onPointerMove={(e) => setUnder(cell(e.nativeEvent.offsetX, e.nativeEvent.offsetY))}
          onPointerLeave={() => setUnder(null)}
          onClick={(e) => {
            const c = cell(e.nativeEvent.offsetX, e.nativeEvent.offsetY);
            if (c && to) navigate(to(c.at));
          }}
        />
      </div>
    </PlotFrame>
  );
}

export type Day = { date: string; value: number; tone: "good" | "bad" | "warn" | "calm" | "heat"; tip: string };

/** Calendar draws days as weeks side by side, one after the other; bad days carry a mark beside their colour. */
export function Calendar({ title, summary, days, from, to, table, onPick, actions }: { title: string; summary: string; days: Day[]; from: string; to: string; table: () => PlotTable; onPick?: (date: string) => void; actions?: ReactNode }) {
  const known = new Map(days.map((d) => [d.date, d]));
  const most = Math.max(1, ...days.map((d) => d.value));
  const first = Date.parse(from);
  const start = first - ((new Date(first).getUTCDay() + 6) % 7) * 86_400_000; // a Monday
  const weeks = Math.ceil((Date.parse(to) - start) / (7 * 86_400_000));
  const [box, width] = useWidth<HTMLDivElement>();
  const gap = 2;
  const size = width ? Math.max(7, Math.min(13, Math.floor((width - 28) / weeks) - gap)) : 11;
  // The latest days are the ones to see where not all fit.
  useEffect(() => {
    if (box.current) box.current.scrollLeft = box.current.scrollWidth;
  }, [width]);
  const cells: ReactNode[] = [];
  const months: ReactNode[] = [];
  let month = -1;
  for (let t = first; t < Date.parse(to); t += 86_400_000) {
    const date = new Date(t).toISOString().slice(0, 10);
    const i = Math.round((t - start) / 86_400_000);
    const x = 26 + Math.floor(i / 7) * (size + gap);
    const y = 16 + (i % 7) * (size + gap);
    const m = new Date(t).getUTCMonth();
    if (m !== month && new Date(t).getUTCDate() <= 7) {
      month = m;
      months.push(
        <text key={date} x={x} y={10} fontSize={10} fill="var(--dim)">
          {new Date(t).toLocaleString("en", { month: "short", timeZone: "UTC" })}
        </text>,
      );
    }
    const d = known.get(date);
    const alpha = d ? 0.35 + 0.65 * (Math.log1p(d.value) / Math.log1p(most)) : 1;
    const fill = d ? (d.tone === "heat" ? "var(--heat)" : `var(--fill-${d.tone})`) : "var(--calm-soft)";
    cells.push(
      <g key={date} data-tip={d?.tip ?? date + ": none"} onClick={() => d && onPick?.(date)} style={{ cursor: d && onPick ? "pointer" : "default" }}>
        <rect x={x} y={y} width={size} height={size} rx={2} fill={fill} fillOpacity={alpha} />
        {d?.tone === "bad" && <path d={`M${x + size * 0.27} ${y + size * 0.27}l${size * 0.46} ${size * 0.46}m0 ${-size * 0.46}l${-size * 0.46} ${size * 0.46}`} stroke="var(--panel)" strokeWidth={1.4} />}
        {d?.tone === "warn" && <path d={`M${x + size * 0.22} ${y + size / 2}h${size * 0.56}`} stroke="var(--panel)" strokeWidth={1.6} />}
      </g>,
    );
  }
  return (
    <PlotFrame title={title} summary={summary} table={table} actions={actions}>
      <div ref={box} className="scroll" tabIndex={0} role="region" aria-label={title}>
        <svg width={28 + weeks * (size + gap)} height={16 + 7 * (size + gap)} role="img" aria-label={`${title}. ${summary}`}>
          {months}
          {["Mon", "Wed", "Fri", "Sun"].map((w, i) => (
            <text key={w} x={0} y={16 + i * 2 * (size + gap) + size - 2} fontSize={9} fill="var(--dim)">
              {w}
            </text>
          ))}
          {cells}
        </svg>
      </div>
    </PlotFrame>
  );
}
