// Timeline: where the time of an execution went, attempt by attempt.

import { useState } from "react";
import { type Event, type Execution, type Report } from "../../api";
import { useZone } from "../../prefs";
import { Button, duration, exactTime, toneOf, useNow, wordOf } from "../../ui";
import { PlotFrame, useWidth } from "../../ui/plot";
import { scaleOf, storyOf, tokenText, type Mark, type Row, type Span } from "./story";

const rowHeight = 30;
const most = 12; // rows before some are folded

type Props = { e: Execution; report: Report; events: Event[]; beat: number | undefined; host: (id: string | null) => string };

export function Timeline({ e, report, events, beat, host }: Props) {
  const now = useNow();
  const [box, width] = useWidth<HTMLDivElement>();
  const [zone] = useZone();
  const [all, setAll] = useState(false);
  const story = storyOf(e, report, events, now, beat);
  const folded = !all && story.rows.length > most ? story.rows.length - most + 1 : 0;
  const rows: (Row | number)[] = folded ? [...story.rows.slice(0, 3), folded, ...story.rows.slice(3 + folded)] : story.rows;
  const label = width < 520 ? 62 : 92;
  const plot = Math.max(60, width - label - 10);
  const { x, even } = scaleOf(story, plot);
  const height = rows.length * rowHeight + 22;
  const others = [...new Set(story.rows.flatMap((r) => r.marks).filter((m) => ["released", "snoozed", "parked", "cancel_requested", "forced"].includes(m.kind)).map((m) => m.name))];
  const table = () => ({
    head: ["What", "Part", "From", "To", "Took", "Worker", "Token"],
    rows: story.rows.flatMap((r) => [
      ...r.spans.map((s) => [r.label, s.name, exactTime(s.from, zone), exactTime(s.to, zone), duration(s.to - s.from), r.attempt ? host(r.attempt.worker_id) : "", r.attempt ? tokenText(r.attempt.fencing_token) : ""]),
      ...r.marks.map((m) => [r.label, m.name + (m.detail ? ": " + m.detail : ""), exactTime(m.at, zone), "", "", r.attempt ? host(r.attempt.worker_id) : "", r.attempt ? tokenText(r.attempt.fencing_token) : ""]),
    ]),
  });
  return (
    <div className="panel">
      <PlotFrame
        title="Timeline"
        summary={story.summary}
        table={table}
        actions={folded || all ? <Button kind="ghost" small onClick={() => setAll(!all)}>{all ? "Collapse attempts" : `All ${story.rows.length - 1} attempts`}</Button> : undefined}
        legend={
          <>
            <Key kind="due" word="due" />
            <Key kind="queued" word="queued" />
            <Key kind="started" word="leased and started" />
            {beat !== undefined && <Key kind="beat" word="last heartbeat" />}
            {story.refused > 0 && <Key kind="refused" word="stale result, refused" />}
            {others.length > 0 && <Key kind="released" word={others.join(", ")} />}
            <span className="execution-key">
              <svg width="18" height="18" viewBox="0 0 18 18" aria-hidden="true">
                <line x1="0" x2="18" y1="9" y2="9" className="execution-wait" />
              </svg>
              waiting
            </span>
            {!even && <span>Not to scale: short parts are drawn longer, long ones shorter.</span>}
          </>
        }
      >
        <div ref={box} className="execution-timeline">
          {width > 0 && (
            <svg width={width} height={height} role="img" aria-label={"Timeline. " + story.summary}>
              {rows.map((r, i) => {
                const y = i * rowHeight;
                if (typeof r === "number")
                  return (
                    <text key="folded" x={label} y={y + 19} className="execution-label">
                      … {r} attempts more
                    </text>
                  );
                return (
                  <g key={i} transform={`translate(0 ${y})`}>
                    <text x={0} y={19} className="execution-label">
                      {width < 520 ? r.label.replace("Attempt ", "# ") : r.label}
                    </text>
                    <line x1={label} x2={label + plot} y1={15} y2={15} className="execution-rail" />
                    <g transform={`translate(${label} 0)`}>
                      {r.spans.map((s, k) => (
                        <Bar key={k} s={s} x={x(s.from)} w={Math.max(2, x(s.to) - x(s.from))} tip={tipOf(s, r, zone, host)} />
                      ))}
                      {r.marks.map((m, k) => (
                        <g key={"m" + k} transform={`translate(${x(m.at)} 15)`} data-tip={`${m.name}${m.detail ? ": " + m.detail : ""}\n${exactTime(m.at, zone)}`}>
                          <circle r="8" fill="transparent" />
                          <Sign kind={m.kind} />
                        </g>
                      ))}
                      {r.spans.map((s, k) => (
                        <Word key={"w" + k} s={s} x={x(s.from)} w={Math.max(2, x(s.to) - x(s.from))} room={plot} marks={r.marks.map((m) => x(m.at))} />
                      ))}
                    </g>
                  </g>
                );
              })}
              <Axis story={story} x={x} label={label} y={rows.length * rowHeight + 14} plot={plot} />
            </svg>
          )}
        </div>
      </PlotFrame>
    </div>
  );
}

function tipOf(s: Span, r: Row, zone: Parameters<typeof exactTime>[1], host: (id: string | null) => string): string {
  const a = s.kind === "run" ? r.attempt : undefined;
  return [s.name, exactTime(s.from, zone), "to " + exactTime(s.to, zone), a && "worker " + host(a.worker_id), a && "token " + tokenText(a.fencing_token), a?.error && a.error.type + ": " + a.error.message].filter(Boolean).join("\n");
}

function Bar({ s, x, w, tip }: { s: Span; x: number; w: number; tip: string }) {
  if (s.kind !== "run")
    return (
      <g data-tip={tip}>
        <rect x={x} y={4} width={w} height={22} fill="transparent" />
        <line x1={x} x2={x + w} y1={15} y2={15} className={s.kind === "planned" ? "execution-wait planned" : s.kind === "delay" ? "execution-wait delay" : "execution-wait"} />
      </g>
    );
  const tone = s.outcome === "RUNNING" || s.outcome === "PARKED" ? "busy" : toneOf(s.outcome ?? "");
  return (
    <g data-tip={tip}>
      <rect x={x} y={6} width={w} height={18} rx={3} className={"execution-bar " + tone} />
      {tone === "bad" && <path d={`M${x + w - 1} 6v18`} className="execution-end" />}
    </g>
  );
}

/** Word names a span: in it, else beside it, clear of the marks. */
function Word({ s, x, w, room, marks }: { s: Span; x: number; w: number; room: number; marks: number[] }) {
  if (s.kind !== "run")
    return w > s.name.length * 6.2 + 16 ? (
      <text x={x + w / 2} y={10} textAnchor="middle" className="execution-note">
        {s.name}
      </text>
    ) : null;
  const tone = s.outcome === "RUNNING" || s.outcome === "PARKED" ? "busy" : toneOf(s.outcome ?? "");
  const word = `${wordOf(s.outcome ?? "")} ${duration(s.to - s.from)}`;
  const long = word.length * 6.6 + 8;
  const inside = marks.filter((m) => m > x + 3 && m < x + w);
  const at = [x + 7, ...inside.map((m) => m + 13)].find((a) => a + long < x + w && !inside.some((m) => m > a - 10 && m < a + long));
  if (at !== undefined)
    return (
      <text x={at} y={19} className={"execution-word on " + tone}>
        {word}
      </text>
    );
  const right = x + w + 8 + long < room;
  const edge = right ? Math.max(x + w, ...marks.filter((m) => m < x + w + long)) + 10 : Math.min(x, ...marks.filter((m) => m > x - long)) - 10;
  return (
    <text x={edge} y={19} textAnchor={right ? "start" : "end"} className="execution-word">
      {word}
    </text>
  );
}

function Sign({ kind }: { kind: Mark["kind"] }) {
  switch (kind) {
    case "due":
      return <path d="M0 -6 5 0 0 6 -5 0z" className="execution-mark filled" />;
    case "queued":
      return <circle r="4" className="execution-mark" />;
    case "started":
      return <path d="M0 -9V9" className="execution-mark thick" />;
    case "refused":
      return <path d="M0 -7 7 0 0 7 -7 0z" className="execution-mark refused" />;
    case "beat":
      return <path d="M-6 0h3l2 -5 3 9 2 -4h3" className="execution-mark beat" />;
    case "next":
      return <path d="M-3 -5 5 0 -3 5z" className="execution-mark" />;
    default:
      return <path d="M-4 -4h8v8h-8z" className="execution-mark" />;
  }
}

function Key({ kind, word }: { kind: Mark["kind"]; word: string }) {
  return (
    <span className="execution-key">
      <svg width="18" height="18" viewBox="-9 -9 18 18" aria-hidden="true">
        <Sign kind={kind} />
      </svg>
      {word}
    </span>
  );
}

/** Axis names a few instants, as time since it was due. */
function Axis({ story, x, label, y, plot }: { story: { rows: Row[]; from: number; to: number }; x: (at: number) => number; label: number; y: number; plot: number }) {
  const at = [...new Set([story.from, ...story.rows.flatMap((r) => r.spans.flatMap((s) => [s.from, s.to])), story.to])].sort((a, b) => a - b);
  const shown: { at: number; x: number }[] = [];
  const last = x(story.to);
  for (const a of at) {
    const p = x(a);
    const before = shown[shown.length - 1];
    if (a !== story.to && ((before && p - before.x < 62) || last - p < 62)) continue;
    shown.push({ at: a, x: p });
  }
  return (
    <g className="execution-axis" aria-hidden="true">
      {shown.map((s, i) => (
        <text key={i} x={label + s.x} y={y} textAnchor={i === 0 ? "start" : s.x > plot - 40 ? "end" : "middle"}>
          {i === 0 ? "due" : "+" + duration(s.at - story.from)}
        </text>
      ))}
    </g>
  );
}
