// RunsStrip: the last executions of a job as bars: the height is the duration, the shape and the colour are the outcome.

import { useRef, useState, type KeyboardEvent } from "react";
import { Link } from "../router";
import { counted, toneOf, wordOf } from "./basics";
import { duration } from "./format";

export type Run = { execution_id: string; status: string; duration_ms: number | null; scheduled_time: string };

const w = 5;
const h = 22;

/** runsSentence says what a strip shows. */
export function runsSentence(runs: Run[]): string {
  const bad = runs.filter((r) => toneOf(r.status) === "bad").length;
  return runs.length === 0 ? "No executions yet" : `Last ${counted(runs.length, "execution")}: ${bad === 0 ? "none failed" : bad + " failed"}, the latest ${wordOf(runs[0]?.status ?? "").toLowerCase()}`;
}

/** RunsStrip takes the newest first, as the API gives them, and shows the newest at the right. It is one stop of Tab; arrows go from bar to bar. */
export function RunsStrip({ runs, max = 30, links = true, to = (id) => "/executions/" + id }: { runs: Run[]; max?: number; links?: boolean; to?: (id: string) => string }) {
  const shown = runs.slice(0, max).reverse();
  const longest = Math.max(1, ...shown.map((r) => r.duration_ms ?? 0));
  const box = useRef<SVGSVGElement>(null);
  const [at, setAt] = useState("");
  const stop = shown.some((r) => r.execution_id === at) ? at : shown[shown.length - 1]?.execution_id;
  const move = (e: KeyboardEvent) => {
    const all = [...(box.current?.querySelectorAll("a") ?? [])];
    const i = all.indexOf(document.activeElement as (typeof all)[number]);
    const to = e.key === "ArrowLeft" ? i - 1 : e.key === "ArrowRight" ? i + 1 : e.key === "Home" ? 0 : e.key === "End" ? all.length - 1 : -1;
    if (i < 0 || to < 0 || to >= all.length) return;
    e.preventDefault();
    all[to]?.focus();
  };
  return (
    <svg ref={box} className="strip" width={max * (w + 1)} height={h} role={links ? "group" : "img"} aria-label={runsSentence(runs.slice(0, max))} onKeyDown={move}>
      {Array.from({ length: max - shown.length }, (_, i) => (
        <rect key={"n" + i} x={i * (w + 1)} y={h - 2} width={w} height={1} fill="var(--line-strong)" />
      ))}
      {shown.map((r, i) => {
        const x = (max - shown.length + i) * (w + 1);
        // Logarithmic: a strip shows outliers and still tells 10 ms from 100 ms.
        const tall = r.duration_ms === null ? 5 : Math.max(4, Math.round((h - 4) * (Math.log1p(r.duration_ms) / Math.log1p(longest))));
        const bar = <Bar status={r.status} x={x} tall={tall} />;
        const tip = `${wordOf(r.status)}${r.duration_ms === null ? "" : ", " + duration(r.duration_ms)}\n${r.scheduled_time.replace("T", " ")}`;
        return links ? (
          <Link key={r.execution_id} to={to(r.execution_id)} tabIndex={r.execution_id === stop ? 0 : -1} onFocus={() => setAt(r.execution_id)} data-tip={tip} aria-label={tip}>
            <rect x={x} y={0} width={w + 1} height={h} fill="transparent" />
            {bar}
          </Link>
        ) : (
          <g key={r.execution_id} data-tip={tip}>
            {bar}
          </g>
        );
      })}
    </svg>
  );
}

function Bar({ status, x, tall }: { status: string; x: number; tall: number }) {
  const tone = toneOf(status);
  const fill = `var(--fill-${tone})`;
  const y = h - tall;
  switch (tone) {
    case "bad": // a cap that is seen without its colour
      return (
        <g fill={fill}>
          <rect x={x + 1.5} y={y} width={2} height={tall} />
          <path d={`M${x} ${h}v-4l2.5-2.5 2.5 2.5v4z`} />
          <rect x={x} y={y} width={w} height={2} />
        </g>
      );
    case "busy": // hollow: not over yet
    case "warn":
      return <rect x={x + 0.5} y={y + 0.5} width={w - 1} height={tall - 1} fill="none" stroke={fill} />;
    case "calm":
      return <rect x={x} y={h - 4} width={w} height={2} fill={fill} />;
  }
  return <rect x={x} y={y} width={w} height={tall} rx={1} fill={fill} />;
}
