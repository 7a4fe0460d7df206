// Ask: the form of an action in a dialog. It says what the same is as a command, and stays, with the reason, where it could not be done.

import { useState, type FormEvent, type ReactNode } from "react";
import { Button } from "./basics";
import { copy, ErrorBox } from "./feedback";
import { Dialog, leaving } from "./overlay";

/** sh is a word as a shell takes it. */
export const sh = (s: string) => (/^[\w@%+=:,./-]+$/.test(s) ? s : "'" + s.replaceAll("'", "'\\''") + "'");

type AskProps = {
  title: string;
  action: string;
  cli?: string;
  ready?: boolean;
  danger?: boolean;
  broad?: boolean;
  /** What was typed would be lost: it is asked before the dialog is closed. */
  dirty?: boolean;
  /** Does it. The dialog closes then, unless it comes to "stay". */
  run: () => Promise<unknown>;
  onClose: () => void;
  /** Beside the button that does it. */
  other?: ReactNode;
  children?: ReactNode | ((error: unknown) => ReactNode);
};

export function Ask({ title, action, cli, ready = true, danger, broad, dirty = false, run, onClose, other, children }: AskProps) {
  const leave = leaving(dirty, onClose);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const submit = (e: FormEvent) => {
    e.preventDefault();
    if (busy || !ready) return;
    setBusy(true);
    setError(undefined);
    run().then(
      (r) => {
        setBusy(false);
        if (r !== "stay") onClose();
      },
      (e: unknown) => {
        setError(e);
        setBusy(false);
      },
    );
  };
  return (
    <Dialog title={title} onClose={leave} broad={broad ?? false}>
      <form className="stack" onSubmit={submit}>
        {typeof children === "function" ? children(error) : children}
        {error !== undefined && <ErrorBox error={error} />}
        {cli && <code className="dim small wrap ask-cli">{cli}</code>}
        <footer>
          {other}
          <Button onClick={leave}>Cancel</Button>
          <Button type="submit" kind="primary" className={danger ? "danger" : ""} disabled={busy || !ready}>
            {busy ? "Working…" : action}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

/** Once shows a text that will not be shown again: neither Escape nor a press beside it closes it. */
export function Once({ title, text, children, onClose }: { title: string; text: string; children?: ReactNode; onClose: () => void }) {
  return (
    <Dialog title={title} onClose={onClose} stays>
      <p>This is the only time it is shown. Copy it before you close this.</p>
      <div className="command">
        <code className="grow" data-secret="">
          {text}
        </code>
        <Button small icon="copy" onClick={() => copy(text)} autoFocus>
          Copy
        </Button>
      </div>
      {children}
      <footer>
        <Button kind="primary" onClick={onClose}>
          I have it
        </Button>
      </footer>
    </Dialog>
  );
}
