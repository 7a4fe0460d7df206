// What a person chose for this browser: theme, zone, live or not. The zone can also stand in the address (tz=utc), so
// that a link shows what its sender saw.

import { useSyncExternalStore } from "react";
import { setParams, useSearch } from "./router";

export type Zone = "utc" | "local" | "job";
export type Theme = "system" | "dark" | "light";

const listeners = new Set<() => void>();
const subscribe = (f: () => void) => (listeners.add(f), () => void listeners.delete(f));

/** recall is what was kept in this browser, or the default where nothing was, or nothing can be. */
export function recall<T>(name: string, otherwise: T): T {
  try {
    const text = localStorage.getItem("carillon." + name);
    return text === null ? otherwise : (JSON.parse(text) as T);
  } catch {
    return otherwise;
  }
}

/** keep remembers a value in this browser. */
export function keep(name: string, value: unknown) {
  try {
    localStorage.setItem("carillon." + name, JSON.stringify(value));
  } catch {
    // Private windows keep nothing; the page works all the same.
  }
  listeners.forEach((f) => f());
}

const known = new Map<string, { text: string | null; value: unknown }>();

/** usePref is a remembered value that follows changes elsewhere in the page. */
export function usePref<T>(name: string, otherwise: T): [T, (v: T) => void] {
  const value = useSyncExternalStore(subscribe, () => {
    let text: string | null = null;
    try {
      text = localStorage.getItem("carillon." + name);
    } catch {
      // as above
    }
    const k = known.get(name);
    if (k && k.text === text) return k.value as T;
    const v = recall(name, otherwise);
    known.set(name, { text, value: v });
    return v;
  });
  return [value, (v) => keep(name, v)];
}

const zones: Zone[] = ["utc", "local", "job"];

/** useZone is the zone that times are shown in, and a way to choose the next one. */
export function useZone(): [Zone, () => void] {
  const [kept, set] = usePref<Zone>("zone", "local");
  const named = new URLSearchParams(useSearch()).get("tz") as Zone | null;
  const zone = named && zones.includes(named) ? named : kept;
  return [
    zone,
    () => {
      const next = zones[(zones.indexOf(zone) + 1) % zones.length] ?? "local";
      set(next);
      setParams({ tz: next });
    },
  ];
}

/** applyTheme makes the page dark or light. */
export function applyTheme(t: Theme) {
  if (t === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = t;
}
