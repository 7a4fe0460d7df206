// Spread: how herds can be taken apart, what would come of it, and the doing, which can be undone.

import { useState } from "react";
import { get, patch, Problem, useGet, useRefresh, type Forecast, type Job } from "../../api";
import { Link, useParam } from "../../router";
import { useMay } from "../../session";
import { Button, Check, CopyAs, count, Dialog, Empty, ErrorBox, failed, Loading, shortTime, toast } from "../../ui";
import { sh } from "../../ui/ask";
import { Series } from "../../ui/plot";
import { useZone } from "../../prefs";
import { loadOf, thinned, type Minute } from "./calc";

export type Move = { job_id: string; name: string; field: string; before: string | number; after: string | number; moved: number };
export type Spreading = { peak_before: number; peak_after: number; jobs_total: number; jobs: Move[]; minutes: Minute[] };

/** bodyOf is the change of one field, written as a dotted path, for PATCH. */
export function bodyOf(field: string, value: unknown): unknown {
  return field.split(".").reduceRight<unknown>((v, k) => ({ [k]: v }), value);
}

export function Spread({ forecast, now, hours }: { forecast: Forecast; now: number; hours: number }) {
  const [wanted, setWanted] = useParam("spread");
  const q = useGet<Forecast & { spread: Spreading | null }>(wanted ? "/forecast" : undefined, { hours, spread: true });
  const may = useMay("operator");
  if (!wanted)
    return (
      <section className="panel stack" aria-label="Spread these">
        <h2>Spread these</h2>
        <p className="dim">
          {forecast.herds.length === 0 ? "No minute has a herd to spread." : "Jobs that fire in the same minute often do not have to: for most, any minute of the hour will do."}
        </p>
        {forecast.herds.length > 0 && (
          <div>
            <Button kind="primary" onClick={() => setWanted("1", { push: true })}>
              Suggest how
            </Button>
          </div>
        )}
      </section>
    );
  const s = q.data?.spread;
  return (
    <section className="panel stack" aria-label="Spread these">
      <div className="row">
        <h2 className="grow">Spread these</h2>
        <Button kind="ghost" small onClick={() => setWanted("", { push: true })}>
          Close
        </Button>
      </div>
      {q.isError ? (
        <ErrorBox error={q.error} retry={() => void q.refetch()} />
      ) : !q.data ? (
        <Loading lines={4} />
      ) : !s || s.jobs.length === 0 ? (
        <Empty title="There is nothing to spread">The jobs of the herd have schedules in which the minute cannot be changed alone.</Empty>
      ) : (
        <Suggestion s={s} forecast={forecast} now={now} hours={hours} may={may} />
      )}
    </section>
  );
}

function Suggestion({ s, forecast, now, hours, may }: { s: Spreading; forecast: Forecast; now: number; hours: number; may: boolean }) {
  const [zone] = useZone();
  const [off, setOff] = useState<Set<string>>(new Set());
  const [asking, setAsking] = useState(false);
  const before = thinned(loadOf(forecast.minutes), now, hours);
  const after = thinned(loadOf(s.minutes), now, hours);
  const chosen = s.jobs.filter((j) => !off.has(j.job_id));
  const toggle = (id: string) => {
    const next = new Set(off);
    if (!next.delete(id)) next.add(id);
    setOff(next);
  };
  return (
    <>
      <Series
        title="Before and after"
        summary={`The busiest minute would have ${count(s.peak_after)} instead of ${count(s.peak_before)}, by moving ${count(s.jobs_total)} ${s.jobs_total === 1 ? "job" : "jobs"} to other minutes.`}
        at={before.at}
        lines={[
          { label: "before: the busiest minute", values: before.values, colour: "--fill-calm", as: "fill" },
          { label: "after", values: after.values, colour: "--fill-good" },
        ]}
        {...(hours > 24 ? { tick: (t: number) => shortTime(t * 1000, zone, undefined, false).slice(5, 10) } : {})}
      />
      {s.jobs_total > s.jobs.length && (
        <p className="dim">
          The {count(s.jobs.length)} that move the most are listed; apply them and look again for the other {count(s.jobs_total - s.jobs.length)}.
        </p>
      )}
      <div className="tablebox forecast-moves" tabIndex={0} role="region" aria-label="Suggested changes">
        <table className="table cards compact">
          <thead>
            <tr>
              {may && (
                <th className="pick">
                  <input type="checkbox" aria-label="All of them" checked={off.size === 0} onChange={() => setOff(off.size === 0 ? new Set(s.jobs.map((j) => j.job_id)) : new Set())} />
                </th>
              )}
              <th scope="col">Job</th>
              <th scope="col">Now</th>
              <th scope="col">Suggested</th>
              <th scope="col" className="num">
                Fires moved
              </th>
              <th scope="col">
                <span className="sr">Copy</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {s.jobs.map((j) => (
              <tr key={j.job_id}>
                {may && (
                  <td className="pick">
                    <input type="checkbox" aria-label={"Move " + j.name} checked={!off.has(j.job_id)} onChange={() => toggle(j.job_id)} />
                  </td>
                )}
                <td className="lead">
                  <Link className="name wrap" to={"/jobs/" + j.job_id}>
                    {j.name}
                  </Link>
                </td>
                <td data-label="now">
                  <code>{words(j, j.before)}</code>
                </td>
                <td data-label="suggested">
                  <code>{words(j, j.after)}</code>
                </td>
                <td data-label="moves" className="num">
                  {count(j.moved)}
                </td>
                <td className="num wide-only">
                  <CopyAs cli={cliOf(j)} curl={{ method: "PATCH", path: "/jobs/" + j.job_id, body: bodyOf(j.field, j.after) }} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {may ? (
        <div className="row">
          <Button kind="primary" disabled={chosen.length === 0} onClick={() => setAsking(true)}>
            Move {count(chosen.length)} {chosen.length === 1 ? "job" : "jobs"}…
          </Button>
        </div>
      ) : (
        <p className="dim">Only an operator can apply this.</p>
      )}
      {asking && <Apply moves={chosen} onClose={() => setAsking(false)} />}
    </>
  );
}

const words = (j: Move, v: string | number) => (j.field === "schedule.jitter_ms" ? `jitter ${v} ms` : String(v));
const cliOf = (j: Move) => (j.field === "schedule.jitter_ms" ? `carillon job edit ${j.job_id} --jitter ${j.after}ms` : `carillon job edit ${j.job_id} --cron ${sh(String(j.after))}`);

type Moved = { move: Move; revision: number };
type Result = { done: Moved[]; wrong: { move: Move; error: unknown }[] };

const valueAt = (j: Job, field: string) => field.split(".").reduce<unknown>((v, k) => (v as Record<string, unknown> | null | undefined)?.[k], j);

/** forth moves one job, unless it is not any more what the suggestion was made for. */
async function forth(m: Move): Promise<number> {
  const j = await get<Job>("/jobs/" + m.job_id);
  const is = valueAt(j, m.field) ?? (typeof m.before === "number" ? 0 : "");
  if (String(is) !== String(m.before)) throw new Problem(412, "revision_mismatch", "Someone changed it meanwhile", `It is now ${words(m, String(is))}, not ${words(m, m.before)}.`);
  return change(m, m.after, j.revision);
}

/** change writes a value, unless someone else changed the job meanwhile; it answers with the job's revision. */
const change = async (m: Move, value: unknown, revision: number) => (await patch<Job>("/jobs/" + m.job_id, bodyOf(m.field, value), { headers: { "If-Match": String(revision) } })).revision;

/** each does it to all, four at a time, and says how far it has come. */
async function each<T extends { move: Move }>(all: T[], act: (x: T) => Promise<number>, told: (n: number) => void): Promise<Result> {
  const out: Result = { done: [], wrong: [] };
  const todo = [...all];
  const work = async () => {
    for (let x = todo.shift(); x; x = todo.shift()) {
      try {
        out.done.push({ move: x.move, revision: await act(x) });
      } catch (error) {
        out.wrong.push({ move: x.move, error });
      }
      told(out.done.length + out.wrong.length);
    }
  };
  await Promise.all([work(), work(), work(), work()]);
  return out;
}

/** Apply asks, changes the jobs one by one, and offers to put them back. */
function Apply({ moves, onClose }: { moves: Move[]; onClose: () => void }) {
  const [sure, setSure] = useState(false);
  const [at, setAt] = useState<number>();
  const [result, setResult] = useState<Result>();
  const refresh = useRefresh();
  const run = async () => {
    setAt(0);
    const r = await each(moves.map((move) => ({ move })), (x) => forth(x.move), setAt);
    setResult(r);
    void refresh("/forecast", "/jobs");
  };
  const undo = (done: Moved[]) =>
    void each(done, (x) => change(x.move, x.move.before, x.revision), () => {}).then((r) => {
      if (r.wrong[0]) failed(r.wrong[0].error, `${count(r.wrong.length)} could not be restored`);
      else toast(`${count(r.done.length)} ${r.done.length === 1 ? "job is" : "jobs are"} as before`);
      void refresh("/forecast", "/jobs");
    });
  return (
    <Dialog title={`Move ${count(moves.length)} ${moves.length === 1 ? "job" : "jobs"} to another minute`} onClose={onClose}>
      {result ? (
        <>
          <p role="status">
            <strong>
              {count(result.done.length)} moved{result.wrong.length > 0 && `, ${count(result.wrong.length)} not`}.
            </strong>
          </p>
          {result.wrong.slice(0, 3).map((w) => (
            <ErrorBox key={w.move.job_id} error={w.error} what={w.move.name} />
          ))}
          <footer>
            {result.done.length > 0 && (
              <Button
                onClick={() => {
                  undo(result.done);
                  onClose();
                }}
              >
                Put them back
              </Button>
            )}
            <Button
              kind="primary"
              onClick={() => {
                const done = result.done;
                if (done.length > 0) toast(`Moved ${count(done.length)} ${done.length === 1 ? "job" : "jobs"}`, { undo: () => undo(done) });
                onClose();
              }}
            >
              Keep it
            </Button>
          </footer>
        </>
      ) : (
        <>
          <p>The schedule of each job changes, counted from now. Past runs stay; the table above shows the new times.</p>
          {at === undefined ? (
            <Check label="None of these jobs depends on its exact minute" checked={sure} onChange={setSure} />
          ) : (
            <progress max={moves.length} value={at} aria-label="Progress" />
          )}
          {moves[0] && <code className="dim small wrap">{cliOf(moves[0])}</code>}
          <footer>
            <Button onClick={onClose}>Cancel</Button>
            <Button kind="primary" disabled={!sure || at !== undefined} onClick={() => void run()}>
              {at === undefined ? "Move them" : `${count(at)} of ${count(moves.length)}`}
            </Button>
          </footer>
        </>
      )}
    </Dialog>
  );
}
