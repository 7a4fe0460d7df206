// Badges: addresses at which anybody sees how a job is. An address is shown once.

import { useState } from "react";
import { del, post, useGet, usePage, useRefresh, type Job, type Jobs } from "../../api";
import { Link } from "../../router";
import { useMay } from "../../session";
import { asCurl, Button, Confirm, copy, count, Empty, Head, SelectField, Table, TextField, Time, toast, useSettled, wrongOf, type Column } from "../../ui";
import { Ask, Once } from "../../ui/ask";
import { acts, New, Only } from "./parts";
import type { Badge } from "./types";

const shows = (b: Badge) => b.label?.trim() || b.job_name || "a deleted job";
const entities: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

export function Badges() {
  const page = usePage<Badge>("/badges", "badges", { limit: 50 });
  const may = useMay("operator");
  const refresh = useRefresh();
  const [making, setMaking] = useState(false);
  const [fresh, setFresh] = useState<Badge>();
  const [drop, setDrop] = useState<Badge>();
  const columns: Column<Badge>[] = [
    { id: "shows", head: "Shows", lead: true, cell: (b) => <span className="name wrap">{shows(b)}</span> },
    { id: "job", head: "Job", label: "job", cell: (b) => <Link to={"/jobs/" + b.job_id}>{b.job_name || "deleted"}</Link> },
    { id: "created", head: "Created", label: "created", cell: (b) => <Time at={b.created_at} /> },
    acts((b) =>
      may ? (
        <Button small className="danger" onClick={() => setDrop(b)} aria-label={"Revoke " + shows(b)}>
          Revoke
        </Button>
      ) : null,
    ),
  ];
  const at = location.origin + (fresh?.svg ?? "");
  return (
    <>
      <Head
        title="Badges"
        actions={
          <New may={may} role="operator" onClick={() => setMaking(true)}>
            New badge
          </New>
        }
      >
        <p className="dim">Anyone with the URL of a badge sees a name and a state (up, late, down, paused or unknown), without signing in, and nothing else.</p>
      </Head>
      <Only may={may} role="operator" what="Creating and revoking badges" />
      <Table label="Badges" page={page} columns={columns} id={(b) => b.badge_id} empty={<Empty title="No badges yet">Create one to show the state of a job in a README, a wiki or on a status page.</Empty>} />
      {making && (
        <Make
          onMade={(b) => {
            void refresh("/badges");
            setFresh(b);
          }}
          onClose={() => setMaking(false)}
        />
      )}
      {fresh?.svg && (
        <Once title={`The badge ${shows(fresh)}`} text={at} onClose={() => setFresh(undefined)}>
          <p>
            <img src={fresh.svg} alt={"Badge of " + shows(fresh)} height={20} />
          </p>
          <div className="row tight">
            <Button small icon="copy" onClick={() => copy(`![${shows(fresh).replace(/[\\[\]]/g, "\\$&")}](${at})`, "Markdown copied")}>
              Markdown
            </Button>
            <Button small icon="copy" onClick={() => copy(`<img src="${at}" alt="${shows(fresh).replace(/[&<>"]/g, (c) => entities[c] ?? c)}" height="20">`, "HTML copied")}>
              HTML
            </Button>
            <Button small icon="copy" onClick={() => copy(location.origin + (fresh.json ?? ""), "Address copied")}>
              Address of the JSON
            </Button>
          </div>
        </Once>
      )}
      {drop && (
        <Confirm
          title={`Revoke ${shows(drop)}`}
          action="Revoke"
          danger
          cli={asCurl({ method: "DELETE", path: "/badges/" + drop.badge_id })}
          onClose={() => setDrop(undefined)}
          run={() =>
            del("/badges/" + encodeURIComponent(drop.badge_id)).then(() => {
              toast(`Revoked ${shows(drop)}`);
              void refresh("/badges");
            })
          }
        >
          <p>Pages that embed it show a broken image within a minute. A new badge for the job has another URL.</p>
        </Confirm>
      )}
    </>
  );
}

function Make({ onMade, onClose }: { onMade: (b: Badge) => void; onClose: () => void }) {
  const [q, setQ] = useState("");
  const [job, setJob] = useState<Job>();
  const [label, setLabel] = useState("");
  const wanted = useSettled(q.trim());
  const found = useGet<Jobs>("/jobs", { limit: 50, q: wanted });
  // Results for another search is none of it. Who has chosen one keeps it.
  const jobs = wanted === q.trim() && !found.isPlaceholderData ? found.data?.jobs : undefined;
  const choices = [...(job && !jobs?.some((j) => j.job_id === job.job_id) ? [job] : []), ...(jobs ?? [])];
  const none = found.isError ? "the search failed" : jobs === undefined ? "looking…" : choices.length === 0 ? "none is found" : `choose one of ${count(choices.length)}${found.data?.pagination.next_cursor ? " or more" : ""}`;
  const body = { job_id: job?.job_id ?? "", ...(label.trim() ? { label: label.trim() } : {}) };
  return (
    <Ask title="New badge" action="Make it" ready={job !== undefined} cli={job ? asCurl({ method: "POST", path: "/badges", body }) : ""} onClose={onClose} run={() => post<Badge>("/badges", body).then(onMade)}>
      {(error) => (
        <div className="formgrid">
          <TextField label="Find" value={q} onChange={setQ} placeholder="name, key or description" autoFocus autoComplete="off" />
          <SelectField label="Job" value={job?.job_id ?? ""} onChange={(id) => setJob(choices.find((j) => j.job_id === id))} options={[["", none], ...choices.map((j): [string, string] => [j.job_id, j.name + (j.key ? ` (${j.key})` : "")])]} wrong={wrongOf(error, "job_id")} />
          <TextField label="Label" value={label} onChange={setLabel} maxLength={80} placeholder={job?.name ?? ""} wrong={wrongOf(error, "label")} hint="Anyone with the URL can read it." autoComplete="off" />
        </div>
      )}
    </Ask>
  );
}
