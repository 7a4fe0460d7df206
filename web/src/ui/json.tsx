// JSON to read and to write: coloured by spans of text, never by markup.

import { useId, type ReactNode } from "react";
import { flaw, parse, stringify } from "../api/json";
import { Button } from "./basics";
import { copy } from "./feedback";

const token = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b/g;

function coloured(text: string): ReactNode[] {
  const out: ReactNode[] = [];
  let from = 0;
  for (const m of text.matchAll(token)) {
    if (m.index > from) out.push(text.slice(from, m.index));
    const kind = m[1] ? (m[2] ? "k" : "s") : m[3] ? "n" : "w";
    out.push(
      <span key={m.index} className={kind}>
        {m[1] ?? m[0]}
      </span>,
    );
    if (m[2]) out.push(m[2]);
    from = m.index + m[0].length;
  }
  out.push(text.slice(from));
  return out;
}

const most = 200_000; // characters that are coloured; more would make typing slow

/** JsonView shows a value, or text that is JSON in the main; whole does not scroll, plain is not coloured. */
export function JsonView({ value, text, whole, plain }: { value?: unknown; text?: string; whole?: boolean; plain?: boolean }) {
  const shown = text ?? stringify(value, 2);
  return (
    <div className={whole ? "json whole" : "json"} tabIndex={0} role="group" aria-label={plain ? "Text" : "JSON"}>
      <pre>{plain || shown.length > most ? shown : coloured(shown)}</pre>
      <span className="sr">
        <Button onClick={() => copy(shown)}>Copy</Button>
      </span>
    </div>
  );
}

/** JsonEditor edits JSON as text, so that every number stays as it was typed; it says where the text is not JSON, and why the server refused it. */
export function JsonEditor({ label, value, onChange, rows = 8, hint, refused }: { label: string; value: string; onChange: (text: string) => void; rows?: number; hint?: ReactNode; refused?: string | undefined }) {
  const id = useId();
  const wrong = value.trim() === "" ? undefined : flaw(value);
  const lines = Math.max(rows, value.split("\n").length + 1);
  return (
    <div className="field full">
      <div className="row">
        <label htmlFor={id} className="grow">
          {label}
        </label>
        <Button kind="ghost" small disabled={wrong !== undefined || value.trim() === ""} onClick={() => onChange(stringify(parse(value), 2))}>
          Format
        </Button>
      </div>
      <div className={(wrong ?? refused) ? "json wrongly" : "json"}>
        <pre aria-hidden="true" style={{ minHeight: `${lines * 1.5}em` }}>
          {value.length > most ? value : coloured(value)}
          {"\n"}
        </pre>
        <textarea id={id} value={value} onChange={(e) => onChange(e.target.value)} spellCheck={false} autoComplete="off" autoCapitalize="off" aria-invalid={(wrong ?? refused) !== undefined} aria-describedby={id + "-about"} />
      </div>
      <span id={id + "-about"} className={(wrong ?? refused) ? "wrong" : "hint"} role="status">
        {wrong ? "Invalid JSON: " + wrong : (refused ?? hint)}
      </span>
    </div>
  );
}
