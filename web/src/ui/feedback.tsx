// What a screen says when there is nothing, something went wrong, or something was done.

import { useEffect, useRef, useState, useSyncExternalStore, type ReactNode } from "react";
import { isProblem } from "../api/http";
import { Button } from "./basics";
import { Icon } from "./icons";

/** copy puts text into the clipboard and says so. */
export function copy(text: string, what = "Copied") {
  const done = () => toast(what);
  if (navigator.clipboard) return void navigator.clipboard.writeText(text).then(done, () => toast("The browser does not allow copying here.", { bad: true }));
  toast("The browser allows copying only on https and localhost.", { bad: true });
}

/** CommandLine is a line to be run elsewhere, with a button that copies it. */
export function CommandLine({ children }: { children: string }) {
  return (
    <span className="command">
      <code>{children}</code>
      <Button kind="ghost" small icon="copy" aria-label="Copy the command" onClick={() => copy(children)} />
    </span>
  );
}

/** Empty teaches what would be here: one sentence, one command that works, one button. */
export function Empty({ title, children, command, action }: { title: string; children?: ReactNode; command?: string; action?: ReactNode }) {
  return (
    <div className="empty">
      <Icon name="bell" />
      <h2>{title}</h2>
      {children && <p>{children}</p>}
      {command && <CommandLine>{command}</CommandLine>}
      {action}
    </div>
  );
}

/** ErrorBox says what went wrong, why, and what to do. */
export function ErrorBox({ error, retry, what }: { error: unknown; retry?: () => void; what?: string }) {
  const p = isProblem(error) ? error : undefined;
  const detail = p ? p.detail : error instanceof Error ? error.message : String(error);
  return (
    <div className="error" role="alert">
      <h2>{what ?? p?.title ?? "Something went wrong"}</h2>
      {detail && <p>{detail}</p>}
      {p && p.errors.length > 0 && (
        <table>
          <tbody>
            {p.errors.map((f, i) => (
              <tr key={i}>
                <th scope="row">
                  <code>{f.field}</code>
                </th>
                <td>
                  {f.value !== "" && (
                    <>
                      is <code>{f.value}</code>;{" "}
                    </>
                  )}
                  wanted: {f.want}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {p?.advice && <p>{p.advice}</p>}
      <div className="row small">
        {retry && (
          <Button small onClick={retry}>
            Try again
          </Button>
        )}
        {p?.requestId && <span className="dim mono">request {p.requestId}</span>}
      </div>
    </div>
  );
}

/** Loading is the shape of what comes. It shows itself only after a moment, so that quick answers do not flicker. */
export function Loading({ lines = 5 }: { lines?: number }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const t = setTimeout(() => setLate(true), 150);
    return () => clearTimeout(t);
  }, []);
  return (
    <div className="stack" role="status" aria-label="Loading">
      {late && Array.from({ length: lines }, (_, i) => <span key={i} className="bone" style={{ width: `${92 - ((i * 37) % 45)}%` }} />)}
    </div>
  );
}

type Note = { id: number; text: ReactNode; bad: boolean; undo: (() => void) | undefined; until: number };
let notes: Note[] = [];
let nextNote = 1;
const watchers = new Set<() => void>();
const setNotes = (n: Note[]) => {
  notes = n;
  watchers.forEach((f) => f());
};

/** toast says in the corner that something was done; with undo there are ten seconds to take it back. */
export function toast(text: ReactNode, o: { bad?: boolean; undo?: () => void } = {}) {
  const n: Note = { id: nextNote++, text, bad: o.bad ?? false, undo: o.undo, until: Date.now() + (o.undo || o.bad ? 10_000 : 4000) };
  setNotes([...notes.slice(-3), n]);
  setTimeout(() => setNotes(notes.filter((x) => x !== n)), n.until - Date.now());
}

/** failed says in the corner why something could not be done. */
export function failed(e: unknown, what = "The action failed") {
  const p = isProblem(e) ? e : undefined;
  const why = p ? [p.detail || p.title, ...p.errors.map((f) => `${f.field}: want ${f.want}`), p.advice].join(" ") : e instanceof Error ? e.message : String(e);
  toast(`${what}. ${why}`, { bad: true });
}

const subscribe = (f: () => void) => (watchers.add(f), () => void watchers.delete(f));

export function Toasts() {
  const list = useSyncExternalStore(subscribe, () => notes);
  return (
    <div className="toasts" role="status" aria-live="polite">
      {list.map((n) => (
        <div key={n.id} className={n.bad ? "toast bad" : "toast"}>
          <span className="grow">{n.text}</span>
          {n.undo && (
            <Button
              small
              onClick={() => {
                setNotes(notes.filter((x) => x !== n));
                n.undo?.();
              }}
            >
              Undo
            </Button>
          )}
          <Button kind="ghost" small icon="close" aria-label="Dismiss" onClick={() => setNotes(notes.filter((x) => x !== n))} />
        </div>
      ))}
    </div>
  );
}

/** Tip shows what elements say in data-tip, on hover and on focus. It is one element for the whole page. */
export function Tip() {
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const el = ref.current;
    if (!el) return;
    let shown: Element | null = null;
    const show = (e: Event) => {
      const t = e.target instanceof Element ? e.target.closest("[data-tip]") : null;
      if (t === shown) return;
      shown = t;
      const text = t?.getAttribute("data-tip");
      if (!t || !text) {
        el.hidden = true;
        return;
      }
      el.textContent = text;
      el.hidden = false;
      const at = t.getBoundingClientRect();
      const own = el.getBoundingClientRect();
      const y = at.bottom + 6 + own.height > innerHeight ? at.top - own.height - 6 : at.bottom + 6;
      el.style.transform = `translate(${Math.round(Math.max(4, Math.min(at.left, innerWidth - own.width - 4)))}px, ${Math.round(Math.max(4, y))}px)`;
    };
    const hide = (e: KeyboardEvent) => {
      if (e.key === "Escape") el.hidden = true;
    };
    const gone = () => {
      shown = null;
      el.hidden = true;
    };
    document.addEventListener("pointerover", show);
    document.addEventListener("focusin", show);
    document.addEventListener("focusout", gone);
    document.addEventListener("scroll", gone, true);
    document.addEventListener("keydown", hide);
    return () => {
      document.removeEventListener("pointerover", show);
      document.removeEventListener("focusin", show);
      document.removeEventListener("focusout", gone);
      document.removeEventListener("scroll", gone, true);
      document.removeEventListener("keydown", hide);
    };
  }, []);
  return <div id="tip" role="tooltip" ref={ref} hidden />;
}
