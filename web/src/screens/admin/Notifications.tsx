// Notifications: what to be told of, and where.

import { useRef, useState } from "react";
import { del, post, put, serverNow, stringify, usePage, useRefresh, type Triggered } from "../../api";
import { Link } from "../../router";
import { useMay } from "../../session";
import { Check, Confirm, Empty, failed, Head, ListField, Menu, State, Table, Tags, TextArea, TextField, Time, toast, useNow, wrongOf, type Column, type MenuItem } from "../../ui";
import { Ask, sh } from "../../ui/ask";
import { acts, hoursOf, lines, New, Only } from "./parts";
import { change, flagsOf, pathOf, restore, silence, type RuleBody } from "./rules";
import type { Rule } from "./types";

const events: [string, string][] = [
  ["failed", "an execution failed or timed out"],
  ["dead_lettered", "an execution became a dead letter"],
  ["late", "an execution is due and has not started"],
  ["missing", "an instant passed and nothing ran"],
  ["approval_waiting", "a workflow run waits for an approval"],
  ["recovered", "a job has recovered"],
];

export function Notifications() {
  const page = usePage<Rule>("/notification-rules", "notification_rules", { limit: 100 });
  const may = useMay("admin");
  const now = useNow();
  const refresh = useRefresh();
  const [edit, setEdit] = useState<Rule | "new">();
  const [drop, setDrop] = useState<Rule>();
  const silent = (r: Rule) => r.silence_until !== null && Date.parse(r.silence_until) > now;
  const reread = () => refresh("/notification-rules");
  const quieten = (r: Rule, hours: number) =>
    void silence(r.name, () => (hours === 0 ? null : new Date(serverNow() + hours * 3_600_000).toISOString())).then((s) => {
      void reread();
      toast(hours === 0 ? `${r.name} sends notifications again` : `${r.name} is silent for ${hours} h`, { undo: () => void s.back().catch(failed).finally(reread) });
    }, failed);
  const test = (r: Rule) =>
    void post<Triggered>(pathOf(r.name) + "/test").then(
      (t) =>
        toast(
          <>
            A made-up notification is on its way: <Link to={"/executions/" + t.execution_id}>see its outcome</Link>
          </>,
        ),
      failed,
    );
  const items = (r: Rule): MenuItem[] => [
    { label: "Change…", run: () => setEdit(r) },
    { label: "Send a test", run: () => test(r) },
    "line",
    ...(silent(r) ? [{ label: "Tell again", run: () => quieten(r, 0) }] : []),
    { label: "Silence for 1 h", run: () => quieten(r, 1) },
    { label: "Silence for 8 h", run: () => quieten(r, 8) },
    { label: "Silence for 24 h", run: () => quieten(r, 24) },
    "line",
    { label: "Delete…", danger: true, run: () => setDrop(r) },
  ];
  const columns: Column<Rule>[] = [
    {
      id: "name",
      head: "Rule",
      lead: true,
      cell: (r) => (
        <>
          <span className="name wrap">{r.name}</span>
          <span className="sub">{r.callback_url}</span>
        </>
      ),
    },
    {
      id: "state",
      head: "State",
      cell: (r) => (
        <>
          {silent(r) ? (
            <span className="row tight">
              <State of="PAUSED" word="Silent" /> <Time at={r.silence_until} />
            </span>
          ) : (
            r.blocked === null && <State of="ACTIVE" word="Tells" />
          )}
          {r.blocked !== null && (
            <>
              <State of="BLOCKED" />
              <span className="sub wrap">{r.blocked}</span>
            </>
          )}
        </>
      ),
    },
    { id: "events", head: "Of", cell: (r) => <Tags of={r.events} /> },
    { id: "scope", head: "Jobs", label: "jobs", cell: (r) => (r.jobs.length + r.tags.length === 0 ? <span className="dim">all</span> : <Tags of={[...r.tags.map((t) => "tag " + t), ...r.jobs.map((j) => (j.startsWith("key:") ? j : j.slice(0, 8) + "…"))]} />) },
    { id: "late", head: "Late after", label: "late after", num: true, cell: (r) => (r.events.includes("late") ? hoursOf(r.late_after_seconds) : <span className="dim">–</span>) },
    { id: "updated", head: "Changed", label: "changed", cell: (r) => <Time at={r.updated_at} /> },
    ...(may ? [acts<Rule>((r) => <Menu label={"Actions on " + r.name} icon="more" kind="ghost" small items={items(r)} />)] : []),
  ];
  return (
    <>
      <Head
        title="Notifications"
        actions={
          <New may={may} role="admin" onClick={() => setEdit("new")}>
            New rule
          </New>
        }
      />
      <Only may={may} role="admin" what="Changing rules" />
      <Table
        label="Notification rules"
        page={page}
        columns={columns}
        id={(r) => r.name}
        empty={
          <Empty title="No notification rules yet" command="carillon notification set on-call --event failed,late,recovered --to https://example.com/on-call">
            A rule posts to a URL when a job fails, is late or recovers. Notifications are signed, retried and kept in the history like every callback.
          </Empty>
        }
      />
      {edit && <Edit rule={edit === "new" ? undefined : edit} onClose={() => setEdit(undefined)} />}
      {drop && (
        <Confirm
          title={`Delete ${drop.name}`}
          name={drop.name}
          action="Delete"
          danger
          cli={"carillon notification rm " + sh(drop.name)}
          onClose={() => setDrop(undefined)}
          run={() =>
            del(pathOf(drop.name)).then(() => {
              toast(`Deleted ${drop.name}`, { undo: () => void restore(drop).then((said) => toast(said), (e: unknown) => failed(e, `${drop.name} is not back`)).finally(reread) });
              void reread();
            })
          }
        >
          <p>It sends no more notifications.</p>
        </Confirm>
      )}
    </>
  );
}

function Edit({ rule, onClose }: { rule: Rule | undefined; onClose: () => void }) {
  const [name, setName] = useState(rule?.name ?? "");
  const [of, setOf] = useState(new Set(rule?.events ?? ["failed", "recovered"]));
  const [jobs, setJobs] = useState(rule?.jobs.join("\n") ?? "");
  const [tags, setTags] = useState(rule?.tags ?? []);
  const [url, setUrl] = useState(rule?.callback_url ?? "");
  const [late, setLate] = useState(String(rule?.late_after_seconds ?? 60));
  const refresh = useRefresh();
  const body: RuleBody = { events: events.map(([e]) => e).filter((e) => of.has(e)), jobs: lines(jobs), tags: tags.map((t) => t.trim()).filter(Boolean), callback_url: url.trim(), late_after_seconds: Number(late), silence_until: rule?.silence_until ?? null };
  const toggle = (e: string) => {
    const next = new Set(of);
    if (!next.delete(e)) next.add(e);
    setOf(next);
  };
  const typed = stringify([name, body]);
  const first = useRef(typed);
  return (
    <Ask
      title={rule ? `Change ${rule.name}` : "New rule"}
      action="Save"
      broad
      ready={name.trim() !== "" && body.events.length > 0 && body.callback_url !== "" && Number(late) > 0}
      cli={`carillon notification set ${sh(name.trim() || "NAME")} ${flagsOf(body)}`}
      dirty={typed !== first.current}
      onClose={onClose}
      run={() =>
        (rule ? change(rule, body) : put<Rule>(pathOf(name.trim()), body)).then((r) => {
          void refresh("/notification-rules");
          toast(`Saved ${r.name}; send a test to check that it arrives`);
        })
      }
    >
      {(error) => (
        <>
          <div className="formgrid">
            {!rule && <TextField label="Name" value={name} onChange={setName} mono wrong={wrongOf(error, "name")} placeholder="on-call" autoFocus autoComplete="off" hint="a-z, 0-9, dots and dashes." />}
            <TextField label="Tell" type="url" value={url} onChange={setUrl} wrong={wrongOf(error, "callback_url")} placeholder="https://example.com/on-call" hint="A URL that accepts POST." />
          </div>
          <fieldset className="stack tight">
            <legend>When</legend>
            <div className="admin-checks">
              {events.map(([e, w]) => (
                <Check key={e} label={w} checked={of.has(e)} onChange={() => toggle(e)} />
              ))}
            </div>
            {wrongOf(error, "events") && <span className="bad small">{wrongOf(error, "events")}</span>}
          </fieldset>
          <div className="formgrid">
            {of.has("late") && <TextField label="Late after (seconds)" value={late} onChange={setLate} inputMode="numeric" wrong={wrongOf(error, "late_after_seconds")} />}
            <ListField label="Only jobs with one of these tags" inline value={tags} onChange={setTags} add="Add a tag" hint={tags.length ? "" : "Every job."} wrong={wrongOf(error, "tags")} wrongAt={(i) => wrongOf(error, `tags[${i}]`)} />
            <TextArea label="Only these jobs" value={jobs} onChange={setJobs} rows={2} mono placeholder="every job" hint="Ids, or key:…, one per line." wrong={wrongOf(error, "jobs")} />
          </div>
        </>
      )}
    </Ask>
  );
}

