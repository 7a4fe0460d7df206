// Meter: how much of what there may be is used, as a bar and in numbers.

import { count } from "./basics";
import "./meter.css";

/** Meter takes no limit (null) for any number. */
export function Meter({ label, value, limit, text }: { label: string; value: number; limit: number | null; text?: string }) {
  const share = limit === null || limit <= 0 ? 0 : Math.min(1, value / limit);
  const tone = limit !== null && value >= limit ? "bad" : share > 0.8 ? "warn" : "busy";
  const said = text ?? (limit === null ? count(value) : `${count(value)} of ${count(limit)}`);
  return (
    <span className="meter" role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={limit ?? Math.max(1, value)} aria-valuenow={Math.min(value, limit ?? value)} aria-valuetext={said}>
      {limit !== null && (
        <span className="meter-bar">
          <i className={tone} style={{ width: `${share * 100}%` }} />
        </span>
      )}
      <span className="nowrap">{said}</span>
    </span>
  );
}
