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

/** readFilter is what a filter means for the API; unknown holds the keys that mean nothing here. What is no key is text (q). */
export function readFilter(text: string, keys: FilterKey[]): { params: Record<string, string>; unknown: string[] } {
  const params: Record<string, string> = {};
  const unknown: string[] = [];
  const free: string[] = [];
  for (const w of words(text)) {
    if (w.key === undefined) {
      free.push(w.value);
      continue;
    }
    const k = keys.find((k) => k.key === w.key);
    if (!k) {
      // An address such as https://… is text, not a key.
      if (w.value.startsWith("//")) free.push(w.key + ":" + w.value);
      else unknown.push(w.key);
    } else if (w.value !== "") params[k.param] = k.write ? k.write(w.value) : w.value;
  }
  if (free.length) params["q"] = free.join(" ");
  return { params, unknown };
}

/** withWord is a filter in which a key has a value; an empty one takes it out. */
export function withWord(text: string, key: string, value: string): string {
  let out = text;
  for (const w of words(text).reverse()) if (w.key === key) out = out.slice(0, w.from) + out.slice(w.to);
  out = out.replace(/\s+/g, " ").trim();
  return value === "" ? out : (out + " " + key + ":" + quoted(value)).trim();
}
