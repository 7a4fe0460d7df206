// Plots. Each has a sentence that says what is to be seen, and a table with the same numbers.

import { useEffect, useId, useRef, useState, type ReactNode } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { isProblem } from "../api/http";
import { useZone } from "../prefs";
import { Link, navigate, setParams, useSearch } from "../router";
import { Button, count } from "./basics";
import { ErrorBox, Loading } from "./feedback";
import { clockTime, shortTime, zoneName } from "./format";

export type PlotTable = {
  head: string[];
  rows: (string | number)[][];
  /** Where each row leads: what a click on the drawing opens. */
  to?: (string | undefined)[];
};

type Read<T> = { data: T | undefined; error: Error | null; refetch: () => unknown };

/** PlotState stands around a plot: in its place while the numbers are read, and where they could not be, with the reason and a way to try again. */
export function PlotState<T>({ title, query, children }: { title: string; query: Read<T>; children: (data: T) => ReactNode }) {
  const { data, error } = query;
  // That nothing answers any more is told once, above all.
  const told = error !== null && !(data !== undefined && isProblem(error, 0));
  return (
    <div className="panel stack plot-state">
      {data === undefined && <h2>{title}</h2>}
      {told && <ErrorBox error={error} what={data === undefined ? "This plot could not be loaded" : "This plot is out of date: it could not be refreshed"} retry={() => void query.refetch()} />}
      {data !== undefined ? children(data) : !told && <Loading lines={4} />}
    </div>
  );
}

// Which plots are tables stands in the address, by their names.
const tables = (search: string) => new Set((new URLSearchParams(search).get("table") ?? "").split(".").filter(Boolean));
const named = (title: string) => title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");

/** PlotFrame is what every plot has: a name, a sentence, the drawing, and the table in its place on demand. */
export function PlotFrame({ title, summary, table, legend, children, actions }: { title: string; summary: string; table: () => PlotTable; legend?: ReactNode; children: ReactNode; actions?: ReactNode }) {
  const name = named(title);
  const asTable = tables(useSearch()).has(name);
  const toggle = () => {
    const all = tables(location.search);
    if (!all.delete(name)) all.add(name);
    setParams({ table: [...all].join(".") });
  };
  const id = useId();
  return (
    <figure className="plot" aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
        {actions}
        <Button kind="ghost" small aria-pressed={asTable} onClick={toggle}>
          {asTable ? "Plot" : "Table"}
        </Button>
      </header>
      <figcaption className="summary">{summary}</figcaption>
      {asTable ? <Numbers of={table()} label={title} /> : children}
      {!asTable && legend && <div className="legend">{legend}</div>}
    </figure>
  );
}

function Numbers({ of, label }: { of: PlotTable; label: string }) {
  if (of.rows.length === 0) return <p className="dim">No numbers yet.</p>;
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={label + " as a table"}>
      <table className="table compact">
        <thead>
          <tr>
            {of.head.map((h) => (
              <th key={h} scope="col">
                {h}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {of.rows.map((r, i) => (
            <tr key={i}>
              {r.map((c, k) => {
                const text = typeof c === "number" && Number.isInteger(c) ? count(c) : c;
                const to = k === 0 ? of.to?.[i] : undefined;
                return (
                  <td key={k} className={typeof c === "number" ? "num" : ""}>
                    {to ? <Link to={to}>{text}</Link> : text}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** colour is a colour of the theme, as canvases need it. */
export function colour(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const c = getComputedStyle(probe).color;
  probe.remove();
  return c;
}

/** useThemeCount changes when the theme does: canvases draw themselves again then. */
export function useThemeCount(): number {
  const [n, set] = useState(0);
  useEffect(() => {
    const bump = () => set((n) => n + 1);
    const watch = new MutationObserver(bump);
    watch.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", bump);
    return () => {
      watch.disconnect();
      dark.removeEventListener("change", bump);
    };
  }, []);
  return n;
}

/** useWidth is how wide the element is, as it changes. */
export function useWidth<E extends HTMLElement>(): [React.RefObject<E | null>, number] {
  const ref = useRef<E>(null);
  const [w, set] = useState(0);
  useEffect(() => {
    const el = ref.current;
    if (!el) return;
    const watch = new ResizeObserver(() => set(Math.floor(el.clientWidth)));
    watch.observe(el);
    set(Math.floor(el.clientWidth));
    return () => watch.disconnect();
  }, []);
  return [ref, w];
}

export type Line = {
  label: string;
  values: (number | null)[];
  /** What the table and the legend tell, where the values are drawn on top of others'. */
  shown?: (number | null)[];
  /** A colour of the theme, such as --fill-good. */
  colour: string;
  /** fill: the area under it; bars: a bar for each step. */
  as?: "line" | "fill" | "bars";
  /** On its own axis at the right. */
  right?: boolean;
};

type SeriesProps = {
  title: string;
  summary: string;
  /** Seconds since 1970, in order. */
  at: number[];
  lines: Line[];
  height?: number;
  format?: (n: number) => string;
  formatRight?: (n: number) => string;
  /** Where a click on an instant leads, and its row in the table. */
  to?: (at: number) => string;
  /** Where a click leads, wherever it is. */
  whole?: string;
  /** How an instant is written below; hours and minutes if nothing is said. */
  tick?: (at: number) => string;
  actions?: ReactNode;
};

/** Series draws numbers over time. */
export function Series({ title, summary, at, lines, height = 170, format = plainNumber, formatRight = format, to, whole, tick, actions }: SeriesProps) {
  const [box, width] = useWidth<HTMLDivElement>();
  const theme = useThemeCount();
  const [zone] = useZone();
  const pick = useRef((_: number) => {});
  pick.current = (at) => ((a) => a && navigate(a))(to?.(at) ?? whole);
  const [under, setUnder] = useState<number | null>(null);
  useEffect(() => {
    const el = box.current;
    if (!el || width < 50) return;
    const dim = colour("--dim");
    const grid = { stroke: colour("--line"), width: 1 };
    const right = lines.some((l) => l.right);
    const axis = (f: (n: number) => string) => ({ stroke: dim, grid, ticks: { show: false }, size: 46, font: "11px system-ui, sans-serif", values: (_: uPlot, v: number[]) => v.map(f) });
    const plot = new uPlot(
      {
        width,
        height,
        legend: { show: false },
        cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
        padding: [8, right ? 0 : 18, 0, 0],
        tzDate: (s) => uPlot.tzDate(new Date(s * 1000), zoneName(zone)),
        scales: { x: { time: true }, y: { range: (_u, _min, max) => [0, Math.max(1, max) * 1.08] }, r: { range: (_u, _min, max) => [0, Math.max(1, max) * 1.08] } },
        axes: [
          { stroke: dim, grid: { show: false }, ticks: { show: false }, size: 22, font: "11px system-ui, sans-serif", values: (_u, v) => v.map((t) => (tick ? tick(t) : clockTime(t * 1000, zone))) },
          axis(format),
          ...(right ? [{ ...axis(formatRight), size: 66, scale: "r", side: 1 as const, grid: { show: false } }] : []),
        ],
        series: [
          {},
          ...lines.map((l) => {
            const c = colour(l.colour);
            return {
              label: l.label,
              scale: l.right ? "r" : "y",
              stroke: c,
              width: l.as === "bars" ? 0 : l.right ? 1 : 1.5,
              points: { show: false },
              ...(l.as === "fill" ? { fill: c.replace(/^rgb\((.*)\)$/, "rgba($1, 0.35)") } : {}),
              ...(l.as === "bars" && uPlot.paths.bars ? { fill: c, paths: uPlot.paths.bars({ size: [0.8, 40, 1] }) } : {}),
            };
          }),
        ],
        hooks: { setCursor: [(u) => setUnder(u.cursor.idx ?? null)] },
      },
      [at, ...lines.map((l) => l.values)] as uPlot.AlignedData,
      el,
    );
    plot.over.addEventListener("click", () => {
      const t = plot.cursor.idx;
      if (t !== null && t !== undefined && at[t] !== undefined) pick.current(at[t]);
    });
    return () => plot.destroy();
    // The numbers are compared by what they are: a refetch that brings the same draws nothing.
  }, [width, height, theme, zone, JSON.stringify(at), JSON.stringify(lines)]);
  const instant = under === null ? undefined : at[under];
  const told = (l: Line, i: number) => {
    const n = (l.shown ?? l.values)[i];
    return n === null || n === undefined ? undefined : (l.right ? formatRight : format)(n);
  };
  return (
    <PlotFrame
      title={title}
      summary={summary}
      actions={actions}
      table={() => ({ head: [`Time (${zoneName(zone)})`, ...lines.map((l) => l.label)], rows: at.map((t, i) => [shortTime(t * 1000, zone, undefined, false), ...lines.map((l) => told(l, i) ?? "–")]), ...(to ? { to: at.map(to) } : {}) })}
      legend={
        <>
          {lines.map((l) => (
            <span key={l.label}>
              <i className={l.as ? "" : "line"} style={{ background: `var(${l.colour})` }} />
              {l.label}
              {((n) => (n === undefined ? "" : ": " + n))(under === null ? undefined : told(l, under))}
            </span>
          ))}
          {instant !== undefined && <span>{shortTime(instant * 1000, zone, undefined, false)}</span>}
        </>
      }
    >
      <div ref={box} role="img" aria-label={`${title}. ${summary}`} style={{ minHeight: height, overflow: "hidden" }} />
    </PlotFrame>
  );
}

function plainNumber(n: number): string {
  if (n >= 1e6) return +(n / 1e6).toFixed(1) + " M";
  if (n >= 1e4) return +(n / 1e3).toFixed(1) + " k";
  return Number.isInteger(n) ? count(n) : String(+n.toFixed(2));
}
