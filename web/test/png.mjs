// Pictures made small: a PNG is read, its colours are brought down to 256, and it is written with a palette.

import { deflateSync, inflateSync } from "node:zlib";

/** small is the same picture in fewer bytes. What is drawn in one plain colour keeps it. */
export function small(png) {
  const { width, height, pixels } = read(png);
  const { palette, index } = reduce(pixels);
  const rows = Buffer.alloc(height * (width + 1));
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) rows[y * (width + 1) + 1 + x] = index.get(pixels[y * width + x]);
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8); // eight bits, by palette
  const colours = Buffer.from(palette.flatMap((c) => [c >> 16, (c >> 8) & 255, c & 255]));
  return Buffer.concat([signature, chunk("IHDR", head), chunk("PLTE", colours), chunk("IDAT", deflateSync(rows, { level: 9, memLevel: 9 })), chunk("IEND", Buffer.alloc(0))]);
}

const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

// read gives the colours of a picture of eight bits a channel, as Chromium takes them.
function read(png) {
  let width, height, channels;
  const data = [];
  for (let at = 8; at < png.length; ) {
    const length = png.readUInt32BE(at);
    const kind = png.toString("latin1", at + 4, at + 8);
    const body = png.subarray(at + 8, at + 8 + length);
    if (kind === "IHDR") [width, height, channels] = [body.readUInt32BE(0), body.readUInt32BE(4), { 2: 3, 6: 4 }[body[9]]];
    if (kind === "IDAT") data.push(body);
    at += 12 + length;
  }
  if (!channels) throw new Error("not a picture in true colours");
  const raw = inflateSync(Buffer.concat(data));
  const stride = width * channels;
  const line = new Uint8Array(stride);
  const pixels = new Uint32Array(width * height);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (stride + 1)];
    const before = new Uint8Array(line);
    for (let i = 0; i < stride; i++) {
      const a = i < channels ? 0 : line[i - channels], b = before[i], c = i < channels ? 0 : before[i - channels];
      line[i] = raw[y * (stride + 1) + 1 + i] + [0, a, b, (a + b) >> 1, paeth(a, b, c)][filter];
    }
    for (let x = 0; x < width; x++) pixels[y * width + x] = (line[x * channels] << 16) | (line[x * channels + 1] << 8) | line[x * channels + 2];
  }
  return { width, height, pixels };
}

function paeth(a, b, c) {
  const p = a + b - c, pa = Math.abs(p - a), pb = Math.abs(p - b), pc = Math.abs(p - c);
  return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}

// reduce keeps the most frequent colours and parts the others into boxes, each of which becomes its mean (median cut).
function reduce(pixels) {
  const counts = new Map();
  for (const p of pixels) counts.set(p, (counts.get(p) ?? 0) + 1);
  const all = [...counts].sort((a, b) => b[1] - a[1]);
  const plain = all.length <= 256 ? all.length : 96;
  const palette = all.slice(0, plain).map(([c]) => c);
  const index = new Map(palette.map((c, i) => [c, i]));
  const boxes = all.length > plain ? [all.slice(plain)] : [];
  const part = (c, k) => (c >> (16 - 8 * k)) & 255;
  const spread = (box) => {
    let best = [0, 0];
    for (let k = 0; k < 3; k++) {
      let [lo, hi] = [255, 0];
      for (const [c] of box) (lo = Math.min(lo, part(c, k))), (hi = Math.max(hi, part(c, k)));
      if (hi - lo > best[0]) best = [hi - lo, k];
    }
    return best;
  };
  const scored = boxes.map((b) => ({ b, s: spread(b) }));
  while (scored.length > 0 && scored.length < 256 - plain) {
    scored.sort((x, y) => y.s[0] * Math.sqrt(y.b.length) - x.s[0] * Math.sqrt(x.b.length));
    const { b, s } = scored.shift();
    if (s[0] === 0) {
      scored.push({ b, s });
      break;
    }
    b.sort((x, y) => part(x[0], s[1]) - part(y[0], s[1]));
    const half = b.reduce((n, [, k]) => n + k, 0) / 2;
    let [cut, n] = [0, 0];
    while (cut < b.length - 1 && n < half) n += b[cut++][1];
    for (const h of [b.slice(0, Math.max(1, cut)), b.slice(Math.max(1, cut))]) scored.push({ b: h, s: spread(h) });
  }
  for (const { b } of scored) {
    const total = b.reduce((n, [, k]) => n + k, 0);
    const mean = [0, 1, 2].map((k) => Math.round(b.reduce((n, [c, m]) => n + part(c, k) * m, 0) / total));
    for (const [c] of b) index.set(c, palette.length);
    palette.push((mean[0] << 16) | (mean[1] << 8) | mean[2]);
  }
  return { palette, index };
}

const table = Array.from({ length: 256 }, (_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n >>> 0;
});

function chunk(kind, body) {
  const out = Buffer.alloc(12 + body.length);
  out.writeUInt32BE(body.length, 0);
  out.write(kind, 4, "latin1");
  body.copy(out, 8);
  let crc = 0xffffffff;
  for (const byte of out.subarray(4, 8 + body.length)) crc = table[(crc ^ byte) & 255] ^ (crc >>> 8);
  out.writeUInt32BE((crc ^ 0xffffffff) >>> 0, 8 + body.length);
  return out;
}
