// Times and durations in words. Nothing here knows React.

import type { Zone } from "../prefs";

/** duration is a length of time in milliseconds, to about three digits. */
export function duration(ms: number): string {
  if (ms < 0) return "−" + duration(-ms);
  if (ms < 1) return ms === 0 ? "0 ms" : "< 1 ms";
  if (ms < 1000) return Math.round(ms) + " ms";
  const s = ms / 1000;
  if (s < 59.95) return (s < 10 ? s.toFixed(1).replace(/\.0$/, "") : String(Math.round(s))) + " s";
  return two(Math.round(s));
}

function two(s: number): string {
  const parts: [number, string][] = [
    [Math.floor(s / 86400), "d"],
    [Math.floor(s / 3600) % 24, "h"],
    [Math.floor(s / 60) % 60, "min"],
    [s % 60, "s"],
  ];
  const i = parts.findIndex(([n]) => n > 0);
  return parts
    .slice(i, i + 2)
    .filter(([n]) => n > 0)
    .map(([n, u]) => n + " " + u)
    .join(" ");
}

/** relative is an instant as seen from another: "in 3 s", "2 min ago". */
export function relative(t: number, now: number): string {
  const d = t - now;
  const a = Math.abs(d);
  if (a < 1000) return "now";
  let text: string;
  if (a < 59_500) text = Math.round(a / 1000) + " s";
  else if (a < 3_570_000) text = Math.round(a / 60_000) + " min";
  else if (a < 48 * 3_600_000) text = two(Math.round(a / 60_000) * 60);
  else text = Math.round(a / 86_400_000) + " d";
  return d > 0 ? "in " + text : text + " ago";
}

const formats = new Map<string, Intl.DateTimeFormat>();

function format(zone: string | undefined): Intl.DateTimeFormat {
  const k = zone ?? "";
  let f = formats.get(k);
  if (!f) {
    const o: Intl.DateTimeFormatOptions = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23", timeZoneName: "shortOffset" };
    try {
      f = new Intl.DateTimeFormat("en", zone ? { ...o, timeZone: zone } : o);
    } catch {
      f = new Intl.DateTimeFormat("en", { ...o, timeZone: "UTC" }); // a zone that this browser does not know
    }
    formats.set(k, f);
  }
  return f;
}

/** zoneName is the IANA name of what is chosen. */
export function zoneName(chosen: Zone, job?: string): string {
  if (chosen === "utc") return "UTC";
  if (chosen === "job" && job) return job;
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** parts are the pieces of an instant in a zone. */
export function parts(t: number, zone: string): Record<string, string> {
  return Object.fromEntries(format(zone).formatToParts(t).map((p) => [p.type, p.value]));
}

/** exactTime is an instant in full, with its zone: 2026-11-16 18:43:35.120 UTC+1 (Europe/Berlin). */
export function exactTime(t: number, chosen: Zone, job?: string): string {
  if (Number.isNaN(t)) return "not a time";
  const zone = zoneName(chosen, job);
  const p = parts(t, zone);
  const ms = p["fractionalSecond"] === "000" ? "" : "." + p["fractionalSecond"];
  const off = (p["timeZoneName"] ?? "").replace("GMT", "UTC");
  return `${p["year"]}-${p["month"]}-${p["day"]} ${p["hour"]}:${p["minute"]}:${p["second"]}${ms} ${off}${zone === "UTC" ? "" : ` (${zone})`}`;
}

/** shortTime is an instant without its zone, for axes and dense tables that name it elsewhere. */
export function shortTime(t: number, chosen: Zone, job?: string, seconds = true): string {
  const p = parts(t, zoneName(chosen, job));
  return `${p["year"]}-${p["month"]}-${p["day"]} ${p["hour"]}:${p["minute"]}${seconds ? ":" + p["second"] : ""}`;
}

/** clockTime is hours and minutes of an instant. */
export function clockTime(t: number, chosen: Zone, job?: string): string {
  const p = parts(t, zoneName(chosen, job));
  return `${p["hour"]}:${p["minute"]}`;
}

const library = /^(runtime[./]|internal\/runtime\/|reflect\.|panic|github\.com\/carillon-jobs\/carillon\/worker\.)/;

/** headline is the first line of an error's message and, where a stack follows, the first frame of it that is the user's own. */
export function headline(message: string): string {
  const [first = "", ...rest] = message.trim().split(/\r?\n/);
  if (rest.length === 0) return first;
  for (let i = 1; i < rest.length; i++) {
    const place = /^\t(\S+\.go:\d+)/.exec(rest[i] ?? "")?.[1];
    const from = (rest[i - 1] ?? "").replace(/\([^(]*$/, "");
    if (place && from && !library.test(from)) return `${first} (in ${from.slice(from.lastIndexOf("/") + 1)}, ${place.slice(place.lastIndexOf("/") + 1)})`;
  }
  return first + " …";
}
