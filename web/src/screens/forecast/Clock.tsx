// Clock: schedules on the face of a 24-hour clock. A herd at midnight is seen at once.

import { useZone } from "../../prefs";
import { count, zoneName } from "../../ui";
import { PlotFrame } from "../../ui/plot";
import { clockOf, sectors, type Load } from "./calc";

const two = (n: number) => String(n).padStart(2, "0");
const time = (i: number) => `${two(Math.floor(i / 6))}:${two((i % 6) * 10)}`;
const few = (n: number) => (n >= 10 || Number.isInteger(n) ? count(Math.round(n)) : n.toFixed(1));

export function Clock({ load, hours }: { load: Load; hours: number }) {
  const [zone] = useZone();
  const values = clockOf(load, hours, zone);
  const most = Math.max(...values, 0);
  const at = values.indexOf(most);
  const sum = values.reduce((a, b) => a + b, 0);
  const quiet = values.filter((v) => v === 0).length;
  const summary = sum === 0 ? "Nothing is planned." : `On an average day ${few(sum)} fire; the busiest ten minutes start at ${time(at)}, with ${few(most)}${quiet > 0 ? `; nothing fires in ${Math.round((quiet / sectors) * 100)} % of the day` : ""}.`;
  const inner = 46;
  const outer = 122;
  return (
    <PlotFrame
      title="By time of day"
      summary={summary}
      table={() => ({ head: [`From (${zoneName(zone)})`, "Fires, on an average day"], rows: values.flatMap((v, i) => (v > 0 ? [[time(i), Number(v.toFixed(2))]] : [])) })}
    >
      <svg viewBox="-150 -150 300 300" className="forecast-clock" role="img" aria-label={"By time of day. " + summary}>
        {[0.33, 0.66, 1].map((f) => (
          <circle key={f} r={inner + (outer - inner) * f} fill="none" stroke="var(--line)" />
        ))}
        <circle r={inner} fill="var(--sunken)" stroke="var(--line-strong)" />
        {values.map((v, i) =>
          v > 0 ? <path key={i} d={wedge(i, inner, inner + Math.max(2, (outer - inner) * Math.sqrt(v / most)))} fill={v === most ? "var(--fill-warn)" : "var(--fill-busy)"} data-tip={`${time(i)}–${time((i + 1) % sectors)}: ${few(v)}`} /> : null,
        )}
        {Array.from({ length: 8 }, (_, k) => {
          const a = (k / 8) * 2 * Math.PI;
          return (
            <text key={k} x={Math.sin(a) * 137} y={-Math.cos(a) * 137} textAnchor="middle" dominantBaseline="central" fontSize="11" fill="var(--dim)">
              {two(k * 3)}
            </text>
          );
        })}
        <text y="-5" textAnchor="middle" fontSize="17" fontWeight="620" fill="var(--text)">
          {few(sum)}
        </text>
        <text y="12" textAnchor="middle" fontSize="10" fill="var(--dim)">
          a day
        </text>
      </svg>
    </PlotFrame>
  );
}

function wedge(i: number, r0: number, r1: number): string {
  const a = (i / sectors) * 2 * Math.PI;
  const b = ((i + 0.86) / sectors) * 2 * Math.PI;
  const p = (r: number, t: number) => `${(Math.sin(t) * r).toFixed(2)} ${(-Math.cos(t) * r).toFixed(2)}`;
  return `M${p(r0, a)}L${p(r1, a)}A${r1} ${r1} 0 0 1 ${p(r1, b)}L${p(r0, b)}A${r0} ${r0} 0 0 0 ${p(r0, a)}Z`;
}
