// JSON whose numbers stay as they were written: 64-bit ids, 1.0 and 1e400 survive being read and sent again.

type Context = { source?: string };
type Exact = { parse(text: string, reviver: (key: string, value: unknown, context: Context) => unknown): unknown; rawJSON?(text: string): unknown };
const exact = JSON as unknown as Exact;

// Text in which some number may change when it becomes a double.
const suspicious = /[\d.]{16}|\d\.\d*0(?!\d)|\d[eE]|-0(?![\d.])/;

// Browsers that cannot keep a number as it was written get it as marked text, which no text that is sent can begin with.
const mark = "\u0000" + Math.random() + "\u0000";
class Raw {
  constructor(readonly rawJSON: string) {}
  toJSON() {
    return mark + this.rawJSON;
  }
}
const strings = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const quotedMark = JSON.stringify(mark).slice(0, -1);
const marked = new RegExp(quotedMark.replace(/[\\.]/g, "\\$&") + '([^"]*)"', "g");

function parseMarked(text: string): unknown {
  JSON.parse(text); // so that what is wrong is told of the text as it was written
  const kept = text.replace(strings, (m) => (m.startsWith('"') || String(Number(m)) === m ? m : quotedMark + m + '"'));
  return JSON.parse(kept, (_, v: unknown) => (typeof v === "string" && v.startsWith(mark) ? new Raw(v.slice(mark.length)) : v));
}

/** parse reads JSON. Numbers that a double cannot hold become objects that stringify writes as they were. */
export function parse(text: string): unknown {
  if (!suspicious.test(text)) return JSON.parse(text);
  const raw = exact.rawJSON;
  if (!raw) return parseMarked(text);
  return exact.parse(text, (_, v, c) => (typeof v === "number" && c?.source !== undefined && String(v) !== c.source ? raw.call(JSON, c.source) : v));
}

/** stringify writes what parse has read, numbers as they were. */
export function stringify(value: unknown, indent?: number): string {
  const text = JSON.stringify(value, null, indent) ?? "null";
  return exact.rawJSON ? text : text.replace(marked, "$1");
}

/** flaw says where text is not JSON, or nothing where it is. */
export function flaw(text: string): string | undefined {
  try {
    parse(text);
    return undefined;
  } catch (e) {
    const why = e instanceof Error ? e.message : String(e);
    const at = /position (\d+)/.exec(why)?.[1];
    if (at === undefined) return why;
    const before = text.slice(0, Number(at)).split("\n");
    return `line ${before.length}, column ${(before[before.length - 1]?.length ?? 0) + 1}: ${why.replace(/ in JSON at position.*| at position.*/, "")}`;
  }
}
