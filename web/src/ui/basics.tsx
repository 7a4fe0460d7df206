// The smallest parts: buttons, states, times, durations, numbers.

import { useSyncExternalStore, type ButtonHTMLAttributes, type ReactNode } from "react";
import { serverNow } from "../api/http";
import { useZone } from "../prefs";
import { Link } from "../router";
import { copy } from "./feedback";
import { Icon, type IconName } from "./icons";
import { duration, exactTime, relative } from "./format";

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & { kind?: "primary" | "danger" | "ghost"; small?: boolean; icon?: IconName; tip?: string };

export function Button({ kind, small, icon, tip, className, children, type = "button", ...rest }: ButtonProps) {
  const c = ["btn", kind, small && "small", className].filter(Boolean).join(" ");
  return (
    <button type={type} className={c} data-tip={tip} {...rest}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

export function LinkButton({ to, kind, small, icon, children }: { to: string; kind?: "primary" | "ghost"; small?: boolean; icon?: IconName; children: ReactNode }) {
  return (
    <Link to={to} className={["btn", kind, small && "small"].filter(Boolean).join(" ")}>
      {icon && <Icon name={icon} />}
      {children}
    </Link>
  );
}

export type Tone = "good" | "bad" | "busy" | "warn" | "calm";
type Shape = "disc" | "cross" | "play" | "ring" | "again" | "clock" | "bar" | "dash" | "pause" | "square" | "triangle";

const states: Record<string, [Tone, Shape, string]> = {
  SUCCEEDED: ["good", "disc", "Succeeded"],
  FAILED: ["bad", "cross", "Failed"],
  TIMED_OUT: ["bad", "clock", "Timed out"],
  RUNNING: ["busy", "play", "Running"],
  PENDING: ["calm", "ring", "Pending"],
  WAITING: ["calm", "clock", "Waiting"],
  RETRYING: ["warn", "again", "Retrying"],
  CANCELLING: ["warn", "bar", "Cancelling"],
  CANCELLED: ["calm", "bar", "Cancelled"],
  SKIPPED: ["calm", "dash", "Skipped"],
  EXPIRED: ["calm", "clock", "Expired"],
  NOT_RUN: ["calm", "bar", "Not run"],
  LOST: ["bad", "triangle", "Lost"],
  PARKED: ["busy", "clock", "Waiting for its target"],
  ACTIVE: ["good", "disc", "Active"],
  PAUSED: ["warn", "pause", "Paused"],
  COMPLETED: ["calm", "square", "Completed"],
  DELETED: ["calm", "bar", "Deleted"],
  IDLE: ["good", "ring", "Idle"],
  BUSY: ["busy", "play", "Busy"],
  DRAINING: ["warn", "bar", "Draining"],
  CORDONED: ["warn", "bar", "Cordoned"],
  DEAD: ["bad", "cross", "Dead"],
  LATE: ["warn", "triangle", "Late"],
  BLOCKED: ["bad", "bar", "Blocked"],
  ATTEMPTS_EXHAUSTED: ["bad", "again", "Attempts exhausted"],
  NOT_RETRYABLE: ["bad", "bar", "Not retryable"],
  POISON: ["bad", "triangle", "Poison"],
};

/** toneOf is the tone of a state, for plots and strips. */
export const toneOf = (state: string): Tone => states[state]?.[0] ?? "calm";
/** wordOf is a state in words. */
export const wordOf = (state: string): string => states[state]?.[2] ?? state;

const shapes: Record<Shape, ReactNode> = {
  disc: <circle cx="6" cy="6" r="4.2" fill="currentColor" />,
  cross: <path d="m2.8 2.8 6.4 6.4M9.2 2.8 2.8 9.2" stroke="currentColor" strokeWidth="2.2" strokeLinecap="round" />,
  play: <path d="M3.5 2v8l6.2-4z" fill="currentColor" />,
  ring: <circle cx="6" cy="6" r="3.8" fill="none" stroke="currentColor" strokeWidth="1.7" />,
  again: <path d="M9.7 6A3.7 3.7 0 1 1 8.4 3.2M8.7 1v2.5H6.3" fill="none" stroke="currentColor" strokeWidth="1.5" strokeLinecap="round" />,
  clock: <path d="M6 1.8a4.2 4.2 0 1 0 0 8.4 4.2 4.2 0 0 0 0-8.4zM6 3.8V6l1.6 1" fill="none" stroke="currentColor" strokeWidth="1.4" strokeLinecap="round" />,
  bar: <path d="M6 1.8a4.2 4.2 0 1 0 0 8.4 4.2 4.2 0 0 0 0-8.4zM3.2 8.8l5.6-5.6" fill="none" stroke="currentColor" strokeWidth="1.5" />,
  dash: <path d="M2.2 6h7.6" stroke="currentColor" strokeWidth="2.2" strokeLinecap="round" strokeDasharray="2 3" />,
  pause: <path d="M4 2.5v7M8 2.5v7" stroke="currentColor" strokeWidth="2" strokeLinecap="round" />,
  square: <rect x="2.5" y="2.5" width="7" height="7" rx="1" fill="currentColor" />,
  triangle: <path d="M6 1.8 10.6 10H1.4z" fill="currentColor" />,
};

/** glyphOf is the shape of a state, 12 by 12, for drawings. */
export const glyphOf = (state: string): ReactNode => shapes[states[state]?.[1] ?? "ring"];

/** State is a status as shape, colour and word. word says something else than the status itself. */
export function State({ of, word, tip }: { of: string; word?: string; tip?: string }) {
  const [tone, shape, said] = states[of] ?? ["calm", "ring", of];
  return (
    <span className={"state " + tone} data-tip={tip} tabIndex={tip ? 0 : undefined}>
      <svg viewBox="0 0 12 12" aria-hidden="true">
        {shapes[shape]}
      </svg>
      {word ?? said}
    </span>
  );
}

// One clock for all times that are shown.
const tickers = new Set<() => void>();
let tick = serverNow();
setInterval(() => {
  if (document.hidden || tickers.size === 0) return;
  tick = serverNow();
  tickers.forEach((f) => f());
}, 1000);

const subscribe = (f: () => void) => {
  if (Math.abs(serverNow() - tick) > 1000) tick = serverNow();
  tickers.add(f);
  return () => void tickers.delete(f);
};

/** useNow is the instant, again each second. */
export const useNow = () => useSyncExternalStore(subscribe, () => tick);

/** Time is an instant: relative, with the exact one in the chosen zone on hover and focus. zone is the job's, if there is one. */
export function Time({ at, zone, exact }: { at: string | null | undefined; zone?: string | undefined; exact?: boolean }) {
  const now = useNow();
  const [chosen] = useZone();
  if (!at) return <span className="dim">–</span>;
  const t = Date.parse(at);
  const full = exactTime(t, chosen, zone);
  return exact ? (
    <time dateTime={at} data-tip={relative(t, now)} tabIndex={0}>
      {full}
    </time>
  ) : (
    <time dateTime={at} data-tip={full} tabIndex={0}>
      {relative(t, now)}
    </time>
  );
}

/** Duration is a length of time, given in milliseconds. */
export function Duration({ ms }: { ms: number | null | undefined }) {
  if (ms === null || ms === undefined) return <span className="dim">–</span>;
  return (
    <span className="nowrap" data-tip={ms >= 1000 ? count(ms) + " ms" : undefined}>
      {duration(ms)}
    </span>
  );
}

/** bytes is an amount of them, for people. */
export function bytes(n: number): string {
  let unit = 0;
  for (; n >= 1024 && unit < 4; unit++) n /= 1024;
  return `${unit === 0 || n >= 100 ? Math.round(n) : +n.toFixed(1)} ${["bytes", "KiB", "MiB", "GiB", "TiB"][unit] ?? ""}`;
}

const whole = new Intl.NumberFormat("en");
/** count is a whole number with its thousands parted. */
export const count = (n: number) => whole.format(n);
/** counted is a number with the word for what is counted: 1 job, 2 jobs. */
export const counted = (n: number, one: string, many = one + "s") => count(n) + " " + (n === 1 ? one : many);
/** percent is a share of 0 to 1; 100 % only where it is all, 0 % only where it is none. */
export function percent(share: number): string {
  const p = share * 100;
  if (p > 99.9 && p < 100) return "> 99.9 %";
  if (p > 0 && p < 0.1) return "< 0.1 %";
  return (p % 1 === 0 ? p.toFixed(0) : p.toFixed(1)) + " %";
}

/** Tags are a thing's tags, each a link to what else carries it. */
export function Tags({ of, to }: { of: string[]; to?: (tag: string) => string }) {
  return (
    <span className="row tight tags">
      {of.map((t) =>
        to ? (
          <Link key={t} className="tag" to={to(t)}>
            {t}
          </Link>
        ) : (
          <span key={t} className="tag">
            {t}
          </span>
        ),
      )}
    </span>
  );
}

/** Id is an id, shortened, whole on hover, copied on click. */
export function Id({ of }: { of: string }) {
  return (
    <button type="button" className="btn ghost small mono" data-tip={of + "\nClick to copy"} onClick={() => copy(of, "Id copied")}>
      <span className="sr">Copy </span>
      {of.length > 13 ? of.slice(0, 8) + "…" + of.slice(-4) : of}
    </button>
  );
}
