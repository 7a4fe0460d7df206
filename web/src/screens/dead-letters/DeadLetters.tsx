// Dead letters: what failed for good, why and since when, and running it again.

import { useState } from "react";
import { get, useGet, useLive, usePage, useRefresh, type DeadLetter, type Job, type Jobs } from "../../api";
import { Link } from "../../router";
import { useDeadLetters, useMay } from "../../session";
import { Button, CopyAs, count, Empty, failed, FilterBar, Head, headline, LinkButton, Menu, quoted, relative, Segments, State, Table, Time, useFilter, useHotkeys, useNow, useSelection, withWord, wordOf, type Column, type FilterKey } from "../../ui";
import { redriveNow, RerunDialog, type Whole } from "../execution/actions";
import { instantOf } from "../executions/filter";
import { Operations } from "../executions/operations";
import { Act, type Chosen } from "./actions";
import { lastError, type DeadGroup, type DeadGroups } from "./groups";
import "./dead-letters.css";

const reasons = ["ATTEMPTS_EXHAUSTED", "NOT_RETRYABLE", "POISON"];

async function jobIds(typed: string): Promise<string[]> {
  return (await get<Jobs>("/jobs", { q: typed, limit: 12 })).jobs.map((j) => j.job_id);
}

const keys: FilterKey[] = [
  { key: "reason", param: "reason", hint: "why it failed for good", values: reasons.map((r) => r.toLowerCase()), write: (v) => v.toUpperCase() },
  { key: "job", param: "job_id", hint: "the id of a job", values: jobIds },
  { key: "from", param: "start_date", hint: "died at or after: -24h, a date or a time", values: ["-1h", "-24h", "-7d"] },
  { key: "to", param: "end_date", hint: "died before: -24h, a date or a time", values: ["-1h", "-24h", "-7d"] },
];

type Open = { action: "redrive" | "discard"; which: Chosen; sample: DeadLetter[] };

export default function DeadLetters() {
  const letters = useDeadLetters();
  if (letters && !letters.has)
    return (
      <>
        <Head title="Dead letters" />
        <div className="panel">
          <Empty title={`The tier ${letters.tier} has no dead letters`} action={<LinkButton to={"/executions?q=" + encodeURIComponent("status:failed,timed_out")}>Executions that failed</LinkButton>}>
            Executions that fail for good stay in the history, and you can run them again there, one by one or in bulk. Higher tiers also list them here, grouped by error, until someone redrives or discards them. The operator of the installation can change the tier.
          </Empty>
        </div>
      </>
    );
  return <Letters ready={letters !== undefined} />;
}

function Letters({ ready }: { ready: boolean }) {
  const filter = useFilter(keys);
  const minute = Math.floor(useNow() / 60_000) * 60_000;
  const params: Record<string, string> = { ...filter.params };
  for (const k of ["start_date", "end_date"]) if (params[k]) params[k] = instantOf(params[k], minute);
  const page = usePage<DeadLetter>(ready ? "/dead-letters" : undefined, "dead_letters", { ...params, limit: 50 });
  const grouped = useGet<DeadGroups>(ready ? "/dead-letters:groups" : undefined, { ...params, limit: 20 });
  const groups = grouped.data?.groups ?? [];
  const selected = useSelection(filter.text);
  const refresh = useRefresh();
  const chosen = selected.ids.size;
  const live = useLive({ match: (c) => c.type === "execution.finished" || c.type === "execution.created", refresh: () => refresh("/dead-letters"), hold: chosen > 0 });
  const may = useMay("operator");
  const [open, setOpen] = useState<Open>();
  const [editing, setEditing] = useState<Whole>();
  const total = page.pagination?.total ?? 0;
  const about = (page.pagination?.total_is_estimate ? "about " : "") + count(total);
  const flags = [filter.params["job_id"] && "--job " + filter.params["job_id"], filter.params["reason"] && "--reason " + filter.params["reason"], filter.params["q"] && "--query '" + filter.params["q"].replaceAll("'", "'\\''") + "'", filter.params["start_date"] && "--from " + filter.params["start_date"], filter.params["end_date"] && "--to " + filter.params["end_date"]].filter(Boolean).join(" ");

  const picked = () => page.rows.filter((d) => selected.ids.has(d.execution_id));
  const many = (action: "redrive" | "discard") => setOpen({ action, which: chosen > 0 ? { ids: [...selected.ids].slice(0, 1000) } : { filter: params }, sample: chosen > 0 ? picked() : page.rows });
  const group = (action: "redrive" | "discard", g: DeadGroup) =>
    setOpen({ action, which: { filter: { ...params, fingerprint: g.fingerprint } }, sample: page.rows.filter((d) => g.sample_execution_id === d.execution_id) });
  const edit = (id: string) => void get<Whole>("/executions/" + id).then(setEditing, failed);
  useHotkeys(may && chosen > 0 ? [{ keys: "r", label: "Redrive the selected dead letters", run: () => many("redrive") }, { keys: "d", label: "Discard the selected dead letters", run: () => many("discard") }] : []);

  const columns: Column<DeadLetter>[] = [
    {
      id: "job",
      head: "Job",
      lead: true,
      cell: (d) => (
        <Link className="name wrap dead-name" to={"/executions/" + d.execution_id}>
          {d.job_name}
        </Link>
      ),
    },
    { id: "reason", head: "Reason", cell: (d) => <State of={d.reason} /> },
    {
      id: "error",
      head: "Last error",
      wide: true,
      cell: (d) => {
        const e = lastError(d);
        return (
          <span className="dead-error" data-tip={e.message}>
            <code className="bad">{e.type}</code> <bdi>{headline(e.message)}</bdi>
          </span>
        );
      },
    },
    { id: "attempts", head: "Attempts", num: true, label: "attempts", cell: (d) => count(d.total_attempts) },
    { id: "died", head: "Died", label: "died", cell: (d) => <Time at={d.dead_lettered_at} /> },
    ...(may
      ? [
          {
            id: "do",
            head: <span className="sr">Actions</span>,
            cell: (d: DeadLetter) => (
              <span className="row tight dead-do">
                <Button small onClick={() => redriveNow(d.execution_id, refresh, true)}>
                  Redrive
                </Button>
                <Menu
                  kind="ghost"
                  icon="more"
                  small
                  label={"More for " + d.job_name}
                  items={[
                    { label: "Edit and redrive…", run: () => edit(d.execution_id) },
                    { label: "Only this job", run: () => filter.set(withWord(filter.text, "job", d.job_id), { push: true }) },
                    "line",
                    { label: "Discard…", danger: true, run: () => setOpen({ action: "discard", which: { ids: [d.execution_id] }, sample: [d] }) },
                  ]}
                />
              </span>
            ),
          },
        ]
      : []),
  ];
  return (
    <>
      <Head
        title="Dead letters"
        actions={
          <>
            {may && total > 0 && filter.text === "" && (
              <>
                <Button onClick={() => setOpen({ action: "redrive", which: { filter: {} }, sample: page.rows })}>Redrive all…</Button>
                <Button kind="ghost" onClick={() => setOpen({ action: "discard", which: { filter: {} }, sample: page.rows })}>
                  Discard all…
                </Button>
              </>
            )}
            <CopyAs link={location.pathname + location.search} cli={`carillon dlq list${flags ? " " + flags : ""}`} curl={{ method: "GET", path: "/dead-letters" }} />
          </>
        }
      >
        <Summary total={total} about={about} grouped={grouped.data} oldest={page.first && !page.next ? page.rows[page.rows.length - 1]?.dead_lettered_at : undefined} />
      </Head>
      <FilterBar keys={keys} name="dead-letters" placeholder="reason:poison from:-24h timeout" />
      <div className="dead-reasons">
        <Segments label="Reason" value={filter.params["reason"] ?? ""} options={[["", "All"], ...reasons.map((r): [string, string] => [r, wordOf(r)])]} onChange={(v) => filter.set(withWord(filter.text, "reason", v.toLowerCase()), { push: true })} />
      </div>
      <Operations kinds={["redrive", "discard", "retry_executions"]} refresh="/dead-letters" />
      {groups.length > 0 && (
        <section className="panel flush" aria-label="Grouped by error">
          <ul className="dead-groups">
            {groups.slice(0, 20).map((g) => (
              <Group key={g.fingerprint} g={g} most={groups[0]?.count ?? 1} may={may} onAct={group} onShow={() => filter.set([withWord(withWord(filter.text, "job", g.jobs_total === 1 ? (g.jobs[0]?.job_id ?? "") : ""), "reason", ""), g.text ? quoted(g.text) : ""].join(" ").trim(), { push: true })} />
            ))}
          </ul>
          {grouped.data?.partial && <p className="pager">Grouped over the latest {count(grouped.data.looked_at)}.</p>}
        </section>
      )}
      <Table
        label="Dead letters"
        page={page}
        columns={columns}
        id={(d) => d.execution_id}
        open={(d) => "/executions/" + d.execution_id}
        {...(may ? { selected } : {})}
        live={live}
        empty={
          filter.text ? (
            <Empty title="None matches" action={<LinkButton to="/dead-letters">Clear the filter</LinkButton>}>
              The filter <code className="wrap">{filter.text}</code> leaves none of the dead letters.
            </Empty>
          ) : (
            <Empty title="No dead letters" command="carillon dlq list">
              Executions that fail for good wait here until someone redrives or discards them. There are none.
            </Empty>
          )
        }
      />
      {may && total > 0 && (chosen > 0 || filter.acts) && (
        <div className="selbar" role="region" aria-label="Selected dead letters">
          <strong>{chosen > 0 ? `${count(chosen)} selected` : `${about} match`}</strong>
          <Button small onClick={() => many("redrive")}>
            {chosen > 0 ? "Redrive" : "Redrive all…"}
          </Button>
          <Button small className="danger" onClick={() => many("discard")}>
            {chosen > 0 ? "Discard" : "Discard all…"}
          </Button>
          <span className="grow" />
          {chosen > 0 && (
            <Button kind="ghost" small onClick={() => selected.set(new Set())}>
              Clear
            </Button>
          )}
        </div>
      )}
      {open && <Act {...open} flags={flags} onClose={() => setOpen(undefined)} onDone={() => selected.set(new Set())} />}
      {editing && <Edit e={editing} onClose={() => setEditing(undefined)} />}
    </>
  );
}

function Edit({ e, onClose }: { e: Whole; onClose: () => void }) {
  const own = e.payload_override !== undefined; // as that of a workflow's node, whose job cannot be read
  const job = useGet<Job>(own ? undefined : "/jobs/" + e.job_id);
  return own || job.data || job.isError ? <RerunDialog e={e} j={job.data} onClose={onClose} /> : null;
}

/** Summary is one sentence: how many, how old, how many kinds. */
function Summary({ total, about, grouped, oldest }: { total: number; about: string; grouped: DeadGroups | undefined; oldest: string | undefined }) {
  const now = useNow();
  if (total === 0) return null;
  const kinds = grouped?.groups.length ?? 0;
  return (
    <p className="dim">
      {about.charAt(0).toUpperCase() + about.slice(1)} {total === 1 ? "execution has" : "executions have"} failed for good
      {kinds > 0 && !grouped?.partial && `, with ${kinds === 1 ? "one kind" : count(kinds) + (kinds >= 20 ? " kinds or more" : " kinds")} of error`}
      {oldest && (
        <>
          ; the oldest died <time dateTime={oldest}>{relative(Date.parse(oldest), now)}</time>
        </>
      )}
      .
    </p>
  );
}

function Group({ g, most, may, onAct, onShow }: { g: DeadGroup; most: number; may: boolean; onAct: (a: "redrive" | "discard", g: DeadGroup) => void; onShow: () => void }) {
  return (
    <li className="dead-group">
      <span className="dead-count">
        <strong>{count(g.count)}</strong>
        <span className="dead-bar" aria-hidden="true" style={{ width: `${Math.max(4, (100 * g.count) / most)}%` }} />
      </span>
      <div className="dead-what">
        <button type="button" className="dead-show" data-tip="Show only these" onClick={onShow}>
          <code>{g.type || "others"}</code> <bdi>{g.sample_message.includes("\n") ? headline(g.sample_message) : g.message}</bdi>
        </button>
        <span className="dim small">
          {g.jobs.slice(0, 3).map((j, i) => (
            <span key={j.job_id}>
              {i > 0 && ", "}
              <Link to={"/jobs/" + j.job_id}>{j.name}</Link>
            </span>
          ))}
          {g.jobs_total > 3 && ` and ${count(g.jobs_total - 3)} more jobs`}; {g.count === 1 ? "died " : "first "}
          <Time at={g.first_seen} />
          {g.count > 1 && (
            <>
              , last <Time at={g.last_seen} />
            </>
          )}
          {"; "}
          <Link to={"/executions/" + g.sample_execution_id}>an example</Link>
        </span>
      </div>
      {may && (
        <span className="row tight dead-do">
          <Button small onClick={() => onAct("redrive", g)}>
            Redrive {count(g.count)}…
          </Button>
          <Button small kind="ghost" onClick={() => onAct("discard", g)}>
            Discard…
          </Button>
        </span>
      )}
    </li>
  );
}

