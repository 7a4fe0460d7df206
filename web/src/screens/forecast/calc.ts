// What a forecast comes to: cells of a map, hours of a clock, stretches that calendars leave out. Nothing here knows React.

import type { Calendar } from "../../api";
import { parts, shortTime, zoneName } from "../../ui";
import type { Zone } from "../../prefs";

export type Minute = { at: string; count: number };
export type Load = Map<number, number>; // seconds since 1970 → how many

export const loadOf = (minutes: Minute[]): Load => new Map(minutes.map((m) => [Date.parse(m.at) / 1000, m.count]));

export type Grid = {
  /** When each column begins, in seconds, and when the last one ends: days are not all of the same length. */
  starts: number[];
  columns: number;
  rows: number;
  /** Minutes that one cell stands for. */
  minutes: number;
  cells: Map<number, number>; // column * rows + row → the fullest minute of the cell
  rowName: (row: number) => string;
  /** at is where an instant lies, in columns from the left. */
  at: (t: number) => number;
  /** time is when a cell begins. */
  time: (column: number, row: number) => number;
};

const two = (n: number) => String(n).padStart(2, "0");
const day = 86_400_000;

/** gridOf lays minutes out: minute by hour, or, of many days, quarter of an hour by day, as clocks in the zone show them. */
export function gridOf(load: Load, now: number, hours: number, zone: Zone): Grid {
  const days = hours > 200;
  const name = zoneName(zone);
  const local = parts(now * 1000, name);
  const first = Date.UTC(Number(local["year"]), Number(local["month"]) - 1, Number(local["day"]));
  const hour = Math.floor(now / 60) * 60 - Number(local["minute"]) * 60;
  const start = (i: number) => (days ? instant(first + i * day, name) : hour + i * 3600);
  const begin = start(0);
  const starts = [begin];
  for (let t = begin; t < now + hours * 3600; starts.push(t)) t = start(starts.length);
  const columns = starts.length - 1;
  const rows = days ? 96 : 60;
  const columnOf = (t: number) => {
    let [lo, hi] = [0, columns];
    while (hi - lo > 1) {
      const mid = (lo + hi) >> 1;
      if ((starts[mid] ?? 0) <= t) lo = mid;
      else hi = mid;
    }
    return lo;
  };
  const end = starts[columns] ?? 0;
  const minute = minuteOfDay(name);
  const cells = new Map<number, number>();
  for (const [t, n] of load) {
    if (t < begin || t >= end) continue;
    const c = columnOf(t);
    const k = c * rows + (days ? Math.floor(minute(t) / 15) : Math.floor((t - (starts[c] ?? 0)) / 60));
    cells.set(k, Math.max(cells.get(k) ?? 0, n));
  }
  return {
    starts,
    columns,
    rows,
    minutes: days ? 15 : 1,
    cells,
    rowName: (r) => (days ? `${two(Math.floor(r / 4))}:${two((r % 4) * 15)}` : ":" + two(r)),
    at: (t) => {
      const c = columnOf(t);
      const from = starts[c] ?? 0;
      return c + (t - from) / ((starts[c + 1] ?? from + 1) - from);
    },
    time: (c, r) => (days ? instant(first + c * day + r * 900_000, name) : (starts[c] ?? 0) + r * 60),
  };
}

// minuteOfDay is what clocks in a zone show at an instant, in minutes since midnight.
function minuteOfDay(zone: string): (t: number) => number {
  const known = new Map<number, number>(); // of an hour: changes of the clock are at full hours nearly everywhere
  return (t) => {
    const hour = Math.floor(t / 3600);
    let m = known.get(hour);
    if (m === undefined) {
      const p = parts(hour * 3_600_000, zone);
      m = Number(p["hour"]) * 60 + Number(p["minute"]);
      known.set(hour, m);
    }
    return (m + Math.floor((t % 3600) / 60)) % 1440;
  };
}

export type Sums = { total: number; peak: number; at: number | undefined; busyMinutes: number };

export function sumsOf(load: Load): Sums {
  let total = 0;
  let peak = 0;
  let at: number | undefined;
  for (const [t, n] of load) {
    total += n;
    if (n > peak) [peak, at] = [n, t];
  }
  return { total, peak, at, busyMinutes: load.size };
}

/** thinned is a load as a line of few points: the fullest minute of each step. */
export function thinned(load: Load, from: number, hours: number): { at: number[]; values: number[]; step: number } {
  const step = hours <= 24 ? 300 : hours <= 168 ? 1800 : 7200;
  const first = Math.floor(from / step) * step;
  const n = Math.ceil((hours * 3600) / step) + 1;
  const values = new Array<number>(n).fill(0);
  for (const [t, c] of load) {
    const i = Math.floor((t - first) / step);
    if (i >= 0 && i < n) values[i] = Math.max(values[i] ?? 0, c);
  }
  return { at: values.map((_, i) => first + i * step), values, step };
}

export const sectors = 144; // of ten minutes

/** clockOf sums a load by the time of day in a zone, for an average day. */
export function clockOf(load: Load, hours: number, zone: Zone): number[] {
  const out = new Array<number>(sectors).fill(0);
  const minute = minuteOfDay(zoneName(zone));
  for (const [t, n] of load) {
    const i = Math.floor(minute(t) / 10);
    out[i] = (out[i] ?? 0) + n;
  }
  const days = Math.max(1, hours / 24);
  return out.map((n) => n / days);
}

export type Stretch = { from: number; to: number };

const names = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/** excluded is what a calendar leaves out of a time, in seconds. One without a zone of its own is drawn in the zone that is shown. */
export function excluded(c: Calendar, from: number, to: number, zone: Zone): Stretch[] {
  const name = c.timezone ?? zoneName(zone);
  const found: Stretch[] = [];
  const add = (a: number, b: number) => {
    if (b > from && a < to && b > a) found.push({ from: Math.max(a, from), to: Math.min(b, to) });
  };
  const first = parts(from * 1000, name);
  let date = Date.UTC(Number(first["year"]), Number(first["month"]) - 1, Number(first["day"]));
  for (; instant(date, name) < to; date += day) {
    const d = new Date(date);
    const iso = d.toISOString().slice(0, 10);
    if (c.dates.includes(iso) || c.yearly.includes(iso.slice(5)) || c.weekdays.includes(names[d.getUTCDay()] ?? "")) add(instant(date, name), instant(date + day, name));
  }
  for (const w of c.windows) add(instant(Date.parse(wall(w.from)), name), instant(Date.parse(wall(w.to)), name));
  const out: Stretch[] = [];
  for (const s of found.sort((a, b) => a.from - b.from)) {
    const last = out[out.length - 1];
    if (last && s.from <= last.to) last.to = Math.max(last.to, s.to);
    else out.push(s);
  }
  return out;
}

const wall = (s: string) => (s.length <= 10 ? s + "T00:00Z" : s + "Z");

// instant is when clocks in a zone show what UTC shows at t, in seconds.
function instant(t: number, zone: string): number {
  const shown = (x: number) => {
    const p = parts(x, zone);
    return Date.UTC(Number(p["year"]), Number(p["month"]) - 1, Number(p["day"]), Number(p["hour"]), Number(p["minute"]), Number(p["second"]));
  };
  const guess = t - (shown(t) - t);
  return (guess - (shown(guess) - t)) / 1000;
}

/** asCsv is a load as lines for a spreadsheet. */
export function asCsv(minutes: Minute[]): string {
  return "minute_utc,count\n" + minutes.map((m) => `${m.at},${m.count}\n`).join("");
}

/** byHour is a load as a table: how much comes in each hour, and its fullest minute. */
export function byHour(load: Load, zone: Zone): (string | number)[][] {
  const hours = new Map<number, { sum: number; peak: number; at: number }>();
  for (const [t, n] of [...load].sort((a, b) => a[0] - b[0])) {
    const h = Math.floor(t / 3600) * 3600;
    const s = hours.get(h) ?? { sum: 0, peak: 0, at: t };
    hours.set(h, { sum: s.sum + n, ...(n > s.peak ? { peak: n, at: t } : { peak: s.peak, at: s.at }) });
  }
  return [...hours].map(([h, s]) => [shortTime(h * 1000, zone, undefined, false), s.sum, s.peak, shortTime(s.at * 1000, zone, undefined, false).slice(11)]);
}
