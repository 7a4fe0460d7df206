// Fields of forms. Each says what it wants, and where the server refused it, why.

import { useEffect, useId, useRef, useState, type InputHTMLAttributes, type KeyboardEvent, type ReactNode, type SelectHTMLAttributes, type TextareaHTMLAttributes } from "react";
import { isProblem } from "../api/http";
import { Button } from "./basics";

/** wrongOf is what a problem says of a field or of something in it, such as tags[1] or headers["X"]; undefined where it says nothing. */
export function wrongOf(error: unknown, field: string): string | undefined {
  const about = isProblem(error) ? error.errors.filter((e) => e.field === field || e.field.startsWith(field + "[") || e.field.startsWith(field + ".")) : [];
  return about.length ? about.map((e) => `${e.field === field ? "" : e.field.slice(field.lastIndexOf(".") + 1) + " "}wanted: ${e.want}`).join("; ") : undefined;
}

/** useSettled is a value once it has not changed for so many ms: what is typed, when it is to be searched for. */
export function useSettled<T>(value: T, ms = 200): T {
  const [settled, set] = useState(value);
  useEffect(() => {
    const t = setTimeout(() => set(value), ms);
    return () => clearTimeout(t);
  }, [value, ms]);
  return settled;
}

type Around = { label: ReactNode; hint?: ReactNode; wrong?: string | undefined; full?: boolean };

export function Field({ label, hint, wrong, full, children }: Around & { children: (p: { id: string; "aria-describedby"?: string; "aria-invalid"?: boolean }) => ReactNode }) {
  const id = useId();
  const about = hint || wrong ? id + "-about" : undefined;
  return (
    <div className={full ? "field full" : "field"}>
      <label htmlFor={id}>{label}</label>
      {children({ id, ...(about ? { "aria-describedby": about } : {}), ...(wrong ? { "aria-invalid": true } : {}) })}
      {about && (
        <span id={about}>
          {wrong && <span className="wrong">{wrong} </span>}
          {hint && <span className="hint">{hint}</span>}
        </span>
      )}
    </div>
  );
}

type Of<T> = Omit<T, "onChange" | "value"> & Around & { value: string; onChange: (v: string) => void; mono?: boolean };

export function TextField({ label, hint, wrong, full, value, onChange, mono, ...rest }: Of<InputHTMLAttributes<HTMLInputElement>>) {
  return (
    <Field label={label} hint={hint} wrong={wrong} full={full ?? false}>
      {(p) => <input {...p} {...rest} className={mono ? "input mono" : "input"} value={value} onChange={(e) => onChange(e.target.value)} />}
    </Field>
  );
}

export function TextArea({ label, hint, wrong, full, value, onChange, mono, ...rest }: Of<TextareaHTMLAttributes<HTMLTextAreaElement>>) {
  return (
    <Field label={label} hint={hint} wrong={wrong} full={full ?? false}>
      {(p) => <textarea {...p} {...rest} className={mono ? "input mono" : "input"} value={value} onChange={(e) => onChange(e.target.value)} />}
    </Field>
  );
}

type ListProps = { label: string; value: string[]; onChange: (v: string[]) => void; add: string; hint?: ReactNode; wrong?: string | undefined; wrongAt?: (i: number) => string | undefined; mono?: boolean; inline?: boolean; lines?: boolean; placeholder?: string };

/**
 * ListField is a list of texts, each in a row of its own, so that each may hold anything. Enter begins the next one, Backspace takes out
 * one that is empty. With lines a text may have several: Shift+Enter breaks it.
 */
export function ListField({ label, value, onChange, add, hint, wrong, wrongAt, mono, inline, lines, placeholder }: ListProps) {
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  const [focus, setFocus] = useState(-1);
  useEffect(() => {
    if (focus < 0) return;
    box.current?.querySelectorAll<HTMLElement>("input,textarea")[focus]?.focus();
    setFocus(-1);
  }, [focus]);
  const insert = (at: number) => {
    onChange([...value.slice(0, at), "", ...value.slice(at)]);
    setFocus(at);
  };
  const remove = (i: number) => {
    onChange(value.filter((_, k) => k !== i));
    setFocus(Math.max(0, i - 1));
  };
  const key = (e: KeyboardEvent, i: number) => {
    if (e.nativeEvent.isComposing) return;
    if (e.key === "Enter" && !(lines && e.shiftKey)) {
      e.preventDefault();
      insert(i + 1);
    } else if (e.key === "Backspace" && value[i] === "") {
      e.preventDefault();
      remove(i);
    }
  };
  return (
    <fieldset className="field" aria-describedby={id}>
      <legend>{label}</legend>
      <div ref={box} className={inline ? "list inline" : "list"}>
        {value.map((v, i) => {
          const at = wrongAt?.(i);
          const p = { className: mono ? "input mono" : "input", "aria-label": `${label}, ${i + 1}`, "aria-invalid": at !== undefined, value: v, placeholder: i === 0 ? placeholder : undefined, spellCheck: false, autoComplete: "off", onKeyDown: (e: KeyboardEvent) => key(e, i) };
          const put = (text: string) => onChange(value.map((x, k) => (k === i ? text : x)));
          return (
            <div key={i}>
              {lines ? <textarea {...p} rows={v.split("\n").length} onChange={(e) => put(e.target.value)} /> : <input {...p} onChange={(e) => put(e.target.value)} />}
              <Button kind="ghost" icon="close" aria-label={`Remove ${v || "the empty one"}`} onClick={() => remove(i)} />
            </div>
          );
        })}
      </div>
      <div className="row">
        <Button small icon="plus" onClick={() => insert(value.length)}>
          {add}
        </Button>
        <span id={id}>
          {wrong && <span className="wrong">{wrong} </span>}
          {hint && <span className="hint">{hint}</span>}
        </span>
      </div>
    </fieldset>
  );
}

/** More is what most people leave as it is: shut, unless something in it is wrong. */
export function More({ summary, error, children }: { summary: string; error: unknown; children: ReactNode }) {
  const ref = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    if (error !== undefined && ref.current?.querySelector("[aria-invalid=true], .wrong")) ref.current.open = true;
  }, [error]);
  return (
    <details ref={ref}>
      <summary>{summary}</summary>
      {children}
    </details>
  );
}

export function SelectField({ label, hint, wrong, full, value, onChange, mono: _, options, ...rest }: Of<SelectHTMLAttributes<HTMLSelectElement>> & { options: [value: string, word: string][] }) {
  return (
    <Field label={label} hint={hint} wrong={wrong} full={full ?? false}>
      {(p) => (
        <select {...p} {...rest} className="input" value={value} onChange={(e) => onChange(e.target.value)}>
          {options.map(([v, w]) => (
            <option key={v} value={v}>
              {w}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export function Check({ label, checked, onChange }: { label: ReactNode; checked: boolean; onChange: (v: boolean) => void }) {
  return (
    <label className="check">
      <input type="checkbox" checked={checked} onChange={(e) => onChange(e.target.checked)} />
      <span>{label}</span>
    </label>
  );
}

/** Segments choose one of a few. */
export function Segments<V extends string>({ label, value, options, onChange }: { label: string; value: V; options: [V, string][]; onChange: (v: V) => void }) {
  return (
    <div className="segments" role="group" aria-label={label}>
      {options.map(([v, w]) => (
        <button key={v} type="button" aria-pressed={v === value} onClick={() => onChange(v)}>
          {w}
        </button>
      ))}
    </div>
  );
}
