// Graph: a workflow as the server has laid it out. Only what is in sight is drawn: nodes as elements, or from afar as one path for each colour; edges as one path.

import { memo, useCallback, useEffect, useId, useMemo, useRef, useState, type KeyboardEvent, type PointerEvent } from "react";
import { Button, glyphOf, toneOf, wordOf, type Tone } from "../../ui";
import type { Box, Layout } from "./data";

export type Look = { status: string; text: string; done?: number };
type Props = { layout: Layout; label: string; look?: (key: string) => Look | undefined; critical?: Set<string>; chosen?: string; onChoose: (key: string) => void };
type Win = { x0: number; y0: number; x1: number; y1: number; far: boolean };

const far = 0.4; // below this scale nobody can read

function course(points: [number, number][], down: boolean): string {
  let d = "";
  points.forEach(([x, y], i) => {
    const [px, py] = points[i - 1] ?? [x, y];
    if (i === 0) d += `M${x} ${y}`;
    else if (down ? px === x : py === y) d += `L${x} ${y}`;
    else if (down) d += `C${px} ${(py + y) / 2} ${x} ${(py + y) / 2} ${x} ${y}`;
    else d += `C${(px + x) / 2} ${py} ${(px + x) / 2} ${y} ${x} ${y}`;
  });
  const [x, y] = points[points.length - 1] ?? [0, 0];
  return d + (down ? "m-3.5 -7l3.5 7l3.5 -7" : "m-7 -3.5l7 3.5l-7 3.5") + `M${x} ${y}`;
}

export function Graph({ layout, label, look, critical, chosen, onChoose }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const pane = useRef<SVGGElement>(null);
  const view = useRef({ k: 1, x: 0, y: 0, fit: 1, fresh: true });
  const [win, setWin] = useState<Win>({ x0: 0, y0: 0, x1: 0, y1: 0, far: false });
  const winRef = useRef(win);
  const [at, setAt] = useState("");
  const id = useId();
  const down = layout.direction === "down";
  const byKey = useMemo(() => new Map(layout.nodes.map((n) => [n.key, n])), [layout]);
  const edges = useMemo(
    () =>
      layout.edges.map((e) => {
        const xs = e.points.map((p) => p[0]);
        const ys = e.points.map((p) => p[1]);
        return { from: e.from, to: e.to, d: course(e.points, down), x0: Math.min(...xs), x1: Math.max(...xs), y0: Math.min(...ys), y1: Math.max(...ys) };
      }),
    [layout, down],
  );

  // move shows another part: the pane at once, what is drawn on it only when its edge comes into sight.
  const move = useCallback(() => {
    const el = box.current;
    if (!el || !pane.current) return;
    const v = view.current;
    const w = el.clientWidth;
    const h = el.clientHeight;
    const keep = (at: number, size: number, room: number) => (size * v.k <= room ? (room - size * v.k) / 2 : Math.min(24, Math.max(room - size * v.k - 24, at)));
    v.x = keep(v.x, layout.width, w);
    v.y = keep(v.y, layout.height, h);
    pane.current.setAttribute("transform", `translate(${v.x} ${v.y}) scale(${v.k})`);
    const [x0, y0, x1, y1] = [-v.x / v.k, -v.y / v.k, (w - v.x) / v.k, (h - v.y) / v.k];
    const c = winRef.current;
    const isFar = v.k < far;
    if (isFar === c.far && x0 >= c.x0 && y0 >= c.y0 && x1 <= c.x1 && y1 <= c.y1 && (c.x1 - c.x0) * v.k < 4 * w) return;
    const [mx, my] = [(x1 - x0) / 2, (y1 - y0) / 2];
    winRef.current = { x0: x0 - mx, y0: y0 - my, x1: x1 + mx, y1: y1 + my, far: isFar };
    setWin(winRef.current);
  }, [layout]);

  const zoom = useCallback(
    (k: number, cx?: number, cy?: number) => {
      const el = box.current;
      if (!el) return;
      const v = view.current;
      const next = Math.min(2, Math.max(Math.min(v.fit, 1) * 0.9, k));
      const [px, py] = [cx ?? el.clientWidth / 2, cy ?? el.clientHeight / 2];
      v.x = px - ((px - v.x) / v.k) * next;
      v.y = py - ((py - v.y) / v.k) * next;
      v.k = next;
      move();
    },
    [move],
  );
  /** toSight brings a node into sight. */
  const toSight = useCallback(
    (n: Box | undefined) => {
      const el = box.current;
      const v = view.current;
      if (!el || !n) return;
      const [x, y] = [n.x * v.k + v.x, n.y * v.k + v.y];
      if (x < 8 || x + n.w * v.k > el.clientWidth - 8) v.x = el.clientWidth / 2 - (n.x + n.w / 2) * v.k;
      if (y < 8 || y + n.h * v.k > el.clientHeight - 8) v.y = el.clientHeight / 2 - (n.y + n.h / 2) * v.k;
      move();
    },
    [move],
  );
  const fit = useCallback(
    (least: number) => {
      const v = view.current;
      v.k = Math.min(1, Math.max(v.fit, least));
      v.x = v.y = 12;
      move();
    },
    [move],
  );
  // The first sight is all of it where that can be read, else the beginning, or what failed or runs.
  const first = useRef(look);
  useEffect(() => {
    const el = box.current;
    if (!el) return;
    const size = () => {
      const v = view.current;
      v.fit = Math.min((el.clientWidth - 24) / layout.width, (el.clientHeight - 24) / layout.height);
      if (v.fresh && el.clientWidth > 0) {
        v.fresh = false;
        fit(0.7);
        const now = (s: string) => layout.nodes.find((n) => first.current?.(n.key)?.status === s);
        toSight(byKey.get(chosen ?? "") ?? now("FAILED") ?? now("RUNNING") ?? layout.nodes[0]);
      } else move();
    };
    const seen = new ResizeObserver(size);
    seen.observe(el);
    const wheel = (e: WheelEvent) => {
      if (!e.ctrlKey && !e.metaKey) return;
      e.preventDefault();
      const b = el.getBoundingClientRect();
      zoom(view.current.k * Math.exp(-e.deltaY / 300), e.clientX - b.left, e.clientY - b.top);
    };
    el.addEventListener("wheel", wheel, { passive: false });
    return () => {
      seen.disconnect();
      el.removeEventListener("wheel", wheel);
    };
  }, [layout, move, zoom, fit]);

  const drag = useRef<{ x: number; y: number; moved: boolean } | undefined>(undefined);
  const under = (e: PointerEvent): Box | undefined => {
    const b = box.current?.getBoundingClientRect();
    const v = view.current;
    if (!b) return undefined;
    const [x, y] = [(e.clientX - b.left - v.x) / v.k, (e.clientY - b.top - v.y) / v.k];
    return layout.nodes.find((n) => x >= n.x && x <= n.x + n.w && y >= n.y && y <= n.y + n.h);
  };
  const onPointerDown = (e: PointerEvent<HTMLDivElement>) => {
    if (e.button !== 0 || (e.target as Element).closest("button")) return;
    drag.current = { x: e.clientX, y: e.clientY, moved: false };
    e.currentTarget.setPointerCapture(e.pointerId);
  };
  const onPointerMove = (e: PointerEvent<HTMLDivElement>) => {
    const d = drag.current;
    if (!d) return void (e.currentTarget.style.cursor = under(e) ? "pointer" : "grab");
    if (!d.moved && Math.hypot(e.clientX - d.x, e.clientY - d.y) < 4) return;
    d.moved = true;
    view.current.x += e.clientX - d.x;
    view.current.y += e.clientY - d.y;
    d.x = e.clientX;
    d.y = e.clientY;
    move();
  };
  const onPointerUp = (e: PointerEvent<HTMLDivElement>) => {
    const d = drag.current;
    drag.current = undefined;
    if (!d || d.moved) return;
    const n = under(e);
    if (n) {
      setAt(n.key);
      onChoose(n.key);
    }
  };
  // Arrows go along edges and within a layer.
  const key = (e: KeyboardEvent) => {
    const n = byKey.get(at || (chosen ?? "")) ?? layout.nodes[0];
    if (!n || (e.target as Element).closest("button")) return;
    const [on, back, less, more] = down ? ["ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight"] : ["ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown"];
    const beside = (sign: number) => {
      const place = (b: Box) => (down ? b.x : b.y);
      return layout.nodes.filter((b) => b.layer === n.layer && sign * (place(b) - place(n)) > 0).sort((a, b) => sign * (place(a) - place(b)))[0];
    };
    let to: Box | undefined;
    if (e.key === "Enter" || e.key === " ") onChoose(n.key);
    else if (e.key === "+" || e.key === "-") zoom(view.current.k * (e.key === "+" ? 1.25 : 0.8));
    else if (e.key === "0") fit(0);
    else if (e.key === "Home") to = layout.nodes[0];
    else if (e.key === "End") to = layout.nodes[layout.nodes.length - 1];
    else if (at === "" && e.key.startsWith("Arrow")) to = n;
    else if (e.key === on) to = byKey.get(layout.edges.find((x) => x.from === n.key)?.to ?? "");
    else if (e.key === back) to = byKey.get(layout.edges.find((x) => x.to === n.key)?.from ?? "");
    else if (e.key === more) to = beside(1);
    else if (e.key === less) to = beside(-1);
    else return;
    e.preventDefault();
    e.stopPropagation();
    if (to) {
      setAt(to.key);
      toSight(to);
    }
  };

  const inSight = (x0: number, y0: number, x1: number, y1: number) => x1 >= win.x0 && x0 <= win.x1 && y1 >= win.y0 && y0 <= win.y1;
  const shownEdges = edges.filter((e) => inSight(e.x0, e.y0, e.x1, e.y1));
  const strong = (e: { from: string; to: string }) => e.from === chosen || e.to === chosen || (critical?.has(e.from) && critical.has(e.to));
  const shown = layout.nodes.filter((n) => inSight(n.x, n.y, n.x + n.w, n.y + n.h));
  const current = byKey.get(at);
  const tell = current ? `${current.key}: ${[look && wordOf(look(current.key)?.status ?? ""), look?.(current.key)?.text || current.text].filter(Boolean).join(", ")}` : "";
  return (
    <div className="panel flush workflows-graph">
      <div
        ref={box}
        className="workflows-pane"
        style={{ height: `min(64vh, ${Math.max(layout.height + 24, 150)}px)` }}
        role="group"
        tabIndex={0}
        aria-label={`${label}. Arrow keys go from node to node, Enter opens one.`}
        aria-describedby={id}
        onKeyDown={key}
        {...{ onPointerDown, onPointerMove, onPointerUp }}
        onPointerCancel={() => (drag.current = undefined)}
      >
        <svg width="100%" height="100%" aria-hidden="true">
          <g ref={pane}>
            {layout.finally && (
              <g className="workflows-finally">
                <rect x={layout.finally.x} y={layout.finally.y} width={layout.finally.w} height={layout.finally.h} rx={10} />
                <text x={layout.finally.x + 12} y={layout.finally.y + 12}>
                  finally
                </text>
              </g>
            )}
            <path className="workflows-edges" d={shownEdges.map((e) => e.d).join("")} />
            <path className="workflows-edges strong" d={shownEdges.filter(strong).map((e) => e.d).join("")} />
            {win.far ? <Far nodes={shown} look={look} /> : shown.map((n) => <Node key={n.key} n={n} look={look?.(n.key)} plain={!look} critical={critical?.has(n.key) ?? false} />)}
            {[chosen, at].map((k, i) => {
              const n = k ? byKey.get(k) : undefined;
              return n && <rect key={i} className={i === 0 ? "workflows-chosen" : "workflows-at"} x={n.x - 4} y={n.y - 4} width={n.w + 8} height={n.h + 8} rx={10} />;
            })}
          </g>
        </svg>
      </div>
      <div className="workflows-zoom">
        <Button small aria-label="Zoom in" onClick={() => zoom(view.current.k * 1.25)}>
          +
        </Button>
        <Button small aria-label="Zoom out" onClick={() => zoom(view.current.k * 0.8)}>
          −
        </Button>
        <Button small onClick={() => fit(0)}>
          Fit
        </Button>
      </div>
      <span id={id} className="sr" role="status">
        {tell}
      </span>
    </div>
  );
}

const tones: Tone[] = ["calm", "good", "warn", "busy", "bad"];

/** Far is all nodes without their words. */
function Far({ nodes, look }: { nodes: Box[]; look: ((key: string) => Look | undefined) | undefined }) {
  return tones.map((t) => <path key={t} className={"workflows-far " + t} d={nodes.filter((n) => toneOf(look?.(n.key)?.status ?? "") === t).map((n) => `M${n.x} ${n.y}h${n.w}v${n.h}h${-n.w}z`).join("")} />);
}

const fitted = (text: string, room: number, char: number) => (text.length * char <= room ? text : text.slice(0, Math.max(1, Math.floor(room / char) - 1)) + "…");

type NodeProps = { n: Box; look: Look | undefined; plain: boolean; critical: boolean };

const Node = memo(DrawnNode, (a, b) => a.n === b.n && a.critical === b.critical && a.look?.status === b.look?.status && a.look?.text === b.look?.text && a.look?.done === b.look?.done);

function DrawnNode({ n, look, plain, critical }: NodeProps) {
  const text = look?.text || n.text || "";
  const left = plain ? 12 : 30;
  let right = n.w - 8;
  return (
    <g className={["workflows-node", toneOf(look?.status ?? ""), plain && "plain", critical && "critical"].filter(Boolean).join(" ")} transform={`translate(${n.x} ${n.y})`}>
      <rect width={n.w} height={n.h} rx={7} />
      {look?.done !== undefined && look.done > 0 && <rect className="done" x={1} y={n.h - 4} width={(n.w - 2) * look.done} height={3} />}
      {!plain && (
        <g className="glyph" transform={`translate(9 ${n.h / 2 - 7}) scale(1.2)`}>
          {glyphOf(look?.status ?? "WAITING")}
        </g>
      )}
      <text className="key" x={left} y={text ? n.h / 2 - 3 : n.h / 2 + 5}>
        {fitted(n.key, n.w - left - 8, 7.6)}
      </text>
      {text && (
        <text x={left} y={n.h / 2 + 13}>
          {fitted(text, n.w - left - 8, 6.1)}
        </text>
      )}
      {[...(n.marks ?? [])].reverse().map((m) => {
        const w = m.length * 6 + 10;
        right -= w + 4;
        return (
          right > 0 && (
            <g key={m} className="mark" transform={`translate(${right + 4} -7)`}>
              <rect width={w} height={14} rx={7} />
              <text x={w / 2} y={10} textAnchor="middle">
                {m}
              </text>
            </g>
          )
        );
      })}
    </g>
  );
}
