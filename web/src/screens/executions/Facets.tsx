// Facets: the filter by clicks. What each offers comes from the rows that are shown, with how many of them there are.

import { type Execution, type Workers, useGet } from "../../api";
import { Menu, Segments, TextField, withWord, Button, Dialog, type MenuItem } from "../../ui";
import { useState } from "react";
import { tally } from "./filter";

const groups: [string, string][] = [
  ["", "All"],
  ["waiting,pending", "Waiting"],
  ["running,retrying,cancelling", "Running"],
  ["succeeded", "Succeeded"],
  ["failed,timed_out", "Failed"],
  ["cancelled,skipped,expired", "Not run"],
];

const ranges: [string, string][] = [
  ["-15m", "the last 15 minutes"],
  ["-1h", "the last hour"],
  ["-24h", "the last 24 hours"],
  ["-7d", "the last 7 days"],
  ["-30d", "the last 30 days"],
];

const triggerWords: Record<string, string> = { api: "created to run at once", schedule: "by its schedule", manual: "by hand", catch_up: "catching up", backfill: "by a backfill", retry: "as a retry", redrive: "as a redrive", workflow: "by a workflow" };

type Props = { text: string; set: (text: string, o?: { push?: boolean }) => void; raw: Record<string, string>; rows: Execution[] };

export function Facets({ text, set, raw, rows }: Props) {
  const [between, setBetween] = useState(false);
  const workers = useGet<Workers>("/workers", { limit: 100 });
  const host = (id: string) => workers.data?.workers.find((w) => w.worker_id === id)?.host;
  const put = (key: string, value: string) => set(withWord(text, key, value), { push: true });
  const status = (raw["status"] ?? "").toLowerCase();
  const facet = (key: string, chosen: string | undefined, options: [value: string, word: string, n?: number][], any: string): MenuItem[] => [
    ...options.map(([value, word, n]): MenuItem => ({ label: (value === chosen ? "✓ " : "") + word, ...(n === undefined ? {} : { keys: String(n) }), run: () => put(key, value === chosen ? "" : value) })),
    ...(chosen ? (["line", { label: any, run: () => put(key, "") }] as MenuItem[]) : options.length === 0 ? ([{ label: "Nothing on this page", disabled: true, run: () => {} }] as MenuItem[]) : []),
  ];
  const jobs = tally(rows.map((r) => r.job_id)).slice(0, 10).map(([id, n]): [string, string, number] => [id, rows.find((r) => r.job_id === id)?.job_name ?? id, n]);
  const held = tally(rows.flatMap((r) => r.worker_id ?? [])).slice(0, 10).map(([id, n]): [string, string, number] => [id, host(id) ? `${host(id)} (${id.slice(-6)})` : id, n]);
  const why = tally(rows.map((r) => r.trigger)).map(([t, n]): [string, string, number] => [t, triggerWords[t] ?? t, n]);
  const jobName = raw["job"] && (rows.find((r) => r.job_id === raw["job"])?.job_name ?? raw["job"]);
  const range = ranges.find(([v]) => v === raw["from"] && !raw["to"]);
  const time = range ? range[1] : raw["from"] || raw["to"] ? `${raw["from"] ?? "…"} to ${raw["to"] ?? "now"}` : "any time";
  return (
    <div className="executions-facets" role="group" aria-label="Facets">
      <Segments label="Status" value={groups.some(([v]) => v === status) ? status : "other"} options={groups} onChange={(v) => put("status", v)} />
      <Menu small left label={"Time: " + time} items={[...facet("from", range ? range[0] : undefined, ranges, "Any time"), { label: "Between two times…", run: () => setBetween(true) }, ...(raw["to"] ? [{ label: "Any time", run: () => set(withWord(withWord(text, "from", ""), "to", ""), { push: true }) }] : [])]} />
      <Menu small left label={jobName ? "Job: " + short(jobName) : "Job"} items={facet("job", raw["job"], jobs, "Any job")} />
      <Menu small left label={raw["trigger"] ? "Trigger: " + raw["trigger"] : "Trigger"} items={facet("trigger", raw["trigger"], why, "Any trigger")} />
      <Menu small left label={raw["worker_id"] ? "Worker: " + (host(raw["worker_id"]) ?? short(raw["worker_id"])) : "Worker"} items={facet("worker", raw["worker_id"], held, "Any worker")} />
      {raw["tag"] && (
        <Button small onClick={() => put("tag", "")} aria-label={`Tag ${raw["tag"]}: remove it`}>
          Tag: {short(raw["tag"])} ×
        </Button>
      )}
      {between && <Between raw={raw} onClose={() => setBetween(false)} onChoose={(from, to) => set(withWord(withWord(text, "from", from), "to", to), { push: true })} />}
    </div>
  );
}

const short = (s: string) => (s.length > 24 ? s.slice(0, 22) + "…" : s);
const field = (s: string | undefined) => (s && !Number.isNaN(Date.parse(s)) ? new Date(s).toISOString().slice(0, 16) : "");

/** Between asks for two times. They are UTC, as the filter writes them. */
function Between({ raw, onClose, onChoose }: { raw: Record<string, string>; onClose: () => void; onChoose: (from: string, to: string) => void }) {
  const [from, setFrom] = useState(field(raw["from"]));
  const [to, setTo] = useState(field(raw["to"]));
  return (
    <Dialog title="Scheduled between" onClose={onClose}>
      <form
        className="stack"
        onSubmit={(e) => {
          e.preventDefault();
          onChoose(from && from + ":00Z", to && to + ":00Z");
          onClose();
        }}
      >
        <div className="formgrid">
          <TextField label="From (UTC)" type="datetime-local" value={from} onChange={setFrom} />
          <TextField label="Until (UTC, exclusive)" type="datetime-local" value={to} onChange={setTo} />
        </div>
        <footer>
          <Button type="submit" kind="primary">
            Show
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
