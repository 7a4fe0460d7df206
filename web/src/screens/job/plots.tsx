// The plots of a job: its last executions, a year of days, and how long it takes.

import { useGet, type CalendarDay, type Executions, type Job, type JobCalendar, type JobRuns } from "../../api";
import { useZone } from "../../prefs";
import { navigate } from "../../router";
import { count, counted, duration, RunsStrip, runsSentence, shortTime, wordOf, zoneName } from "../../ui";
import { Calendar, type Day } from "../../ui/heat";
import { PlotFrame, PlotState, Series } from "../../ui/plot";

/** RunsPlot is the strip of the last executions, with its sentence and its table. */
export function RunsPlot({ j }: { j: Job }) {
  const q = useGet<JobRuns>("/jobs:runs", { ids: j.job_id, n: 50 });
  const [zone] = useZone();
  const zoned = j.schedule.timezone;
  // What is shown until the answer comes may be of the job before.
  const mine = q.data?.jobs.find((r) => r.job_id === j.job_id)?.runs;
  return (
    <PlotState title="Last executions" query={{ ...q, data: mine }}>
      {(runs) => (
        <PlotFrame
          title="Last executions"
          summary={runsSentence(runs) + "."}
          table={() => ({
            head: [`Scheduled (${zoneName(zone, zoned)})`, "Outcome", "Took"],
            rows: runs.map((r) => [shortTime(Date.parse(r.scheduled_time), zone, zoned), wordOf(r.status), r.duration_ms === null ? "–" : duration(r.duration_ms)]),
            to: runs.map((r) => "/executions/" + r.execution_id),
          })}
        >
          <div className="job-strip">
            <RunsStrip runs={runs} max={50} />
          </div>
        </PlotFrame>
      )}
    </PlotState>
  );
}

const ran = (d: Omit<CalendarDay, "date">) => d.succeeded + d.failed + d.timed_out;
const bad = (d: Omit<CalendarDay, "date">) => d.failed + d.timed_out;

function dayOf(d: CalendarDay): Day {
  const parts = [`${count(d.succeeded)} succeeded`, bad(d) && `${count(bad(d))} failed`, d.late && `${count(d.late)} late`, d.skipped && `${count(d.skipped)} skipped`, d.cancelled && `${count(d.cancelled)} cancelled`].filter(Boolean);
  return { date: d.date, value: Math.max(1, ran(d)), tone: bad(d) > 0 ? "bad" : d.late + d.skipped > 0 ? "warn" : ran(d) > 0 ? "good" : "calm", tip: `${d.date}: ${parts.join(", ")}` };
}

export function YearPlot({ j, path }: { j: Job; path: string }) {
  const q = useGet<JobCalendar>(path + "/calendar");
  const to = (date: string) => "/executions?q=" + encodeURIComponent(`job:${j.job_id} from:${date} to:${new Date(Date.parse(date) + 86_400_000).toISOString().slice(0, 10)}`);
  return (
    <PlotState title="The past year" query={q}>
      {(c) => {
        const t = c.total;
        const days = [...c.days].reverse();
        return (
          <Calendar
            title="The past year"
            summary={ran(t) + t.skipped === 0 ? "No executions yet." : `${count(ran(t))} in a year: ${count(bad(t))} failed, ${count(t.late)} late, ${count(t.skipped)} skipped, on ${counted(c.days.length, "day")}.`}
            from={c.from}
            to={c.to}
            days={c.days.map(dayOf)}
            table={() => ({ head: ["Day (UTC)", "Succeeded", "Failed", "Timed out", "Cancelled", "Skipped", "Late"], rows: days.map((d) => [d.date, d.succeeded, d.failed, d.timed_out, d.cancelled, d.skipped, d.late]), to: days.map((d) => to(d.date)) })}
            onPick={(date) => navigate(to(date))}
          />
        );
      }}
    </PlotState>
  );
}

/** DurationPlot draws the median and the 95th percentile of the last executions, a few at a time. */
export function DurationPlot({ path }: { path: string }) {
  const q = useGet<Executions>(path + "/executions", { limit: 400, status: "SUCCEEDED,FAILED,TIMED_OUT" });
  if (!q.data) return <PlotState title="Duration" query={q} children={() => null} />;
  const done = q.data.executions.filter((e) => e.duration_ms !== null).reverse();
  if (done.length < 2) return null;
  const size = Math.max(1, Math.ceil(done.length / 60));
  const at: number[] = [];
  const median: number[] = [];
  const slow: number[] = [];
  for (let i = 0; i < done.length; i += size) {
    const group = done.slice(i, i + size);
    const sorted = group.map((e) => e.duration_ms ?? 0).sort((a, b) => a - b);
    const t = Date.parse(group[0]?.scheduled_time ?? "") / 1000;
    if (at.length && t <= (at[at.length - 1] ?? 0)) continue;
    at.push(t);
    median.push(sorted[Math.floor((sorted.length - 1) * 0.5)] ?? 0);
    slow.push(sorted[Math.ceil((sorted.length - 1) * 0.95)] ?? 0);
  }
  const all = done.map((e) => e.duration_ms ?? 0).sort((a, b) => a - b);
  return (
    <div className="panel">
      <Series
        title="Duration"
        summary={`The last ${count(done.length)} took ${duration(all[Math.floor((all.length - 1) / 2)] ?? 0)} (median), ${duration(all[all.length - 1] ?? 0)} at most.`}
        at={at}
        lines={[
          { label: "95 % within", values: slow, colour: "--fill-calm", as: "fill" },
          { label: "median", values: median, colour: "--fill-busy" },
        ]}
        format={(n) => duration(n)}
        height={150}
      />
    </div>
  );
}
