// The log of an execution: it comes as it is written, each line can be linked, long stretches are folded.

import { memo, useEffect, useMemo, useRef, useState, type KeyboardEvent, type MouseEvent, type ReactNode } from "react";
import { type Execution, type LoggedLine } from "../../api";
import { usePref, useZone } from "../../prefs";
import { navigate, useHash, useParam, withParams } from "../../router";
import { Button, Check, copy, count, Empty, ErrorBox, exactTime, Icon, Loading, SelectField, shortTime, useHotkeys } from "../../ui";
import { bare, pieces } from "./ansi";
import { groupsOf, useLines, type Block, type Group } from "./lines";
import { isFinal } from "./story";

const openLines = 1500; // a log up to this length is shown whole
const longLine = 2000;

export function LogView({ e }: { e: Execution }) {
  const { lines, state, error } = useLines(e.execution_id, isFinal(e.status));
  const [attempt, setAttempt] = useParam("attempt");
  const [find, setFind] = useParam("find");
  const [wrap, setWrap] = usePref("log.wrap", true);
  const [times, setTimes] = usePref("log.times", false);
  const hash = useHash();
  const [from, to] = useMemo(() => linked(hash), [hash]);
  const [follow, setFollow] = useState(from === "");
  const [opened, setOpened] = useState<Set<string>>(new Set());
  const [at, setAt] = useState(0);
  const box = useRef<HTMLDivElement>(null);
  const input = useRef<HTMLInputElement>(null);

  const shown = useMemo(() => (attempt ? lines.filter((l) => String(l.attempt) === attempt) : lines), [lines, attempt]);
  const kept = useRef<Group[]>([]);
  const groups = useMemo(() => (kept.current = groupsOf(shown, kept.current)), [shown]);
  const needle = find.toLowerCase();
  const hits = useMemo(() => (needle ? shown.filter((l) => bare(l.text).toLowerCase().includes(needle)) : []), [shown, needle]);
  const hit = hits[Math.min(at, hits.length - 1)];
  useEffect(() => setAt(0), [needle]);

  const whole = shown.length <= openLines;
  const target = hit?.id ?? (from || undefined);
  const last = groups[groups.length - 1];
  const tail = last?.blocks[last.blocks.length - 1];
  const isOpen = (g: Group, b: Block, i: number) =>
    whole || opened.has(b.key) || b === tail || (g === groups[0] && i === 0) || (target !== undefined && b.lines.some((l) => l.id === target)) || (g === last && i === g.blocks.length - 2 && (tail?.lines.length ?? 0) < 50);

  const scrollTo = (id: string) => requestAnimationFrame(() => document.getElementById("L" + id)?.scrollIntoView({ block: "center" }));
  useEffect(() => {
    if (hit) scrollTo(hit.id);
  }, [hit?.id]);
  const known = from !== "" && shown.some((l) => l.id === from);
  useEffect(() => {
    if (known) scrollTo(from);
  }, [known, from]);
  useEffect(() => {
    const el = box.current;
    if (el && follow && !needle) el.scrollTop = el.scrollHeight;
  }, [shown.length, follow, needle]);

  const step = (d: number) => hits.length && setAt((at + d + hits.length) % hits.length);
  useHotkeys([
    { keys: "/", label: "Search the log", run: () => input.current?.select() },
    { keys: "n", label: "Next match in the log", run: () => step(1) },
    { keys: "N", label: "Previous match in the log", run: () => step(-1) },
    { keys: "y", label: "Copy a link to the match", run: () => hit && (setLink(hit.id), copy(location.href, "Link copied")) },
    { keys: "f", label: "Follow the log", run: () => setFollow(!follow) },
    { keys: "w", label: "Wrap the lines of the log", run: () => setWrap(!wrap) },
  ]);
  const search = (k: KeyboardEvent) => {
    if (k.key === "Enter") {
      k.preventDefault();
      step(k.shiftKey ? -1 : 1);
    } else if (k.key === "Escape") {
      if (find) setFind("");
      else input.current?.blur();
    }
  };
  // A click links a line; with Shift, all from the one that is linked to this.
  const setLink = (to: string) => {
    navigate(withParams({}).replace(/#.*$/, "") + "#L" + to, { replace: true, keepScroll: true });
    setFollow(false);
  };
  const link = (m: MouseEvent, id: string) => {
    if (m.metaKey || m.ctrlKey) return;
    m.preventDefault();
    setLink(m.shiftKey && from ? from + "-" + id : id);
  };
  const range = useMemo(() => within(shown, from, to), [shown, from, to]);
  const attempts = [...new Set(lines.map((l) => l.attempt))];
  const text = () => shown.map((l) => bare(l.text)).join("\n") + "\n";
  const save = () => {
    const a = document.createElement("a");
    a.href = URL.createObjectURL(new Blob([text()], { type: "text/plain" }));
    a.download = `execution-${e.execution_id}.log`;
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 10_000);
  };

  if (state === "broken" && lines.length === 0) return <ErrorBox error={error} what="The log could not be loaded" />;
  if (lines.length === 0)
    return state === "reading" ? (
      <Loading lines={6} />
    ) : state === "ended" ? (
      <Empty title="No log">The output of commands and the log of handlers appear here. Callbacks have no log; see their response under Request and response.</Empty>
    ) : (
      <Empty title="Nothing written yet">
        <span className="row execution-listening">
          <span className="dot live" /> Listening. The first line shows here as it is written.
        </span>
      </Empty>
    );
  return (
    <section className="execution-log" aria-label="Log">
      <div className="row">
        <div className="filter execution-find">
          <Icon name="search" />
          <input ref={input} className="input" type="search" aria-label="Search the log" placeholder="Search the log" value={find} onChange={(c) => setFind(c.target.value)} onKeyDown={search} spellCheck={false} autoComplete="off" />
        </div>
        {needle && (
          <span className="row tight" role="status">
            {hits.length === 0 ? "not found" : `${count(Math.min(at, hits.length - 1) + 1)} of ${count(hits.length)}`}
            <Button small disabled={hits.length === 0} onClick={() => step(-1)} aria-label="Previous match">
              ↑
            </Button>
            <Button small disabled={hits.length === 0} onClick={() => step(1)} aria-label="Next match">
              ↓
            </Button>
          </span>
        )}
        {attempts.length > 1 && (
          <div className="execution-pick">
            <SelectField label={<span className="sr">Attempt</span>} value={attempt} onChange={setAttempt} options={[["", "All attempts"], ...attempts.map((n): [string, string] => [String(n), "Attempt " + n])]} />
          </div>
        )}
        <span className="grow" />
        <Check label="Wrap" checked={wrap} onChange={setWrap} />
        <Check label="Times" checked={times} onChange={setTimes} />
        {state !== "ended" && <Check label="Follow" checked={follow} onChange={setFollow} />}
        <Button small icon="copy" onClick={() => copy(text(), `${count(shown.length)} lines copied`)}>
          Copy
        </Button>
        <Button small onClick={save}>
          Save
        </Button>
      </div>
      <div
        ref={box}
        className={"execution-lines" + (wrap ? " wrapped" : "") + (times ? " timed" : "")}
        tabIndex={0}
        role="region"
        aria-label={`Log, ${count(shown.length)} lines`}
        onScroll={(s) => {
          const el = s.currentTarget;
          const bottom = el.scrollHeight - el.scrollTop - el.clientHeight < 24;
          if (bottom !== follow && state !== "ended") setFollow(bottom);
        }}
      >
        {groups.map((g) => (
          <div key={g.key + (g.blocks[0]?.key ?? "")}>
            {(groups.length > 1 || g.attempt > 1) && (
              <div className="execution-attempt">
                Attempt {g.attempt} <span className="dim">{count(g.count)} lines</span>
              </div>
            )}
            {fold(g, isOpen).map((part) =>
              part.open ? (
                <BlockView key={part.blocks[0]?.key} b={part.blocks[0] as Block} needle={needle} hit={hit?.id ?? ""} range={range} times={times} onLink={link} />
              ) : (
                <button key={part.blocks[0]?.key} type="button" className="execution-fold" onClick={() => setOpened(new Set([...opened, ...part.blocks.slice(0, 8).map((b) => b.key)]))}>
                  ⋯ {count(part.blocks.reduce((n, b) => n + b.lines.length, 0))} lines folded; show {part.blocks.length > 8 ? `the next ${count(part.blocks.slice(0, 8).reduce((n, b) => n + b.lines.length, 0))}` : "them"}
                </button>
              ),
            )}
          </div>
        ))}
        {state === "live" && <div className="execution-more dim">{e.status === "RUNNING" ? "Running; more lines may follow." : "More lines may follow."}</div>}
      </div>
    </section>
  );
}

/** fold gathers the blocks that stay closed next to each other. */
function fold(g: Group, isOpen: (g: Group, b: Block, i: number) => boolean): { open: boolean; blocks: Block[] }[] {
  const out: { open: boolean; blocks: Block[] }[] = [];
  g.blocks.forEach((b, i) => {
    const open = isOpen(g, b, i);
    const before = out[out.length - 1];
    if (!open && before && !before.open) before.blocks.push(b);
    else out.push({ open, blocks: [b] });
  });
  return out;
}

/** linked reads #L7.12 and #L7.12-7.20. */
function linked(hash: string): [string, string] {
  const m = /^#L(\d+\.\d+)(?:-(\d+\.\d+))?$/.exec(hash);
  return [m?.[1] ?? "", m?.[2] ?? m?.[1] ?? ""];
}

const none = new Set<string>();

function within(lines: LoggedLine[], from: string, to: string): Set<string> {
  if (!from) return none;
  const a = lines.findIndex((l) => l.id === from);
  const b = lines.findIndex((l) => l.id === to);
  if (a < 0) return none;
  const [lo, hi] = b < 0 ? [a, a] : a < b ? [a, b] : [b, a];
  return new Set(lines.slice(lo, hi + 1).map((l) => l.id));
}

type BlockProps = { b: Block; needle: string; hit: string; range: Set<string>; times: boolean; onLink: (m: MouseEvent, id: string) => void };

const BlockView = memo(
  function BlockView({ b, needle, hit, range, times, onLink }: BlockProps) {
    const [zone] = useZone();
    return (
      <div className="execution-block">
        {b.lines.map((l) => (
          <Line key={l.id} l={l} needle={needle} hit={l.id === hit} chosen={range.has(l.id)} time={times ? shortTime(Date.parse(l.at), zone).slice(11) : undefined} tip={times ? exactTime(Date.parse(l.at), zone) : ""} onLink={onLink} />
        ))}
      </div>
    );
  },
  (a, b) => a.b === b.b && a.needle === b.needle && a.times === b.times && a.range === b.range && (a.hit === b.hit || (!a.b.lines.some((l) => l.id === a.hit || l.id === b.hit))),
);

function Line({ l, needle, hit, chosen, time, tip, onLink }: { l: LoggedLine; needle: string; hit: boolean; chosen: boolean; time: string | undefined; tip: string; onLink: (m: MouseEvent, id: string) => void }) {
  const [whole, setWhole] = useState(false);
  const cut = l.text.length > longLine && !whole && !needle;
  const parts = useMemo(() => pieces(cut ? l.text.slice(0, longLine) : l.text), [l.text, cut]);
  return (
    <div id={"L" + l.id} className={"execution-line " + l.stream} data-chosen={chosen ? "" : undefined} data-hit={hit ? "" : undefined}>
      <a href={"#L" + l.id} className="execution-number" aria-label={`Line ${l.line + 1}${l.stream === "stderr" ? ", stderr" : ""}: link`} tabIndex={hit || chosen ? 0 : -1} onClick={(m) => onLink(m, l.id)}>
        {l.line + 1}
      </a>
      {time !== undefined && (
        <time dateTime={l.at} data-tip={tip}>
          {time}
        </time>
      )}
      <span className="execution-text" dir="ltr">
        {parts.length === 0 ? "\u200b" : parts.map((p, i) => (p.style ? <span key={i} className={p.style}>{marked(p.text, needle)}</span> : <span key={i}>{marked(p.text, needle)}</span>))}
        {cut && (
          <button type="button" className="execution-rest" onClick={() => setWhole(true)}>
            … {count(l.text.length - longLine)} characters more
          </button>
        )}
      </span>
    </div>
  );
}

function marked(text: string, needle: string): ReactNode {
  if (!needle) return text;
  const low = text.toLowerCase();
  if (low.length !== text.length) return text; // letters whose small form is longer: the line is marked, not the place
  const out: ReactNode[] = [];
  let from = 0;
  for (let i = low.indexOf(needle); i >= 0; i = low.indexOf(needle, from)) {
    out.push(text.slice(from, i), <mark key={i}>{text.slice(i, i + needle.length)}</mark>);
    from = i + needle.length;
  }
  return from === 0 ? text : [...out, text.slice(from)];
}
