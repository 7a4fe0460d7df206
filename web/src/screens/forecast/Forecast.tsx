// Forecast: what is coming, where too much of it comes at once, and what to do about it.

import { useMemo } from "react";
import { keepFile, serverNow, useGet, type Calendar, type Executions, type Forecast as Told, type Workers } from "../../api";
import { useZone } from "../../prefs";
import { Link, useParam } from "../../router";
import { count, CopyAs, duration, Empty, ErrorBox, Head, LinkButton, Loading, Menu, Segments, shortTime, zoneName } from "../../ui";
import { Series } from "../../ui/plot";
import { helloCommand } from "../jobs/words";
import { asCsv, excluded, loadOf, sumsOf, thinned, type Load } from "./calc";
import { Clock } from "./Clock";
import { LoadMap } from "./LoadMap";
import { Spread } from "./Spread";
import "./forecast.css";

const spans: [string, string][] = [
  ["24", "24 h"],
  ["168", "7 d"],
  ["720", "30 d"],
];

export default function Forecast() {
  const [chosen, setChosen] = useParam("hours", "24");
  const hours = spans.some(([v]) => v === chosen) ? Number(chosen) : 24;
  const q = useGet<Told>("/forecast", { hours }, { every: 120_000 });
  const calendars = useGet<{ calendars: Calendar[] }>("/calendars", { limit: 200 });
  const capacity = useCapacity();
  const f = q.data;
  const load = useMemo(() => loadOf(f?.minutes ?? []), [f]);
  const now = useMemo(() => serverNow() / 1000, [f]);
  const words = spans.find(([v]) => Number(v) === hours)?.[1] ?? "";
  return (
    <>
      <Head
        title="Forecast"
        actions={
          <>
            <Segments label="How far ahead" value={String(hours)} options={spans} onChange={(v) => setChosen(v, { push: true })} />
            {f && !q.isPlaceholderData && (
              <Menu
                label="Export"
                items={[
                  { label: "CSV, minute by minute", run: () => keepFile(`forecast-${hours}h.csv`, new Blob([asCsv(f.minutes)], { type: "text/csv" })) },
                  { label: "JSON", run: () => keepFile(`forecast-${hours}h.json`, new Blob([JSON.stringify(f, null, 2)], { type: "application/json" })) },
                ]}
              />
            )}
            <CopyAs link={"/forecast?hours=" + hours} cli={`carillon forecast --hours ${hours}`} curl={{ method: "GET", path: "/forecast?hours=" + hours }} />
          </>
        }
      />
      {q.isPending || q.isPlaceholderData ? (
        <Loading lines={8} />
      ) : q.isError && !f ? (
        <ErrorBox error={q.error} retry={() => void q.refetch()} />
      ) : f && f.minutes.length === 0 ? (
        <div className="panel">
          <Empty title={`No schedule fires within the next ${words}`} command={helloCommand()} action={<LinkButton to="/jobs/new?sample=hello" kind="primary">Create the hello job</LinkButton>}>
            Give a job a schedule, and its future runs show here.
          </Empty>
        </div>
      ) : f ? (
        <Drawn f={f} load={load} now={now} hours={hours} words={words} capacity={capacity} calendars={calendars.data?.calendars ?? []} />
      ) : null}
    </>
  );
}

type Capacity = { slots: number; seconds: number; perMinute: number };

/** useCapacity is how many the workers could start in a minute, by how long the last executions took. */
function useCapacity(): Capacity | undefined {
  const workers = useGet<Workers>("/workers", { limit: 1000 });
  const last = useGet<Executions>("/executions", { limit: 200, status: "SUCCEEDED,FAILED,TIMED_OUT" });
  const slots = (workers.data?.workers ?? []).filter((w) => w.status !== "DEAD" && w.status !== "DRAINING" && w.status !== "CORDONED").reduce((n, w) => n + w.capacity, 0);
  const took = (last.data?.executions ?? []).flatMap((e) => (e.duration_ms === null ? [] : [e.duration_ms]));
  if (slots === 0 || took.length === 0) return undefined;
  const seconds = Math.max(0.001, took.reduce((a, b) => a + b, 0) / took.length / 1000);
  return { slots, seconds, perMinute: Math.floor((slots * 60) / seconds) };
}

function Drawn({ f, load, now, hours, words, capacity, calendars }: { f: Told; load: Load; now: number; hours: number; words: string; capacity: Capacity | undefined; calendars: Calendar[] }) {
  const [zone] = useZone();
  const s = sumsOf(load);
  const least = f.truncated ? "At least " : "";
  const when = s.at === undefined ? "" : shortTime(s.at * 1000, zone, undefined, false);
  const line = thinned(load, now, hours);
  const room = capacity?.perMinute;
  const over = room === undefined ? 0 : [...load.values()].filter((n) => n > room).length;
  const near = room !== undefined && room < s.peak * 5;
  const summary = `${least}${count(s.total)} will fire in the next ${words}; the busiest minute is ${when}, with ${count(s.peak)}.`;
  return (
    <>
      <p className={over > 0 ? "warn" : "dim"} role="status">
        {summary}{" "}
        {capacity &&
          (over > 0
            ? `In ${count(over)} ${over === 1 ? "minute" : "minutes"} that is more than the workers can start: ${count(capacity.slots)} slots and ${duration(capacity.seconds * 1000)} for each make about ${count(capacity.perMinute)} a minute.`
            : `The workers can start about ${count(capacity.perMinute)} a minute: ${count(capacity.slots)} slots, ${duration(capacity.seconds * 1000)} for each.`)}
      </p>
      <div className="panel">
        <LoadMap load={load} now={now} hours={hours} summary={summary} capacity={room} calendars={calendars} />
      </div>
      <div className="forecast-two">
        <div className="stack">
          <div className="panel">
            <Series
              title="Busiest minutes and worker capacity"
              summary={room === undefined ? "The capacity of the workers is unknown: there are none, or nothing has run yet." : near ? `About ${count(room)} a minute can be started.` : `About ${count(room)} a minute can be started, far more than needed.`}
              at={line.at}
              lines={[{ label: `busiest minute of each ${duration(line.step * 1000)}`, values: line.values, colour: "--fill-busy", as: "bars" }, ...(near && room !== undefined ? [{ label: "can be started", values: line.at.map(() => room), colour: "--bad" }] : [])]}
              {...(hours > 24 ? { tick: (t: number) => shortTime(t * 1000, zone, undefined, false).slice(5, 10) } : {})}
            />
          </div>
          <Herds f={f} average={s.total / (hours * 60)} />
        </div>
        <div className="stack">
          <div className="panel">
            <Clock load={load} hours={hours} />
          </div>
          {calendars.length > 0 && <Left calendars={calendars} now={now} hours={hours} />}
        </div>
      </div>
      <Spread forecast={f} now={now} hours={hours} />
    </>
  );
}

/** Herds are the minutes in which uncommonly many come together, the fullest first. */
function Herds({ f, average }: { f: Told; average: number }) {
  const [zone] = useZone();
  return (
    <section className="panel stack" aria-label="Herds">
      <h2>
        Herds <span className="dim small">({zoneName(zone)})</span>
      </h2>
      {f.herds.length === 0 ? (
        <p className="dim">No minute is unusually busy.</p>
      ) : (
        <ol className="forecast-herds">
          {f.herds.map((h) => (
            <li key={h.at}>
              <div className="row">
                <span className="forecast-rank">{count(h.count)}</span>
                <span className="grow">
                  {shortTime(Date.parse(h.at), zone, undefined, false)}
                </span>
                <span className="dim small">{count(Math.round(h.count / Math.max(average, 0.01)))} × the average</span>
              </div>
              <div className="dim small forecast-jobs">
                {h.jobs.map((j, i) => (
                  <span key={j.job_id}>
                    {i > 0 && ", "}
                    <Link to={"/jobs/" + j.job_id}>{j.name}</Link>
                    {j.count > 1 && ` × ${count(j.count)}`}
                  </span>
                ))}
                {h.jobs.reduce((n, j) => n + j.count, 0) < h.count && " and others"}
              </div>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}

/** Left lists what calendars leave out of the time that is shown. */
function Left({ calendars, now, hours }: { calendars: Calendar[]; now: number; hours: number }) {
  const [zone] = useZone();
  return (
    <section className="panel stack" aria-label="Excluded by calendars">
      <div className="row">
        <h2 className="grow">Excluded by calendars</h2>
        <Link to="/admin/calendars">Calendars</Link>
      </div>
      <dl className="facts">
        {calendars.map((c) => {
          const out = excluded(c, now, now + hours * 3600, zone);
          return (
            <div key={c.name} style={{ display: "contents" }}>
              <dt className="wrap">{c.name}</dt>
              <dd>
                {out.length === 0 ? (
                  <span className="dim">nothing in this time</span>
                ) : (
                  <span className="forecast-days">
                    {out.slice(0, 8).map((s) => (
                      <span key={s.from}>
                        {shortTime(s.from * 1000, zone, undefined, false)} to {shortTime(s.to * 1000, zone, undefined, false)}
                      </span>
                    ))}
                    {out.length > 8 && <span className="dim">and {count(out.length - 8)} more</span>}
                  </span>
                )}
              </dd>
            </div>
          );
        })}
      </dl>
      <p className="dim small">Times in {zoneName(zone)}. A calendar without a zone of its own is read in each schedule's.</p>
    </section>
  );
}
