// Colours in logs: terminal escapes become spans with a class. Only colours and weights mean something here; whatever else an
// escape asks for (moving the cursor, titles, links) is left out. Colours are brought to the nearest of eight that can be
// read on both themes.

export type Piece = { text: string; style: string };

type Style = { colour: number | undefined; ground: number | undefined; bold: boolean; dim: boolean; italic: boolean; under: boolean; strike: boolean; swap: boolean };
const plain: Style = { colour: undefined, ground: undefined, bold: false, dim: false, italic: false, under: false, strike: false, swap: false };

// CSI … final byte; OSC, DCS and the like up to their end; other two-byte escapes; 8-bit forms of the same.
const escape = /(?:\x1b\[|\x9b)([0-9:;<=>?]*)[ -/]*([@-~])|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)|\x1b[ -/]*[0-~]?/g;
// What would be invisible, or would change how the rest reads.
const control = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

const pictures = (c: string) => {
  const n = c.charCodeAt(0);
  return n < 0x20 ? String.fromCharCode(0x2400 + n) : n === 0x7f ? "␡" : "";
};

/** pieces takes a line apart into runs of the same look. */
export function pieces(line: string): Piece[] {
  // A progress bar that writes over itself: what stood there last counts.
  const back = line.replace(/\r+$/, "").lastIndexOf("\r");
  const text = back >= 0 ? line.replace(/\r+$/, "").slice(back + 1) : line.replace(/\r+$/, "");
  const out: Piece[] = [];
  let style = plain;
  let from = 0;
  const add = (s: string) => {
    const clean = s.replace(control, pictures);
    if (clean) out.push({ text: clean, style: classes(style) });
  };
  for (const m of text.matchAll(escape)) {
    add(text.slice(from, m.index));
    from = m.index + m[0].length;
    if (m[2] === "m") style = apply(style, m[1] ?? "");
  }
  add(text.slice(from));
  return out;
}

/** bare is a line without its escapes, for search and for copies. */
export const bare = (line: string) => pieces(line).map((p) => p.text).join("");

function apply(s: Style, params: string): Style {
  const codes = (params === "" ? "0" : params).split(/[;:]/).map((p) => Number(p || 0));
  let out = s;
  for (let i = 0; i < codes.length; i++) {
    const c = codes[i] ?? 0;
    if (c === 38 || c === 48) {
      let colour: number | undefined;
      if (codes[i + 1] === 5) {
        colour = of256(codes[i + 2] ?? 0);
        i += 2;
      } else if (codes[i + 1] === 2) {
        colour = nearest(codes[i + 2] ?? 0, codes[i + 3] ?? 0, codes[i + 4] ?? 0);
        i += 4;
      }
      out = c === 38 ? { ...out, colour } : { ...out, ground: colour };
    } else out = one(out, c);
  }
  return out;
}

function one(s: Style, c: number): Style {
  if (c >= 30 && c <= 37) return { ...s, colour: c - 30 };
  if (c >= 90 && c <= 97) return { ...s, colour: c - 90 };
  if (c >= 40 && c <= 47) return { ...s, ground: c - 40 };
  if (c >= 100 && c <= 107) return { ...s, ground: c - 100 };
  switch (c) {
    case 0:
      return plain;
    case 1:
      return { ...s, bold: true };
    case 2:
      return { ...s, dim: true };
    case 3:
      return { ...s, italic: true };
    case 4:
      return { ...s, under: true };
    case 7:
      return { ...s, swap: true };
    case 9:
      return { ...s, strike: true };
    case 22:
      return { ...s, bold: false, dim: false };
    case 23:
      return { ...s, italic: false };
    case 24:
      return { ...s, under: false };
    case 27:
      return { ...s, swap: false };
    case 29:
      return { ...s, strike: false };
    case 39:
      return { ...s, colour: undefined };
    case 49:
      return { ...s, ground: undefined };
  }
  return s;
}

function of256(n: number): number | undefined {
  if (n < 16) return n % 8;
  if (n >= 232) return nearest((n - 232) * 10 + 8, (n - 232) * 10 + 8, (n - 232) * 10 + 8);
  const level = (v: number) => (v === 0 ? 0 : 55 + v * 40);
  const m = n - 16;
  return nearest(level(Math.floor(m / 36)), level(Math.floor(m / 6) % 6), level(m % 6));
}

/** nearest is the one of the eight colours that is most like it; greys have none: they read as text does. */
function nearest(r: number, g: number, b: number): number | undefined {
  const top = Math.max(r, g, b);
  if (top - Math.min(r, g, b) < 40) return undefined;
  const half = top * 0.6;
  return (r >= half ? 1 : 0) | (g >= half ? 2 : 0) | (b >= half ? 4 : 0);
}

function classes(s: Style): string {
  const out: string[] = [];
  // Black and white are the text itself: either would be lost in one of the themes. A ground keeps the text on it plain.
  if (s.swap) out.push("ansi-swap");
  else if (s.ground !== undefined && s.ground !== 0 && s.ground !== 7) out.push("ansi-ground ansi-ground-" + s.ground);
  else if (s.colour !== undefined && s.colour !== 0 && s.colour !== 7) out.push("ansi-" + s.colour);
  if (s.bold) out.push("ansi-bold");
  if (s.dim && s.colour === undefined && !s.swap && s.ground === undefined) out.push("ansi-dim");
  if (s.italic) out.push("ansi-italic");
  if (s.under) out.push("ansi-under");
  if (s.strike) out.push("ansi-strike");
  return out.join(" ");
}
