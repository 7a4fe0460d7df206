// What a forecast comes to: cells of a map, hours of a clock, stretches that calendars leave out. Nothing here knows React.

import type { Calendar } from "../../api";
import { parts, shortTime, zoneName } from "../../ui";
import type { Zone } from "../../prefs";

export type Minute = { at: string; count: number };
export type Load = Map<number, number>; // seconds since 1970 → how many

export const loadOf = (minutes: Minute[]): Load => new Map(minutes.map((m) => [Date.parse(m.at) / 1000, m.count]));

export type Grid = {
  from: number; // seconds
  column: number; // seconds of one
  columns: number;
  rows: number;
  /** Minutes that one cell stands for. */
  minutes: number;
  cells: Map<number, number>; // column * rows + row → the fullest minute of the cell
  rowName: (row: number) => string;
};

const two = (n: number) => String(n).padStart(2, "0");

/** gridOf lays minutes out: minute by hour, or, of many days, quarter of an hour by day. */
export function gridOf(load: Load, now: number, hours: number, zone: Zone): Grid {
  const cells = new Map<number, number>();
  const days = hours > 200;
  const local = parts(now * 1000, zoneName(zone));
  const minuteNow = Number(local["minute"]);
  const sinceMidnight = (Number(local["hour"]) * 60 + minuteNow) * 60;
  const from = Math.floor(now / 60) * 60 - (days ? sinceMidnight : minuteNow * 60);
  const column = days ? 86_400 : 3600;
  const rows = days ? 96 : 60;
  const columns = Math.ceil((now + hours * 3600 - from) / column);
  for (const [t, n] of load) {
    const c = Math.floor((t - from) / column);
    if (c < 0 || c >= columns) continue;
    const within = Math.floor(((t - from) % column) / 60);
    const k = c * rows + (days ? Math.floor(within / 15) : within);
    cells.set(k, Math.max(cells.get(k) ?? 0, n));
  }
  return { from, column, columns, rows, minutes: days ? 15 : 1, cells, rowName: (r) => (days ? `${two(Math.floor(r / 4))}:${two((r % 4) * 15)}` : ":" + two(r)) };
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
  const name = zoneName(zone);
  const offsets = new Map<number, number>(); // of an hour: changes of the clock are at full hours nearly everywhere
  for (const [t, n] of load) {
    const hour = Math.floor(t / 3600);
    let off = offsets.get(hour);
    if (off === undefined) {
      const p = parts(hour * 3_600_000, name);
      off = Number(p["hour"]) * 60 + Number(p["minute"]);
      offsets.set(hour, off);
    }
    const minute = (off + Math.floor((t % 3600) / 60)) % 1440;
    const i = Math.floor(minute / 10);
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
  const out: Stretch[] = [];
  const add = (a: number, b: number) => {
    const last = out[out.length - 1];
    if (b <= from || a >= to) return;
    if (last && a <= last.to) last.to = Math.max(last.to, b);
    else out.push({ from: Math.max(a, from), to: Math.min(b, to) });
  };
  const first = parts(from * 1000, name);
  let day = Date.UTC(Number(first["year"]), Number(first["month"]) - 1, Number(first["day"]));
  for (; instant(day, name) < to; day += 86_400_000) {
    const d = new Date(day);
    const iso = d.toISOString().slice(0, 10);
    if (c.dates.includes(iso) || c.yearly.includes(iso.slice(5)) || c.weekdays.includes(names[d.getUTCDay()] ?? "")) add(instant(day, name), instant(day + 86_400_000, name));
  }
  for (const w of c.windows) add(instant(Date.parse(wall(w.from)), name), instant(Date.parse(wall(w.to)), name));
  return out.sort((a, b) => a.from - b.from);
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
