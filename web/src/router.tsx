// The address bar is the state: paths choose a screen, parameters choose what it shows. Back and forward simply work.

import { useCallback, useEffect, useRef, useSyncExternalStore, type AnchorHTMLAttributes, type MouseEvent } from "react";

const listeners = new Set<() => void>();
const changed = () => listeners.forEach((f) => f());

// What would be lost by leaving, and where it is: a form that was not sent.
let guard: { ask: string; at: string } | undefined;
const here = () => location.pathname + location.search + location.hash;
const stays = () => guard !== undefined && !confirm(guard.ask);

addEventListener("popstate", () => {
  if (guard && here() !== guard.at) {
    if (stays()) return history.pushState(null, "", guard.at);
    guard = undefined;
  }
  changed();
});

/** useGuard asks before a page with something unsaved is left, in whatever way. The function it returns lets it go. */
export function useGuard(on: boolean, ask: string): () => void {
  const free = useRef(false);
  useEffect(() => {
    if (!on) return;
    const mine = { ask, at: here() };
    guard = mine;
    const before = (e: BeforeUnloadEvent) => {
      if (!free.current) e.preventDefault();
    };
    addEventListener("beforeunload", before);
    return () => {
      if (guard === mine) guard = undefined;
      removeEventListener("beforeunload", before);
    };
  }, [on, ask]);
  return () => {
    free.current = true;
    guard = undefined;
  };
}

function subscribe(f: () => void) {
  listeners.add(f);
  return () => void listeners.delete(f);
}

/** navigate goes to an address of the dashboard; replace leaves no entry in the history. */
export function navigate(to: string, o: { replace?: boolean; keepScroll?: boolean } = {}) {
  if (to === here()) return;
  const path = location.pathname;
  if (stays()) return;
  guard = undefined;
  if (o.replace) history.replaceState(history.state, "", to);
  else history.pushState(null, "", to);
  changed();
  if (!o.keepScroll && !o.replace && location.pathname !== path) {
    scrollTo(0, 0);
    // Whoever cannot see the page change hears it: the heading of the new one is read.
    requestAnimationFrame(() => document.getElementById("main")?.focus({ preventScroll: true }));
  }
}

const pathNow = () => location.pathname;
const searchNow = () => location.search;
const hashNow = () => location.hash;

export const usePath = () => useSyncExternalStore(subscribe, pathNow);
export const useSearch = () => useSyncExternalStore(subscribe, searchNow);
export const useHash = () => useSyncExternalStore(subscribe, hashNow);

/** useParam is one parameter of the address, and a way to set it. Setting it takes the cursor of a list out: another list begins. */
export function useParam(name: string, initial = ""): [string, (value: string, o?: { push?: boolean }) => void] {
  const search = useSearch();
  const value = new URLSearchParams(search).get(name) ?? initial;
  const set = useCallback(
    (v: string, o: { push?: boolean } = {}) => setParams({ [name]: v === initial ? null : v, ...(name === "cursor" ? {} : { cursor: null }) }, o),
    [name, initial],
  );
  return [value, set];
}

/** setParams changes several parameters at once; null takes one out. */
export function setParams(values: Record<string, string | null>, o: { push?: boolean } = {}) {
  navigate(withParams(values), { replace: !o.push, keepScroll: true });
}

/** withParams is the present address with other parameters. */
export function withParams(values: Record<string, string | null>): string {
  const q = new URLSearchParams(location.search);
  for (const [k, v] of Object.entries(values)) {
    if (v === null || v === "") q.delete(k);
    else q.set(k, v);
  }
  const s = q.toString();
  return location.pathname + (s ? "?" + s : "") + location.hash;
}

/** match reads the parts of a path that a pattern such as /jobs/:id names; undefined where it does not fit. */
export function match(pattern: string, path: string): Record<string, string> | undefined {
  const want = pattern.split("/").filter(Boolean);
  const have = path.split("/").filter(Boolean);
  const open = want[want.length - 1] === "*";
  if (open ? have.length < want.length - 1 : have.length !== want.length) return undefined;
  const found: Record<string, string> = {};
  for (const [i, w] of want.entries()) {
    if (w === "*") {
      found["*"] = have.slice(i).join("/");
      break;
    }
    const h = have[i] ?? "";
    if (!w.startsWith(":")) {
      if (w !== h) return undefined;
      continue;
    }
    try {
      found[w.slice(1)] = decodeURIComponent(h);
    } catch {
      return undefined;
    }
  }
  return found;
}

type LinkProps = AnchorHTMLAttributes<HTMLAnchorElement> & { to: string; replace?: boolean };

/** Link is an ordinary link that does not load the page anew. */
export function Link({ to, replace, onClick, ...rest }: LinkProps) {
  const click = (e: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(e);
    if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey || rest.target) return;
    e.preventDefault();
    navigate(to, { replace: replace ?? false });
  };
  return <a href={to} onClick={click} {...rest} />;
}
