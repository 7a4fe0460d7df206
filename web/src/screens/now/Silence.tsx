// Silence: who is told of a job is told nothing for a while. A rule is silent as a whole, so the dialog says what else it tells of.

import { useRef, useState } from "react";
import { isProblem, Problem, serverNow, useGet, useRefresh, type Job } from "../../api";
import { Link } from "../../router";
import { Button, Check, Empty, ErrorBox, failed, Loading, SelectField, Time, toast } from "../../ui";
import { Ask, sh } from "../../ui/ask";
import { bodyOf, flagsOf, silence, type Silenced } from "../admin/rules";
import type { Rule } from "../admin/types";

const spans: [string, string][] = [
  ["1", "for an hour"],
  ["8", "for 8 hours"],
  ["24", "for a day"],
  ["168", "for a week"],
];

const concerns = (r: Rule, j: Job) => (r.jobs.length === 0 || r.jobs.includes(j.job_id)) && (r.tags.length === 0 || r.tags.some((t) => j.tags.includes(t)));
const alone = (r: Rule) => r.jobs.length === 1;
const others = (r: Rule) => (r.jobs.length > 1 ? `also covers ${r.jobs.length - 1} other jobs` : r.tags.length ? `also covers every job tagged ${r.tags.join(" or ")}` : "covers every job");
const names = (of: { name: string }[]) => of.map((r) => r.name).join(", ");

// Each is given back what it was; one that cannot be is told of, and the others are all the same.
async function giveBack(done: Silenced[]) {
  for (const s of done) await s.back().catch((e: unknown) => failed(e, `${s.name} stays silent`));
}

export function Silence({ id, name, onClose }: { id: string; name: string; onClose: () => void }) {
  const job = useGet<Job>("/jobs/" + id);
  const rules = useGet<{ notification_rules: Rule[] }>("/notification-rules", { limit: 100 });
  const [hours, setHours] = useState("1");
  const [off, setOff] = useState<string[]>([]);
  const [done, setDone] = useState<Silenced[]>([]); // before one that could not be
  const told = useRef(false);
  const refresh = useRefresh();
  const reread = () => refresh("/notification-rules");
  const error = job.error ?? rules.error;
  const j = job.data;
  const about = j && rules.data ? rules.data.notification_rules.filter((r) => concerns(r, j)) : undefined;
  const chosen = about?.filter((r) => !off.includes(r.name)) ?? [];
  const tell = (all: Silenced[]) => toast(`Silent ${spans.find(([h]) => h === hours)?.[1] ?? ""}: ${names(all)}`, { undo: () => void giveBack(all).finally(reread) });
  const run = async () => {
    const until = new Date(serverNow() + Number(hours) * 3_600_000).toISOString();
    const now: Silenced[] = [];
    for (const r of chosen)
      try {
        // One that is silent for longer stays so.
        now.push(await silence(r.name, (before) => (before !== null && Date.parse(before) > Date.parse(until) ? before : until)));
      } catch (e) {
        setDone([...done, ...now]);
        setOff([...off, ...now.map((s) => s.name)]);
        void reread();
        throw isProblem(e) ? new Problem(e.status, e.code, `${r.name} could not be silenced`, e.detail || e.title, e.errors, e.requestId, e.retryAfter) : e;
      }
    void reread();
    tell([...done, ...now]);
    told.current = true;
  };
  const undo = () => {
    setDone([]);
    setOff(off.filter((n) => !done.some((s) => s.name === n)));
    void giveBack(done).finally(reread);
  };
  const close = () => {
    if (done.length > 0 && !told.current) tell(done);
    onClose();
  };
  const cli = chosen.map((r) => `carillon notification set ${sh(r.name)} ${flagsOf(bodyOf(r))} --silence-until +${hours}h`).join("\n");
  return (
    <Ask title={`Silence ${name}`} action="Silence" ready={chosen.length > 0} cli={cli} onClose={close} run={run}>
      {error ? (
        <ErrorBox error={error} />
      ) : !about ? (
        <Loading lines={2} />
      ) : about.length === 0 ? (
        <Empty title="No notifications for this job" action={<Link to="/admin/notifications">Notifications</Link>}>
          No notification rule covers this job.
        </Empty>
      ) : (
        <>
          {done.length > 0 && (
            <div className="row" role="status">
              <span className="grow wrap">
                <strong>Silent already:</strong> {names(done)}
              </span>
              <Button small onClick={undo}>
                Undo
              </Button>
            </div>
          )}
          <fieldset className="stack tight">
            <legend>These rules cover it</legend>
            {about.map((r) => (
              <div key={r.name}>
                <Check label={r.name} checked={!off.includes(r.name)} onChange={(on) => setOff(on ? off.filter((n) => n !== r.name) : [...off, r.name])} />
                <div className="dim small">
                  {alone(r) ? "covers nothing else" : others(r)}
                  {r.silence_until !== null && Date.parse(r.silence_until) > serverNow() && (
                    <>
                      ; silent until <Time at={r.silence_until} />
                    </>
                  )}
                </div>
              </div>
            ))}
          </fieldset>
          <SelectField label="How long" value={hours} onChange={setHours} options={spans} hint="The job keeps running. A rule that is already silent for longer stays silent." />
        </>
      )}
    </Ask>
  );
}
