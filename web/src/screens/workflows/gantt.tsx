// Gantt: when each node was ready, started and ended. Only the rows in sight are drawn.

import { useEffect, useRef, useState } from "react";
import { counted, duration, toneOf, useNow, wordOf } from "../../ui";
import { ended, saying, spans, type Layout, type RunOf } from "./data";

const row = 26;

export function Gantt({ run, layout, chosen, onChoose }: { run: RunOf; layout: Layout; chosen: string; onChoose: (key: string) => void }) {
  const tick = useNow();
  const now = ended(run.status) ? Date.parse(run.finished_at ?? "") || tick : tick;
  const { spans: list, from, to } = spans(run, layout, now);
  const box = useRef<HTMLDivElement>(null);
  const [sight, setSight] = useState({ width: 0, top: 0, height: 600 });
  useEffect(() => {
    const el = box.current;
    if (!el) return;
    const look = () => setSight({ width: el.clientWidth, top: el.scrollTop, height: el.clientHeight });
    const seen = new ResizeObserver(look);
    seen.observe(el);
    el.addEventListener("scroll", look, { passive: true });
    return () => {
      seen.disconnect();
      el.removeEventListener("scroll", look);
    };
  }, []);
  const label = sight.width < 520 ? 96 : 190;
  const plot = Math.max(60, sight.width - label - 16);
  const x = (t: number) => label + ((t - from) / (to - from)) * plot;
  const critical = new Set(run.critical_path);
  const rest = (run.nodes?.length ?? 0) - list.length;
  const begin = Math.max(0, Math.floor(sight.top / row) - 10);
  const shown = list.slice(begin, begin + Math.ceil(sight.height / row) + 20);
  return (
    <div className="stack tight">
      <div className="row small dim workflows-legend">
        <span className="workflows-key wait" /> ready, waiting to start
        <span className="workflows-key run" /> running
        {critical.size > 0 && (
          <>
            <span className="workflows-key critical" /> critical path
          </>
        )}
        <span className="grow" />
        <span>{duration(to - from)} in all</span>
      </div>
      <div ref={box} className="panel flush workflows-gantt" tabIndex={0} role="group" aria-label={`Gantt chart of ${counted(list.length, "node")}. The table below has the same data.`}>
        <svg width={sight.width} height={Math.max(list.length, 1) * row + 8} aria-hidden="true">
          {[0.25, 0.5, 0.75, 1].map((f) => (
            <line key={f} className="workflows-rule" x1={label + f * plot} x2={label + f * plot} y1={0} y2={list.length * row + 8} />
          ))}
          {shown.map((s, i) => {
            const tone = s.open ? "busy" : toneOf(s.node.status);
            const waited = s.start - s.ready;
            const end = Math.max(x(s.end), x(s.start) + 2);
            const words = saying(s.node, s.box, now) + (waited > 1000 && waited > (s.end - s.ready) / 20 ? `, waited ${duration(waited)}` : "");
            const room = words.length * 6.2 + 12;
            const inside = end - x(s.start) > room;
            const before = !inside && end + room > label + plot;
            return (
              <g key={s.node.key} className={"workflows-bar " + tone + (critical.has(s.node.key) ? " critical" : "") + (s.node.key === chosen ? " chosen" : "")} transform={`translate(0 ${(begin + i) * row + 4})`} onClick={() => onChoose(s.node.key)} data-tip={`${s.node.key}: ${wordOf(s.node.status)}\nwaited ${duration(waited)} to start, ran ${duration(s.end - s.start)}`}>
                <rect className="line" width={sight.width} height={row} y={-2} />
                <text className="name" x={8} y={15}>
                  {s.node.key.length * 7 > label - 16 ? s.node.key.slice(0, Math.floor((label - 16) / 7) - 1) + "…" : s.node.key}
                </text>
                {waited > 0 && <rect className="wait" x={x(s.ready)} y={8} width={Math.max(0, x(s.start) - x(s.ready))} height={6} />}
                <rect className="run" x={x(s.start)} y={3} width={end - x(s.start)} height={16} rx={3} />
                <text className={inside ? "on" : ""} x={inside ? x(s.start) + 6 : before ? x(s.ready) - 6 : end + 6} y={15} textAnchor={before ? "end" : "start"}>
                  {words}
                </text>
              </g>
            );
          })}
        </svg>
      </div>
      {rest > 0 && <p className="small dim">{counted(rest, "node")} not started.</p>}
    </div>
  );
}
