// The palette (Ctrl-K) and the help (?): every screen, every action of the screen that is shown, and jobs by name.

import { useEffect, useId, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { get } from "../api/http";
import type { Jobs } from "../api/types";
import { navigate } from "../router";
import { useHotkeyList } from "./hotkeys";
import { Dialog } from "./overlay";

export type Command = { label: string; note?: string; run: () => void };

const stacks: Command[][] = [];
const watchers = new Set<() => void>();
let list: Command[] = [];
const changed = () => {
  list = [...stacks].reverse().flat();
  watchers.forEach((f) => f());
};

const subscribe = (f: () => void) => (watchers.add(f), () => void watchers.delete(f));

/** useCommands offers actions in the palette while the component is there. */
export function useCommands(commands: Command[]) {
  const ref = useRef(commands);
  ref.current = commands;
  const shape = commands.map((c) => c.label + "\n" + (c.note ?? "")).join("\n");
  useEffect(() => {
    const mine = ref.current.map((c, i) => ({ ...c, run: () => ref.current[i]?.run() }));
    stacks.push(mine);
    changed();
    return () => {
      stacks.splice(stacks.indexOf(mine), 1);
      changed();
    };
  }, [shape]);
}

const isId = (s: string) => /^[0-9a-f]{8}-[0-9a-f-]{27}$/i.test(s);

export function Palette({ onClose }: { onClose: () => void }) {
  const commands = useSyncExternalStore(subscribe, () => list);
  const [text, setText] = useState("");
  const [jobs, setJobs] = useState<Command[]>([]);
  const [at, setAt] = useState(0);
  const id = useId();
  useEffect(() => {
    const t = text.trim();
    if (t.length < 2) return setJobs([]);
    const stop = new AbortController();
    const timer = setTimeout(() => {
      get<Jobs>("/jobs", { q: t, limit: 8 }, stop.signal).then(
        (r) => setJobs(r.jobs.map((j) => ({ label: j.name, note: "job", run: () => navigate("/jobs/" + j.job_id) }))),
        () => {},
      );
    }, 150);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [text]);
  const found = useMemo(() => {
    const parts = text.toLowerCase().split(/\s+/).filter(Boolean);
    const hits = commands.filter((c) => parts.every((p) => (c.label + " " + (c.note ?? "")).toLowerCase().includes(p)));
    const t = text.trim();
    const direct: Command[] = isId(t) ? [{ label: "Open " + t, note: "id", run: () => navigate("/x/" + t) }] : [];
    const more: Command[] = t && !isId(t) ? [{ label: `Search executions for “${t}”`, note: "executions", run: () => navigate("/executions?q=" + encodeURIComponent(t)) }] : [];
    return [...direct, ...hits, ...jobs, ...more];
  }, [text, commands, jobs]);
  const choose = (c: Command | undefined) => {
    if (!c) return;
    onClose();
    c.run();
  };
  return (
    <Dialog title={<span className="sr">Go to, or do</span>} onClose={onClose} className="palette">
      <input
        className="input"
        role="combobox"
        aria-label="Go to a screen or a job, or run an action"
        aria-expanded="true"
        aria-controls={id}
        aria-activedescendant={`${id}-${at}`}
        placeholder="Go to a screen or a job, or run an action"
        autoFocus
        autoComplete="off"
        spellCheck={false}
        value={text}
        onChange={(e) => (setText(e.target.value), setAt(0))}
        onKeyDown={(e) => {
          const n = found.length;
          if (e.key === "ArrowDown") setAt((at + 1) % Math.max(n, 1));
          else if (e.key === "ArrowUp") setAt((at - 1 + n) % Math.max(n, 1));
          else if (e.key === "Enter") choose(found[at]);
          else return;
          e.preventDefault();
        }}
      />
      <div className="found" id={id} role="listbox" aria-label="Results">
        {found.map((c, i) => (
          <div key={i} id={`${id}-${i}`} role="option" aria-selected={i === at} ref={i === at ? (el) => el?.scrollIntoView({ block: "nearest" }) : undefined} onPointerMove={() => setAt(i)} onClick={() => choose(c)}>
            <span>{c.label}</span>
            <span className="dim">{c.note}</span>
          </div>
        ))}
        {found.length === 0 && <p className="dim">No match.</p>}
      </div>
    </Dialog>
  );
}

export function Help({ onClose }: { onClose: () => void }) {
  const keys = useHotkeyList();
  const seen = new Set<string>();
  const shown = keys.filter((k) => !seen.has(k.keys) && seen.add(k.keys));
  const mac = /Mac|iP/.test(navigator.platform);
  return (
    <Dialog title="Keys" onClose={onClose} broad>
      <div className="keys">
        {shown.map((k) => (
          <div key={k.keys}>
            <span>{k.label}</span>
            <span className="row tight">
              {k.keys.split(" ").map((p, i) => (
                <kbd key={i}>{p === "mod+k" ? (mac ? "⌘ K" : "Ctrl K") : p}</kbd>
              ))}
            </span>
          </div>
        ))}
      </div>
      <p className="dim small">
        Everything that the dashboard shows comes from the <a href="/docs">API</a>; every screen answers with its data at the same address with <code>Accept: application/json</code>.
      </p>
    </Dialog>
  );
}
