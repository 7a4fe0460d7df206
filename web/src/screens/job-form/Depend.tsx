// Depend: which jobs one runs after, and how they must end.

import { useState } from "react";
import { del, put, useGet, useRefresh, type Dependencies, type Jobs } from "../../api";
import { Button, SelectField, TextField, toast, useSettled, wrongOf } from "../../ui";
import { Ask, sh } from "../../ui/ask";

type Chosen = { job_id: string; key: string | null; name: string };

const conditions: [string, string][] = [
  ["success", "succeeded"],
  ["failure", "failed"],
  ["always", "ended, either way"],
];

export default function Depend({ of, path, onClose }: { of: Dependencies; path: string; onClose: () => void }) {
  const [on, setOn] = useState<Chosen[]>(of.depends_on);
  const [condition, setCondition] = useState<string>(of.condition ?? "success");
  const [q, setQ] = useState("");
  const wanted = useSettled(q.trim());
  const refresh = useRefresh();
  const found = useGet<Jobs>(wanted ? "/jobs" : undefined, { limit: 8, q: wanted });
  const fresh = wanted === q.trim() && !found.isPlaceholderData ? found.data?.jobs : undefined;
  const choices = fresh?.filter((j) => j.job_id !== of.job_id && !on.some((p) => p.job_id === j.job_id));
  const ref = of.key ?? of.job_id;
  const changed = on.map((p) => p.job_id).join() !== of.depends_on.map((p) => p.job_id).join() || (on.length > 0 && condition !== (of.condition ?? "success"));
  const run = () => {
    const guard = { headers: { "If-Match": String(of.revision) } };
    const at = path + "/dependencies";
    return (on.length ? put(at, { depends_on: on.map((p) => p.job_id), condition }, guard) : del(at, undefined, guard)).then(() => {
      void refresh("/jobs");
      toast(on.length ? "Dependencies changed" : "It depends on nothing now");
    });
  };
  const cli = `carillon job depend ${sh(ref)} ` + (on.length ? on.map((p) => "--on " + sh(p.key ?? p.job_id)).join(" ") + (condition === "success" ? "" : " --condition " + condition) : "--none");
  return (
    <Ask title={`Run ${of.name} after others`} action={on.length || !of.depends_on.length ? "Save" : "Remove all"} ready={changed} dirty={changed} run={run} onClose={onClose} cli={cli}>
      {(error) => (
        <>
          <p className="dim">It runs each time that all of these jobs have ended as you choose. When it is due by its own schedule before that, it waits.</p>
          {on.length === 0 && <p>It depends on nothing.</p>}
          {on.length > 0 && (
            <ul className="list" aria-label="Runs after">
              {on.map((p, i) => (
                <li key={p.job_id} className="row">
                  <span className="grow wrap">
                    <bdi>{p.name}</bdi>
                    {p.key && <code className="dim"> {p.key}</code>}
                    {wrongOf(error, `depends_on[${i}]`) && <span className="wrong"> {wrongOf(error, `depends_on[${i}]`)}</span>}
                  </span>
                  <Button small kind="ghost" icon="close" aria-label={`Remove ${p.name}`} onClick={() => setOn(on.filter((x) => x !== p))} />
                </li>
              ))}
            </ul>
          )}
          <TextField label="Add a job" value={q} onChange={setQ} placeholder="name, key or description" autoFocus autoComplete="off" onKeyDown={(e) => e.key === "Enter" && e.preventDefault()} />
          {q.trim() && (
            <ul className="list" aria-label="Found">
              {choices?.map((j) => (
                <li key={j.job_id} className="row">
                  <span className="grow wrap">
                    <bdi>{j.name}</bdi>
                    {j.key && <code className="dim"> {j.key}</code>}
                  </span>
                  <Button small icon="plus" aria-label={`Add ${j.name}`} onClick={() => (setOn([...on, j]), setQ(""))}>
                    Add
                  </Button>
                </li>
              ))}
              {!choices?.length && <li className="dim">{found.isError ? "The search failed." : choices ? "No other job is found." : "Looking…"}</li>}
            </ul>
          )}
          {on.length > 0 && <SelectField label="When they have" value={condition} onChange={setCondition} options={conditions} wrong={wrongOf(error, "condition")} />}
        </>
      )}
    </Ask>
  );
}
