// What lies over the page: dialogs, confirmations, menus.

import { useEffect, useId, useLayoutEffect, useRef, useState, type FormEvent, type KeyboardEvent, type ReactNode } from "react";
import { Button } from "./basics";
import { ErrorBox } from "./feedback";
import { Icon, type IconName } from "./icons";

type DialogProps = {
  title: ReactNode;
  onClose: () => void;
  children: ReactNode;
  broad?: boolean;
  className?: string;
  /** Only its buttons close it. */
  stays?: boolean;
};

/** leaving is onClose, which asks first where something that was typed would be lost. */
export const leaving = (dirty: boolean, onClose: () => void) => () => {
  if (!dirty || confirm("Your changes were not sent. Close anyway?")) onClose();
};

/** Dialog is a modal box. It is there while it is rendered; Escape and a press outside close it, unless it stays. */
export function Dialog({ title, onClose, children, broad, className, stays }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const d = ref.current;
    const before = document.activeElement;
    if (d && !d.open) {
      d.showModal();
      d.querySelector<HTMLElement>("input,textarea,select")?.focus();
    }
    return () => {
      d?.close();
      if (before instanceof HTMLElement) before.focus({ preventScroll: true });
    };
  }, []);
  const leave = () => {
    if (!stays) onClose();
  };
  return (
    <dialog
      ref={ref}
      aria-labelledby={id}
      className={[broad && "broad", className].filter(Boolean).join(" ")}
      onKeyDown={(e) => {
        if (e.key !== "Escape" || e.defaultPrevented || e.nativeEvent.isComposing) return;
        e.preventDefault();
        leave();
      }}
      onCancel={(e) => {
        if (e.target !== e.currentTarget || !e.cancelable) return;
        e.preventDefault();
        leave();
      }}
      onClose={(e) => {
        // Browsers close a dialog by force when they are asked twice.
        if (e.target !== e.currentTarget || e.currentTarget.open) return;
        e.currentTarget.showModal();
        leave();
      }}
      onMouseDown={(e) => {
        // The scrollbar is the dialog itself, as the backdrop is.
        const b = e.currentTarget.getBoundingClientRect();
        if (e.target === e.currentTarget && (e.clientX < b.left || e.clientX > b.right || e.clientY < b.top || e.clientY > b.bottom)) leave();
      }}
    >
      <div>
        <header>
          <h2 id={id}>{title}</h2>
          <Button kind="ghost" small icon="close" aria-label="Close" onClick={onClose} />
        </header>
        {children}
      </div>
    </dialog>
  );
}

type ConfirmProps = {
  title: string;
  children?: ReactNode;
  /** What has to be typed first; without it, a click is enough. */
  name?: string;
  action: string;
  danger?: boolean;
  /** The same as a command, so that it can be learnt. */
  cli?: string;
  run: () => Promise<unknown>;
  onClose: () => void;
};

/** Confirm asks before something that cannot be taken back. It stays, with the reason, where it could not be done. */
export function Confirm({ title, children, name, action, danger, cli, run, onClose }: ConfirmProps) {
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const id = useId();
  const ready = name === undefined || typed.trim() === name.trim();
  const submit = (e: FormEvent) => {
    e.preventDefault();
    if (!ready || busy) return;
    setBusy(true);
    run().then(onClose, (e: unknown) => {
      setError(e);
      setBusy(false);
    });
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        {children}
        {name !== undefined && (
          <div className="field">
            <label htmlFor={id}>
              Type <code className="wrap">{name}</code> to confirm
            </label>
            <input id={id} className="input" value={typed} onChange={(e) => setTyped(e.target.value)} autoComplete="off" spellCheck={false} autoFocus />
          </div>
        )}
        {error !== undefined && <ErrorBox error={error} />}
        {cli && <code className="dim small">{cli}</code>}
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind="primary" className={danger ? "danger" : ""} disabled={!ready || busy}>
            {busy ? "Working…" : action}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

export type MenuItem = { label: string; run: () => void; danger?: boolean; keys?: string; disabled?: boolean; note?: string } | "line";

/** Menu is a button that opens a list of actions; arrows move, Escape closes. */
export function Menu({ label, icon, items, kind, left, small }: { label: string; icon?: IconName; items: MenuItem[]; kind?: "ghost"; left?: boolean; small?: boolean }) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const list = useRef<HTMLDivElement>(null);
  // In the page, not in what scrolls around it: a menu of a table's last row is seen whole.
  useLayoutEffect(() => {
    if (!open) return;
    // What scrolls by itself, such as a page that is come back to, takes the menu along.
    const place = () => {
      const m = list.current;
      const b = button.current?.getBoundingClientRect();
      if (!m || !b) return;
      if (b.bottom < 0 || b.top > innerHeight) return setOpen(false);
      const below = b.bottom + 4 + m.offsetHeight <= innerHeight || b.top < m.offsetHeight + 4;
      m.style.top = `${below ? b.bottom + 4 : b.top - 4 - m.offsetHeight}px`;
      m.style.left = `${Math.max(8, Math.min(left ? b.left : b.right - m.offsetWidth, innerWidth - m.offsetWidth - 8))}px`;
    };
    place();
    addEventListener("scroll", place, { capture: true, passive: true });
    addEventListener("resize", place);
    return () => {
      removeEventListener("scroll", place, { capture: true });
      removeEventListener("resize", place);
    };
  }, [open, left]);
  useEffect(() => {
    if (!open) return;
    box.current?.querySelector<HTMLElement>("[role=menuitem]")?.focus({ preventScroll: true });
    const away = (e: Event) => {
      if (!box.current?.contains(e.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, [open]);
  const move = (e: KeyboardEvent) => {
    const all = [...(box.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    const at = all.indexOf(document.activeElement as HTMLElement);
    if (e.key === "Escape" || e.key === "Tab") {
      setOpen(false);
      if (e.key === "Escape") {
        e.preventDefault(); // the dialog that it may be in stays
        button.current?.focus();
      }
      return;
    }
    const to = e.key === "ArrowDown" ? (at + 1) % all.length : e.key === "ArrowUp" ? (at - 1 + all.length) % all.length : e.key === "Home" ? 0 : e.key === "End" ? all.length - 1 : -1;
    if (to < 0) return;
    e.preventDefault();
    all[to]?.focus();
  };
  const text = icon !== undefined && kind === "ghost" ? undefined : label;
  return (
    <div className={left ? "menu left" : "menu"} ref={box}>
      <button ref={button} type="button" className={["btn", kind, small && "small"].filter(Boolean).join(" ")} aria-haspopup="menu" aria-expanded={open} aria-label={text === undefined ? label : undefined} onClick={() => setOpen(!open)}>
        {icon && <Icon name={icon} />}
        {text}
      </button>
      {open && (
        <div ref={list} role="menu" aria-label={label} onKeyDown={move}>
          {items.map((m, i) =>
            m === "line" ? (
              <hr key={i} />
            ) : (
              <button
                key={i}
                type="button"
                role="menuitem"
                className={m.danger ? "danger" : ""}
                aria-disabled={m.disabled}
                data-tip={m.note}
                onClick={() => {
                  if (m.disabled) return;
                  setOpen(false);
                  button.current?.focus();
                  m.run();
                }}
              >
                <span>{m.label}</span>
                {m.keys && <kbd>{m.keys}</kbd>}
              </button>
            ),
          )}
        </div>
      )}
    </div>
  );
}
