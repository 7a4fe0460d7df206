// LoadMap: the coming load as a map of minutes, and below it what calendars leave out.

import { useEffect, useMemo, useRef, useState } from "react";
import type { Calendar } from "../../api";
import { useZone } from "../../prefs";
import { count, shortTime, zoneName } from "../../ui";
import { colour, PlotFrame, useThemeCount, useWidth } from "../../ui/plot";
import { byHour, excluded, gridOf, type Load } from "./calc";

type Props = { load: Load; now: number; hours: number; summary: string; capacity: number | undefined; calendars: Calendar[] };

const left = 66;
const axis = 20;
const lane = 16;

export function LoadMap({ load, now, hours, summary, capacity, calendars }: Props) {
  const [box, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useThemeCount();
  const [zone] = useZone();
  const [under, setUnder] = useState<{ at: number; n: number }>();
  const g = useMemo(() => gridOf(load, now, hours, zone), [load, now, hours, zone]);
  const lanes = useMemo(() => calendars.slice(0, 6).map((c) => ({ name: c.name, out: excluded(c, g.starts[0] ?? 0, g.starts[g.columns] ?? 0, zone) })), [calendars, g, zone]);
  const body = g.rows * 3 + 12;
  const tall = body + axis + lanes.length * lane;
  const cw = (width - left) / g.columns;
  const rh = body / g.rows;
  const most = Math.max(1, ...g.cells.values());
  // Where something fires in every minute, what is always there is the ground that the rest stands out from.
  const least = g.cells.size < 2 ? 0 : Math.min(...g.cells.values());
  const shade = (n: number) => 0.18 + 0.82 * (most === least ? 0.5 : most < 4 * least ? (n - least) / (most - least) : Math.log1p(n - least) / Math.log1p(most - least));
  useEffect(() => {
    const el = canvas.current;
    const c = el?.getContext("2d");
    if (!el || !c || width < 60) return;
    const dpr = devicePixelRatio || 1;
    el.width = width * dpr;
    el.height = tall * dpr;
    c.scale(dpr, dpr);
    c.font = "11px system-ui, sans-serif";
    c.fillStyle = colour("--sunken");
    c.fillRect(left, 0, width - left, body);
    const heat = colour("--heat");
    const over = colour("--fill-bad");
    for (const [k, n] of g.cells) {
      const x = left + Math.floor(k / g.rows) * cw;
      const y = (k % g.rows) * rh;
      const full = capacity !== undefined && n > capacity;
      c.globalAlpha = full ? 1 : shade(n);
      c.fillStyle = full ? over : heat;
      c.fillRect(x, y, Math.max(cw - (cw > 5 ? 1 : 0), 0.8), Math.max(rh - 0.4, 1));
    }
    c.globalAlpha = 1;
    // Now.
    c.fillStyle = colour("--brand");
    c.fillRect(left + g.at(now) * cw, 0, 1.5, body);
    c.fillStyle = colour("--dim");
    c.textBaseline = "middle";
    c.textAlign = "right";
    const step = g.rows === 60 ? 15 : 16;
    for (let r = 0; r < g.rows; r += step) c.fillText(g.rowName(r), left - 6, Math.max(6, r * rh + rh / 2));
    const ticks = Math.max(2, Math.floor((width - left) / (hours > 24 ? 100 : 70)));
    const every = Math.max(1, Math.ceil(g.columns / ticks));
    for (let i = 0; i < g.columns; i += every) {
      const t = shortTime((g.starts[i] ?? 0) * 1000, zone, undefined, false);
      c.textAlign = i === 0 ? "left" : "center";
      if (left + (i + 0.5) * cw < width - 30) c.fillText(hours > 24 ? `${t.slice(5, 10)}${g.minutes === 1 ? " " + t.slice(11) : ""}` : t.slice(11), left + (i === 0 ? 0 : (i + 0.5) * cw), body + axis / 2);
    }
    lanes.forEach((l, i) => {
      const y = body + axis + i * lane;
      c.textAlign = "right";
      c.fillStyle = colour("--dim");
      c.fillText(l.name.length > 9 ? l.name.slice(0, 8) + "…" : l.name, left - 6, y + lane / 2);
      c.fillStyle = colour("--calm-soft");
      c.fillRect(left, y + 3, width - left, lane - 6);
      for (const s of l.out) {
        const x = left + g.at(s.from) * cw;
        const w = Math.max(2, left + g.at(s.to) * cw - x);
        c.save();
        c.beginPath();
        c.rect(x, y + 3, w, lane - 6);
        c.clip();
        c.fillStyle = colour("--warn-soft");
        c.fillRect(x, y, w, lane);
        c.strokeStyle = colour("--warn");
        c.lineWidth = 1.2;
        for (let d = x - lane; d < x + w; d += 5) {
          c.beginPath();
          c.moveTo(d, y + lane);
          c.lineTo(d + lane, y);
          c.stroke();
        }
        c.restore();
      }
    });
  }, [width, tall, theme, zone, load, now, hours, capacity, JSON.stringify(lanes)]);
  const look = (x: number, y: number) => {
    const c = Math.floor((x - left) / cw);
    const r = Math.floor(y / rh);
    if (c < 0 || c >= g.columns || r < 0 || r >= g.rows) return undefined;
    return { at: g.time(c, r), n: g.cells.get(c * g.rows + r) ?? 0 };
  };
  return (
    <PlotFrame
      title="Upcoming load"
      summary={summary}
      table={() => ({ head: [`Hour (${zoneName(zone)})`, "Fires", "Busiest minute", "at"], rows: byHour(load, zone) })}
      legend={
        under ? (
          <span>{`${shortTime(under.at * 1000, zone, undefined, false)}: ${count(under.n)}${g.minutes > 1 ? " in the busiest minute" : ""}`}</span>
        ) : (
          <>
            <span>{g.minutes === 1 ? "Each column is an hour, each row a minute; a stronger colour means more." : "Each column is a day, each row a quarter of an hour; a stronger colour means a busier minute."}</span>
            {capacity !== undefined && most > capacity && (
              <span>
                <i style={{ background: "var(--fill-bad)" }} />
                more than the workers can start
              </span>
            )}
            {lanes.length > 0 && <span>Hatched: excluded by a calendar.</span>}
          </>
        )
      }
    >
      <div ref={box}>
        <canvas ref={canvas} role="img" aria-label={"Upcoming load. " + summary} style={{ width, height: tall }} onPointerMove={(e) => setUnder(look(e.nativeEvent.offsetX, e.nativeEvent.offsetY))} onPointerLeave={() => setUnder(undefined)} />
      </div>
    </PlotFrame>
  );
}
