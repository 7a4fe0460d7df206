// Join: how a worker is started, and whether one has come.

import { useEffect, useState } from "react";
import { useGet, useLiveSwitch, type Worker, type Workers } from "../../api";
import { Link } from "../../router";
import { useMay } from "../../session";
import { sh } from "../../ui/ask";
import { CommandLine, Dialog, State, TextField } from "../../ui";

/** joinLine is the command that starts a worker for this server. */
export function joinLine(o: { queues?: string; labels?: string; capacity?: string } = {}): string {
  return [
    "carillon worker",
    `--server ${location.origin}`,
    "--token $CARILLON_TOKEN",
    ...(o.queues?.trim() ? [`--queues ${sh(list(o.queues))}`] : []),
    ...(o.labels?.trim() ? [`--labels ${sh(list(o.labels))}`] : []),
    ...(o.capacity?.trim() ? [`--capacity ${sh(o.capacity.trim())}`] : []),
  ].join(" ");
}

const list = (s: string) => s.split(/[\s,]+/).filter(Boolean).join(",");

/** Listening says whether a worker has joined since it is shown; it turns green when one has. */
export function Listening({ known }: { known: string[] }) {
  const q = useGet<Workers>("/workers", { limit: 200 }, { every: 2000 });
  const [on] = useLiveSwitch();
  const [before] = useState(() => new Set(known));
  const fresh = (q.data?.workers ?? []).filter((w) => !before.has(w.worker_id) && w.status !== "DEAD");
  const [first, setFirst] = useState<Worker>();
  useEffect(() => {
    if (!first && fresh[0]) setFirst(fresh[0]);
  }, [fresh, first]);
  return (
    <p className={"workers-listening" + (first ? " joined" : "")} role="status">
      <span className="workers-lamp" aria-hidden="true" />
      {first ? (
        <span>
          <State of="ACTIVE" word="Joined" /> <Link to={"/workers/" + first.worker_id}>{first.host || first.worker_id}</Link>, with {first.capacity} {first.capacity === 1 ? "slot" : "slots"}.
        </span>
      ) : (
        <span>{on ? "Listening for a worker…" : "Live updates are off: this page does not notice when a worker joins."}</span>
      )}
    </p>
  );
}

/** Join is a dialog with the command and what may be added to it. */
export function Join({ known, onClose }: { known: string[]; onClose: () => void }) {
  const [queues, setQueues] = useState("");
  const [labels, setLabels] = useState("");
  const [capacity, setCapacity] = useState("");
  const admin = useMay("admin");
  return (
    <Dialog title="Add a worker" onClose={onClose} broad>
      <p className="dim">
        A worker runs executions on another machine. It needs a key with the role worker
        {admin ? (
          <>
            : make one under <Link to="/admin/keys?new=worker">Keys</Link>, and put it into CARILLON_TOKEN.
          </>
        ) : (
          ", which an admin creates."
        )}
      </p>
      <div className="formgrid">
        <TextField label="Only these queues" value={queues} onChange={setQueues} placeholder="all" />
        <TextField label="Labels" value={labels} onChange={setLabels} placeholder="none" />
        <TextField label="At once" value={capacity} onChange={setCapacity} placeholder="50" inputMode="numeric" />
      </div>
      <CommandLine>{joinLine({ queues, labels, capacity })}</CommandLine>
      <Listening known={known} />
    </Dialog>
  );
}
