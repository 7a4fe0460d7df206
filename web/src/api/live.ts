// What changes, as it changes: one stream for the whole page. Where streams do not work it asks again every few
// seconds; where the page is not looked at, nothing moves.
//
// Two things are told apart: when the stream last said something (it beats every five seconds, so one that is silent for
// longer hangs, and is opened anew), and when the server did, by the stream or by any answer: only if that is long ago
// what is shown may be old.

import { useCallback, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { usePref } from "../prefs";
import { get, whenAnswered } from "./http";
import { parse } from "./json";
import type { Change } from "./types";

export type LiveState = "off" | "connecting" | "live" | "polling" | "stale";
type Listener = (changes: Change[], all: boolean) => void;

const pace = 250; // ms between two batches that screens are told of
const pollEvery = 5000;
const staleAfter = 10_000;
const retryAfter = 15_000; // when a stream was refused

const listeners = new Set<Listener>();
const watchers = new Set<() => void>();
let source: EventSource | undefined;
let state: LiveState = "off";
let heardAt = Date.now(); // when the server last said anything
let streamAt = 0; // when the stream last said anything, or was opened
let last = "";
let batch: Change[] = [];
let all = false;
let timer: ReturnType<typeof setTimeout> | undefined;
let poll: ReturnType<typeof setInterval> | undefined;
let watch: ReturnType<typeof setInterval> | undefined;
let retry: ReturnType<typeof setTimeout> | undefined;

function become(s: LiveState) {
  if (s === state) return;
  state = s;
  watchers.forEach((f) => f());
}

function flush() {
  timer = undefined;
  const b = batch;
  const a = all;
  batch = [];
  all = false;
  listeners.forEach((f) => f(b, a));
}

function collect(changes: Change[], everything = false) {
  batch.push(...changes);
  all ||= everything;
  timer ??= setTimeout(flush, pace);
}

function connect() {
  if (source) return;
  clearTimeout(retry);
  if (state === "off") {
    heardAt = Date.now();
    become("connecting");
  }
  watch ??= setInterval(look, 1000);
  streamAt = Date.now();
  const s = new EventSource("/api/v1/events/stream" + (last ? "?last_event_id=" + encodeURIComponent(last) : ""));
  source = s;
  const up = (e: MessageEvent) => {
    if (e.lastEventId) last = e.lastEventId;
    heardAt = streamAt = Date.now();
    clearInterval(poll);
    poll = undefined;
    become("live");
  };
  s.addEventListener("ready", up);
  s.addEventListener("beat", up);
  s.addEventListener("changes", (e) => {
    up(e);
    collect((parse(e.data as string) as { changes: Change[] }).changes);
  });
  s.addEventListener("reset", (e) => {
    up(e);
    collect([], true);
  });
  s.onerror = () => {
    if (source !== s) return;
    without();
    // The browser tries again by itself, but not where the stream was refused.
    if (s.readyState !== EventSource.CLOSED) return;
    source = undefined;
    retry = setTimeout(connect, retryAfter);
  };
}

// without is what is done while there is no stream: the page reads anew now and then.
function without() {
  if (state === "live") become("connecting");
  poll ??= setInterval(ask, pollEvery);
}

function ask() {
  if (document.hidden) return;
  collect([], true);
  // Where no screen has anything to read, or one that is being read stands still, this says whether the server is there.
  if (Date.now() - heardAt > pollEvery / 2) get("/session").catch(() => {});
}

// look notices what tells of itself by nothing: a stream that hangs, a server that does not answer.
function look() {
  const now = Date.now();
  if (source && now - streamAt > staleAfter) {
    source.close();
    source = undefined;
    without();
    ask();
    connect();
  }
  if (state !== "live" && now - heardAt > staleAfter) become("stale");
}

// An answer says that what is shown is not older than the last time that it was asked for.
whenAnswered(() => {
  heardAt = Date.now();
  if (poll !== undefined) become("polling");
  else if (state === "stale") become("connecting");
});

function disconnect() {
  source?.close();
  source = undefined;
  clearInterval(poll);
  poll = undefined;
  clearInterval(watch);
  watch = undefined;
  clearTimeout(retry);
  become("off");
}

// A hidden page lets go of its stream: browsers allow a server six connections, and people open many tabs. When it is
// looked at again it goes on behind what it saw last.
let hidden: ReturnType<typeof setTimeout> | undefined;
function adjust() {
  clearTimeout(hidden);
  if (listeners.size === 0) disconnect();
  else if (!document.hidden) connect();
  else hidden = setTimeout(disconnect, 5000);
}
document.addEventListener("visibilitychange", adjust);

const subscribe = (f: () => void) => (watchers.add(f), () => void watchers.delete(f));

/** useLiveState is how the stream does, for the sign in the head of the page. */
export function useLiveState(): LiveState {
  return useSyncExternalStore(subscribe, () => state);
}

/** useLiveSwitch is whether the person wants the page to follow changes. */
export const useLiveSwitch = () => usePref("live", true);

export type Live = {
  /** Whether something is held back because someone is reading, and how many changes, where they were told. */
  held: boolean;
  fresh: number;
  /** Shows them now. */
  show(): void;
  /** Stands still while it is told so: a row is pointed at by keys. */
  hold(on: boolean): void;
  /** To be spread over the region that stands still while the pointer is in it. */
  region: { onPointerMove(e: { movementX: number; movementY: number }): void; onPointerLeave(): void };
};

/**
 * useLive reads anew what a screen shows when something that it is about has changed: at most once a second, never two
 * at a time, and not while the page is hidden, text is selected, the pointer is over the region or hold is true. What is held
 * back is counted, for a pill that says so.
 */
export function useLive(o: { match?: (c: Change) => boolean; refresh: () => Promise<unknown>; hold?: boolean }): Live {
  const [on] = useLiveSwitch();
  const [fresh, setFresh] = useState<number>();
  const over = useRef(false);
  const pointed = useRef(false);
  const ref = useRef(o);
  ref.current = o;
  const work = useRef({ busy: false, due: false, at: 0, count: 0 });

  const run = useRef(() => {});
  const again = useRef(() => {});
  run.current = () => {
    const w = work.current;
    if (w.busy || !w.due) return;
    const wait = w.at + 1000 - Date.now();
    if (wait > 0) {
      setTimeout(() => again.current(), wait); // by then there may be a reason to stand still
      return;
    }
    w.due = false;
    w.busy = true;
    w.at = Date.now();
    w.count = 0;
    setFresh(undefined);
    void ref.current
      .refresh()
      .catch(() => {})
      .finally(() => {
        w.busy = false;
        run.current();
      });
  };

  useEffect(() => {
    if (!on) return;
    const held = () => document.hidden || !document.hasFocus() || over.current || pointed.current || ref.current.hold === true || selecting();
    const listen: Listener = (changes, everything) => {
      const about = ref.current.match ? changes.filter(ref.current.match) : changes;
      const w = work.current;
      if (about.length === 0 && !everything && !w.due) return;
      w.count += about.length;
      w.due = true;
      if (held()) setFresh(w.count); // none where nobody knows how many: it stands still all the same
      else run.current();
    };
    // When the reason to stand still is gone, what was held back is shown.
    const look = () => {
      if (!work.current.due) return;
      if (held()) setFresh(work.current.count);
      else run.current();
    };
    again.current = look;
    listeners.add(listen);
    adjust();
    addEventListener("focus", look);
    document.addEventListener("visibilitychange", look);
    document.addEventListener("selectionchange", look);
    return () => {
      listeners.delete(listen);
      setTimeout(adjust, 1000); // the next screen will want it too
      removeEventListener("focus", look);
      document.removeEventListener("visibilitychange", look);
      document.removeEventListener("selectionchange", look);
    };
  }, [on]);

  useEffect(() => {
    if (!o.hold) again.current();
  }, [o.hold]);
  const hold = useCallback((on: boolean) => {
    pointed.current = on;
    if (!on) again.current();
  }, []);
  return {
    held: fresh !== undefined,
    fresh: fresh ?? 0,
    hold,
    show: () => {
      work.current.due = true;
      work.current.at = 0;
      run.current();
    },
    region: {
      // Who points there moves; a pointer that lies where the list came to be does not.
      onPointerMove: (e) => {
        if (e.movementX !== 0 || e.movementY !== 0) over.current = true;
      },
      onPointerLeave: () => {
        over.current = false;
        again.current();
      },
    },
  };
}

function selecting(): boolean {
  const s = getSelection();
  return s !== null && !s.isCollapsed;
}
