// Fields of forms. Each says what it wants, and where the server refused it, why.

import { useId, type InputHTMLAttributes, type ReactNode, type SelectHTMLAttributes, type TextareaHTMLAttributes } from "react";
import { isProblem } from "../api/http";

/** wrongOf is what a problem says of a field, if anything. */
export function wrongOf(error: unknown, field: string): string | undefined {
  const f = isProblem(error) ? error.errors.find((e) => e.field === field) : undefined;
  return f && "wanted: " + f.want;
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
