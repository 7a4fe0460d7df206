// Keys: one registry for the page. A screen adds its own while it is shown; the help lists whatever is there.

import { useEffect, useRef, useSyncExternalStore } from "react";

export type Hotkey = { keys: string; label: string; run: () => void };

const stacks: Hotkey[][] = [];
const watchers = new Set<() => void>();
let list: Hotkey[] = [];
let pending = "";
let timer: ReturnType<typeof setTimeout> | undefined;

function changed() {
  list = stacks.flat();
  watchers.forEach((f) => f());
}

function typing(t: EventTarget | null): boolean {
  return t instanceof HTMLElement && (t.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(t.tagName)) && (t as HTMLInputElement).type !== "checkbox";
}

function press(e: KeyboardEvent) {
  if (e.isComposing || e.altKey) return;
  const mod = e.metaKey || e.ctrlKey;
  if (mod ? e.key.toLowerCase() !== "k" : typing(e.target)) return;
  if (document.querySelector("dialog[open]") && !mod) return;
  if (document.querySelector(".menu > [role=menu]") && !mod) return;
  // A focused link or button keeps its own Enter.
  if (e.key === "Enter" && e.target instanceof Element && e.target.closest("a,button,summary")) return;
  const key = mod ? "mod+k" : e.key;
  const chord = pending ? pending + " " + key : key;
  // The screen on top comes first.
  const hit = [...stacks].reverse().flat().find((h) => h.keys === chord);
  clearTimeout(timer);
  pending = "";
  if (hit) {
    e.preventDefault();
    hit.run();
  } else if (list.some((h) => h.keys.startsWith(key + " "))) {
    pending = key;
    timer = setTimeout(() => (pending = ""), 1200);
  }
}
addEventListener("keydown", press);

/** useHotkeys adds keys while the component is there. Two keys after each other are written with a blank: "g j". */
export function useHotkeys(keys: Hotkey[]) {
  const ref = useRef(keys);
  ref.current = keys;
  const shape = keys.map((k) => k.keys + "\n" + k.label).join("\n");
  useEffect(() => {
    const mine = ref.current.map((k, i) => ({ keys: k.keys, label: k.label, run: () => ref.current[i]?.run() }));
    stacks.push(mine);
    changed();
    return () => {
      stacks.splice(stacks.indexOf(mine), 1);
      changed();
    };
  }, [shape]);
}

const subscribe = (f: () => void) => (watchers.add(f), () => void watchers.delete(f));

/** useHotkeyList is all keys that work now. */
export const useHotkeyList = () => useSyncExternalStore(subscribe, () => list);
