// FilterBar: the filter of a list, with completion of keys and values, and views that were saved under a name.

import { useEffect, useId, useMemo, useRef, useState, type KeyboardEvent } from "react";
import { flushSync } from "react-dom";
import { usePref } from "../prefs";
import { useParam } from "../router";
import { Button } from "./basics";
import { quoted, readFilter, whole, words, type FilterKey } from "./filter";
import { useHotkeys } from "./hotkeys";
import { Icon } from "./icons";
import { Dialog, Menu, type MenuItem } from "./overlay";
import { TextField } from "./form";

type Option = { text: string; note: string; from: number; to: number };

/** useFilter is the filter in the address (q=), as text and as parameters of the API. acts says that all it chooses may be acted on. */
export function useFilter(keys: FilterKey[]) {
  const [text, set] = useParam("q");
  return {
    text,
    set,
    ...useMemo(() => {
      const f = readFilter(text, keys);
      return { ...f, acts: text !== "" && whole(f) };
    }, [text, keys]),
  };
}

async function optionsFor(text: string, caret: number, keys: FilterKey[]): Promise<Option[]> {
  const w = words(text).find((w) => w.from <= caret && caret <= w.to);
  if (w?.key !== undefined) {
    const k = keys.find((k) => k.key === w.key);
    if (!k?.values) return [];
    const list = w.value.split(",");
    const typed = (list.pop() ?? "").toLowerCase();
    const before = list.length ? list.join(",") + "," : "";
    const all = typeof k.values === "function" ? await k.values(typed).catch(() => []) : k.values;
    return all
      .filter((v) => v.toLowerCase().includes(typed))
      .slice(0, 12)
      .map((v) => ({ text: `${k.key}:${before}${quoted(v)}`, note: "", from: w.from, to: w.to }));
  }
  const typed = (w?.value ?? "").toLowerCase();
  return keys.filter((k) => k.key.startsWith(typed)).map((k) => ({ text: k.key + ":", note: k.hint, from: w?.from ?? caret, to: w?.to ?? caret }));
}

export function FilterBar({ keys, name, placeholder }: { keys: FilterKey[]; name: string; placeholder: string }) {
  const { text: applied, set, unknown, open: unsaid } = useFilter(keys);
  const [text, setText] = useState(applied);
  const [options, setOptions] = useState<Option[]>([]);
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const [naming, setNaming] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  const id = useId();
  useEffect(() => setText(applied), [applied]);
  useHotkeys([{ keys: "/", label: "Filter this list", run: () => input.current?.select() }]);

  const suggest = (t: string) => {
    const caret = input.current?.selectionStart ?? t.length;
    void optionsFor(t, caret, keys).then((o) => {
      if (input.current?.value !== t) return;
      setOptions(o);
      setAt(-1);
      setOpen(o.length > 0);
    });
  };
  // What was typed is applied when a word is whole, so the list follows without a key that says "now".
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const change = (t: string) => {
    setText(t);
    suggest(t);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => set(t.trim()), 350);
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  const apply = (t: string) => {
    clearTimeout(timer.current);
    set(t.trim(), { push: true });
    setOpen(false);
  };
  const choose = (o: Option) => {
    const space = o.text.endsWith(":") ? "" : " ";
    const t = text.slice(0, o.from) + o.text + space + text.slice(o.to).trimStart();
    clearTimeout(timer.current);
    flushSync(() => setText(t)); // at once: the next letter may come before the next frame
    input.current?.focus();
    if (space) return apply(t);
    input.current?.setSelectionRange(o.from + o.text.length, o.from + o.text.length);
    suggest(t);
  };
  const key = (e: KeyboardEvent) => {
    if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      if (!open) return suggest(text);
      e.preventDefault();
      const n = options.length;
      setAt(e.key === "ArrowDown" ? (at + 1) % n : (at - 1 + n) % n);
    } else if ((e.key === "Enter" || e.key === "Tab") && open && at >= 0) {
      e.preventDefault();
      const o = options[at];
      if (o) choose(o);
    } else if (e.key === "Enter") apply(text);
    else if (e.key === "Escape") {
      if (open) setOpen(false);
      else input.current?.blur();
    }
  };
  return (
    <div className="row">
      <div className="filter">
        <Icon name="search" />
        <input
          ref={input}
          className="input"
          role="combobox"
          aria-label="Filter"
          aria-expanded={open}
          aria-controls={id}
          aria-autocomplete="list"
          aria-activedescendant={open && at >= 0 ? `${id}-${at}` : undefined}
          placeholder={placeholder}
          value={text}
          autoComplete="off"
          spellCheck={false}
          onChange={(e) => change(e.target.value)}
          onFocus={() => suggest(text)}
          onBlur={() => setTimeout(() => setOpen(false), 120)}
          onKeyDown={key}
        />
        <div id={id} role="listbox" aria-label="Suggestions" className="options" hidden={!open}>
          {options.map((o, i) => (
            <div key={o.text} id={`${id}-${i}`} role="option" aria-selected={i === at} onPointerDown={(e) => (e.preventDefault(), choose(o))}>
              <code>{o.text}</code>
              <span className="dim">{o.note}</span>
            </div>
          ))}
        </div>
      </div>
      {text !== "" && (
        <Button kind="ghost" onClick={() => (setText(""), apply(""))}>
          Clear
        </Button>
      )}
      <Views name={name} text={applied} onSave={() => setNaming(true)} onChoose={(t) => apply(t)} />
      {unknown.length > 0 && (
        <span className="warn small" role="status">
          No such key: {unknown.join(", ")}. It is looked for as text. There are {keys.map((k) => k.key).join(", ")}.
        </span>
      )}
      {unsaid.length > 0 && text === applied && !open && (
        <span className="warn small" role="status">
          {unsaid.join(", ")} without a value chooses nothing.
        </span>
      )}
      {naming && <NameView name={name} text={applied} onClose={() => setNaming(false)} />}
    </div>
  );
}

type View = { name: string; q: string };

function Views({ name, text, onSave, onChoose }: { name: string; text: string; onSave: () => void; onChoose: (q: string) => void }) {
  const [views, set] = usePref<View[]>("views." + name, []);
  const items: MenuItem[] = views.map((v) => ({ label: v.name, note: v.q, run: () => onChoose(v.q) }));
  if (items.length) items.push("line");
  const same = views.find((v) => v.q === text);
  if (same) items.push({ label: `Forget “${same.name}”`, run: () => set(views.filter((v) => v !== same)) });
  else items.push({ label: "Save this filter…", disabled: text === "", run: onSave });
  return <Menu label="Views" items={items} />;
}

function NameView({ name, text, onClose }: { name: string; text: string; onClose: () => void }) {
  const [views, set] = usePref<View[]>("views." + name, []);
  const [called, setCalled] = useState("");
  return (
    <Dialog title="Save this filter" onClose={onClose}>
      <form
        className="stack"
        onSubmit={(e) => {
          e.preventDefault();
          if (!called.trim()) return;
          set([...views.filter((v) => v.name !== called.trim()), { name: called.trim(), q: text }]);
          onClose();
        }}
      >
        <TextField label="Name" value={called} onChange={setCalled} autoFocus maxLength={60} hint="Kept in this browser." />
        <code className="wrap">{text}</code>
        <footer>
          <Button type="submit" kind="primary">
            Save
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
