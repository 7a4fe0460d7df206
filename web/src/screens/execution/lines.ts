// The lines of a log as they come: all that were written, then what is written, until the execution has ended.

import { useEffect, useRef, useState } from "react";
import { address, get, isProblem, parse, type Log, type LoggedLine } from "../../api";

export type Reading = { lines: LoggedLine[]; state: "reading" | "live" | "ended" | "broken"; error?: unknown };

const pace = 150; // ms between two drawings
const again = 5000; // after a stream that was refused
const silence = 12_000; // a stream beats every five seconds; one that is silent for longer hangs

/**
 * useLines reads the log of an execution by one stream. Where streams are not to be had it reads what is there, page by
 * page, and again until the execution is final.
 */
export function useLines(id: string, final: boolean): Reading {
  const [, draw] = useState(0);
  const reading = useRef<Reading>({ lines: [], state: "reading" });
  const done = useRef(final);
  done.current = final;
  useEffect(() => {
    const now: Reading = { lines: [], state: "reading" };
    reading.current = now;
    const seen = new Set<string>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let over = false;
    const changed = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        now.lines = [...now.lines]; // another list, so that what depends on it looks again
        draw((n) => n + 1);
      }, pace);
    };
    const take = (l: LoggedLine) => {
      if (seen.has(l.id)) return;
      seen.add(l.id);
      now.lines.push(l);
      changed();
    };
    const become = (state: Reading["state"], error?: unknown) => {
      if (state === now.state && error === now.error) return;
      now.state = state;
      now.error = error;
      changed();
    };
    const path = `/executions/${encodeURIComponent(id)}/logs`;
    const pages = async () => {
      const whole = done.current; // before the lines: what was final then writes no more
      let after = now.lines[now.lines.length - 1]?.id ?? "";
      do {
        const page = await get<Log>(path, { limit: 1000, after });
        if (over) return;
        page.lines.forEach(take);
        after = page.pagination.next_cursor ?? "";
      } while (after);
      become(whole ? "ended" : "live");
    };
    let source: EventSource | undefined;
    let retry: ReturnType<typeof setTimeout> | undefined;
    let heardAt = 0;
    const refused = async () => {
      try {
        await pages();
      } catch (e) {
        if (over) return;
        become("broken", e);
        if (isProblem(e, 400, 401, 403, 404)) return;
      }
      if (!over && now.state !== "ended") retry = setTimeout(open, again);
    };
    const open = () => {
      clearTimeout(retry);
      if (source || over || document.hidden || now.state === "ended") return;
      const after = now.lines[now.lines.length - 1]?.id;
      const from = new EventSource(address(path, { follow: true, after }));
      source = from;
      heardAt = Date.now();
      const heard = () => {
        heardAt = Date.now();
        if (now.state !== "ended") become("live");
      };
      from.onopen = heard;
      from.addEventListener("beat", heard);
      from.addEventListener("line", (e) => {
        heard();
        take(parse((e as MessageEvent<string>).data) as LoggedLine);
      });
      from.addEventListener("end", () => {
        from.close();
        become("ended");
      });
      from.onerror = () => {
        if (from.readyState !== EventSource.CLOSED || over || source !== from) return;
        source = undefined;
        void refused();
      };
    };
    const close = () => {
      clearTimeout(retry);
      source?.close();
      source = undefined;
    };
    const watch = setInterval(() => {
      if (!source || now.state === "ended" || Date.now() - heardAt < silence) return;
      close();
      open();
    }, 1000);
    // A page that nobody looks at lets go of its stream; when it is looked at again it goes on behind the last line.
    let hidden: ReturnType<typeof setTimeout> | undefined;
    const look = () => {
      clearTimeout(hidden);
      if (!document.hidden) return open();
      hidden = setTimeout(close, 5000);
    };
    document.addEventListener("visibilitychange", look);
    open();
    draw((n) => n + 1);
    return () => {
      over = true;
      clearTimeout(timer);
      clearTimeout(hidden);
      clearInterval(watch);
      document.removeEventListener("visibilitychange", look);
      close();
    };
  }, [id]);
  return reading.current;
}

export type Block = { key: string; lines: LoggedLine[]; from: number };
export type Group = { key: string; attempt: number; blocks: Block[]; count: number };

export const blockSize = 250;

/** groupsOf parts a log by attempt, and each attempt into blocks. A block that is full stays the same object, so that it is not drawn again. */
export function groupsOf(lines: LoggedLine[], before: Group[]): Group[] {
  const out: Group[] = [];
  let group: Group | undefined;
  let block: Block | undefined;
  lines.forEach((l, i) => {
    const key = l.id.slice(0, l.id.indexOf("."));
    if (!group || group.key !== key) out.push((group = { key, attempt: l.attempt, blocks: [], count: 0 }));
    if (group.count % blockSize === 0) group.blocks.push((block = { key: l.id, lines: [], from: i }));
    block?.lines.push(l);
    group.count++;
  });
  const known = new Map(before.flatMap((g) => g.blocks).map((b) => [b.key, b]));
  for (const g of out)
    g.blocks = g.blocks.map((b) => {
      const k = known.get(b.key);
      return k && k.lines.length === b.lines.length && k.from === b.from ? k : b;
    });
  return out;
}
