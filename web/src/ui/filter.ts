// The language of filters: words of the form key:value, and text. status:failed,timed_out tag:nightly "could not connect".

export type FilterKey = {
  key: string;
  /** The parameter of the API that it stands for. */
  param: string;
  hint: string;
  values?: string[] | ((typed: string) => Promise<string[]>);
  /** How a value is written for the API; capitals for enums. */
  write?: (v: string) => string;
};

export type Word = { key?: string; value: string; from: number; to: number };

/** words takes a filter apart, with where each word stands. */
export function words(text: string): Word[] {
  const out: Word[] = [];
  const pattern = /([a-z_]+):(?=\s|$)|(?:([a-z_]+):)?("(?:[^"\\]|\\.)*"?|\S+)/gi;
  for (const m of text.matchAll(pattern)) {
    const raw = m[3] ?? "";
    const value = raw.startsWith('"') ? raw.slice(1, raw.length > 1 && raw.endsWith('"') ? -1 : undefined).replace(/\\(.)/g, "$1") : raw;
    const key = (m[1] ?? m[2])?.toLowerCase();
    out.push({ ...(key ? { key } : {}), value, from: m.index, to: m.index + m[0].length });
  }
  return out;
}

/** quoted is a value as it is written in a filter. */
export const quoted = (v: string) => (/[\s"]/.test(v) || v === "" ? '"' + v.replace(/["\\]/g, "\\$&") + '"' : v);

export type Filter = {
  params: Record<string, string>;
  /** Keys that mean nothing here: they are searched for, with their value, as text. */
  unknown: string[];
  /** Keys whose value is still to come: until then they choose nothing. */
  open: string[];
};

/** readFilter is what a filter means for the API, as the server reads it too. What is no key is text (q). */
export function readFilter(text: string, keys: FilterKey[]): Filter {
  const out: Filter = { params: {}, unknown: [], open: [] };
  const free: string[] = [];
  for (const w of words(text)) {
    const k = keys.find((k) => k.key === w.key);
    if (w.key === undefined) free.push(w.value);
    else if (w.value === "") (k ? out.open : out.unknown).push(w.key);
    else if (k) out.params[k.param] = k.write ? k.write(w.value) : w.value;
    else {
      free.push(text.slice(w.from, w.to));
      if (!w.value.startsWith("//")) out.unknown.push(w.key); // an address such as https://… is text
    }
  }
  if (free.length) out.params["q"] = free.join(" ");
  return out;
}

/** whole reports whether a filter says what it means: only then may the same be done to all that it chooses. */
export const whole = (f: Filter) => f.unknown.length === 0 && f.open.length === 0;

/** withWord is a filter in which a key has a value; an empty one takes it out. */
export function withWord(text: string, key: string, value: string): string {
  let out = text;
  for (const w of words(text).reverse()) if (w.key === key) out = out.slice(0, w.from) + out.slice(w.to);
  out = out.replace(/\s+/g, " ").trim();
  return value === "" ? out : (out + " " + key + ":" + quoted(value)).trim();
}
