// The preview of a schedule while it is typed: in words, with its next instants and what clocks do to them.

import { useEffect, useState } from "react";
import { isProblem, post, type Preview as PreviewType, type Problem } from "../../api";
import { clockTime, State, Time } from "../../ui";

export function Preview({ body, zone }: { body: Record<string, string | undefined>; zone: string }) {
  const [shown, setShown] = useState<{ preview?: PreviewType; problem?: Problem }>({});
  const text = JSON.stringify(body);
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(() => {
      post<PreviewType>("/schedules/preview", { ...(JSON.parse(text) as object), n: 6 }, { signal: stop.signal }).then(
        (preview) => setShown({ preview }),
        (e: unknown) => isProblem(e) && setShown({ problem: e }),
      );
    }, 200);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [text]);
  const { preview: p, problem } = shown;
  if (problem)
    return (
      <div className="form-preview" role="status">
        {problem.errors.length === 0 && <p className="bad">{problem.detail}</p>}
        {problem.errors.map((f, i) => (
          <p key={i} className="bad wrap">
            {f.field}: {f.want}
          </p>
        ))}
      </div>
    );
  return (
    <div className="form-preview" role="status" aria-label="Preview of the schedule">
      {p && <strong>{p.description}</strong>}
      {p?.warnings.map((w) => (
        <p key={w.code + w.message} className="warn small">
          {w.message}
        </p>
      ))}
      {p && (
        <ol>
          {p.next.map((m) => (
            <li key={m.utc}>
              <span className="nowrap">
                {day(m.local)} {m.local.slice(0, 10)} {m.local.slice(11, 19)}
              </span>
              {m.flag && <State of={m.flag === "excluded" ? "SKIPPED" : "LATE"} word={marks[m.flag]} />}
              <span className="dim small">
                <Time at={m.utc} zone={zone} />
                {clockTime(Date.parse(m.utc), "local") !== m.local.slice(11, 16) && `, ${clockTime(Date.parse(m.utc), "local")} for you`}
              </span>
            </li>
          ))}
        </ol>
      )}
    </div>
  );
}

const marks: Record<string, string> = { gap: "clocks go forward", "first-of-two": "clocks go back: the first", "second-of-two": "clocks go back: the second", excluded: "left out" };
const day = (local: string) => new Date(local.slice(0, 10) + "T00:00:00Z").toLocaleString("en", { weekday: "short", timeZone: "UTC" });
