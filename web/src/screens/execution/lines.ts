// The lines of a log as they come: all that were written, then what is written, until the execution has ended.

import { useEffect, useRef, useState } from "react";
import { address, get, isProblem, parse, type Log, type LoggedLine } from "../../api";

export type Reading = { lines: LoggedLine[]; state: "reading" | "live" | "ended" | "broken"; error?: unknown };

const pace = 150; // ms between two drawings

/** useLines reads the log of an execution by one stream. Where streams are not to be had it reads what is there, page by page. */
export function useLines(id: string): Reading {
  const [, draw] = useState(0);
  const reading = useRef<Reading>({ lines: [], state: "reading" });
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
      now.state = state;
      if (error !== undefined) now.error = error;
      changed();
    };
    const path = `/executions/${encodeURIComponent(id)}/logs`;
    const pages = async () => {
      let after = now.lines[now.lines.length - 1]?.id ?? "";
      for (;;) {
        const page = await get<Log>(path, { limit: 1000, after });
        if (over) return;
        page.lines.forEach(take);
        after = page.pagination.next_cursor ?? "";
        if (!after) return become("ended");
      }
    };
    let source: EventSource | undefined;
    const open = () => {
      if (source || over || now.state === "ended") return;
      const after = now.lines[now.lines.length - 1]?.id;
      const from = new EventSource(address(path, { follow: true, after }));
      source = from;
      from.onopen = () => now.state === "reading" && become("live");
      from.addEventListener("line", (e) => take(parse((e as MessageEvent<string>).data) as LoggedLine));
      from.addEventListener("end", () => {
        from.close();
        become("ended");
      });
      from.onerror = () => {
        if (from.readyState !== EventSource.CLOSED || over || source !== from) return;
        pages().catch((e: unknown) => !over && become("broken", isProblem(e) ? e : undefined));
      };
    };
    // A page that nobody looks at lets go of its stream; when it is looked at again it goes on behind the last line.
    let hidden: ReturnType<typeof setTimeout> | undefined;
    const look = () => {
      clearTimeout(hidden);
      if (!document.hidden) return open();
      hidden = setTimeout(() => {
        source?.close();
        source = undefined;
      }, 5000);
    };
    document.addEventListener("visibilitychange", look);
    open();
    draw((n) => n + 1);
    return () => {
      over = true;
      clearTimeout(timer);
      clearTimeout(hidden);
      document.removeEventListener("visibilitychange", look);
      source?.close();
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
