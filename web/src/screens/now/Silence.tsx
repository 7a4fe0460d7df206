// Silence: who is told of a job is told nothing for a while. A rule is silent as a whole, so the dialog says what else it tells of.

import { useState } from "react";
import { put, serverNow, useGet, useRefresh, type Job } from "../../api";
import { Link } from "../../router";
import { Check, Empty, ErrorBox, failed, Loading, SelectField, Time, toast } from "../../ui";
import { Ask } from "../../ui/ask";
import type { Rule } from "../admin/types";

const spans: [string, string][] = [
  ["1", "for an hour"],
  ["8", "for 8 hours"],
  ["24", "for a day"],
  ["168", "for a week"],
];

const save = (r: Rule, until: string | null) =>
  put<Rule>("/notification-rules/" + encodeURIComponent(r.name), { events: r.events, jobs: r.jobs, tags: r.tags, callback_url: r.callback_url, late_after_seconds: r.late_after_seconds, silence_until: until });

const concerns = (r: Rule, j: Job) => (r.jobs.length === 0 || r.jobs.includes(j.job_id)) && (r.tags.length === 0 || r.tags.some((t) => j.tags.includes(t)));
const alone = (r: Rule) => r.jobs.length === 1;
const others = (r: Rule) => (r.jobs.length > 1 ? `also tells of ${r.jobs.length - 1} other jobs` : r.tags.length ? `also tells of every job tagged ${r.tags.join(" or ")}` : "tells of every job");

export function Silence({ id, name, onClose }: { id: string; name: string; onClose: () => void }) {
  const job = useGet<Job>("/jobs/" + id);
  const rules = useGet<{ notification_rules: Rule[] }>("/notification-rules", { limit: 100 });
  const [hours, setHours] = useState("1");
  const [off, setOff] = useState<string[]>([]);
  const refresh = useRefresh();
  const error = job.error ?? rules.error;
  const j = job.data;
  const about = j && rules.data ? rules.data.notification_rules.filter((r) => concerns(r, j)) : undefined;
  const chosen = about?.filter((r) => !off.includes(r.name)) ?? [];
  const run = async () => {
    const until = new Date(serverNow() + Number(hours) * 3_600_000).toISOString();
    const done: Rule[] = [];
    try {
      for (const r of chosen) {
        await save(r, until);
        done.push(r);
      }
    } finally {
      void refresh("/notification-rules");
    }
    toast(`Silent ${spans.find(([h]) => h === hours)?.[1] ?? ""}: ${done.map((r) => r.name).join(", ")}`, {
      undo: () => void Promise.all(done.map((r) => save(r, r.silence_until))).then(() => refresh("/notification-rules"), failed),
    });
  };
  return (
    <Ask title={`Silence ${name}`} action="Silence" ready={chosen.length > 0} onClose={onClose} run={run}>
      {error ? (
        <ErrorBox error={error} />
      ) : !about ? (
        <Loading lines={2} />
      ) : about.length === 0 ? (
        <Empty title="Nobody is told of it" action={<Link to="/admin/notifications">Notifications</Link>}>
          No notification rule is about this job.
        </Empty>
      ) : (
        <>
          <fieldset className="stack tight">
            <legend>These rules tell of it</legend>
            {about.map((r) => (
              <div key={r.name}>
                <Check label={r.name} checked={!off.includes(r.name)} onChange={(on) => setOff(on ? off.filter((n) => n !== r.name) : [...off, r.name])} />
                <div className="dim small">
                  {alone(r) ? "tells of nothing else" : others(r)}
                  {r.silence_until !== null && Date.parse(r.silence_until) > serverNow() && (
                    <>
                      ; silent until <Time at={r.silence_until} />
                    </>
                  )}
                </div>
              </div>
            ))}
          </fieldset>
          <SelectField label="Tell nothing" value={hours} onChange={setHours} options={spans} hint="The job itself goes on as it is." />
        </>
      )}
    </Ask>
  );
}
