// Approvals: what waits for a decision of the person who looks.

import { useState } from "react";
import { useLive, usePage, useRefresh } from "../../api";
import { Link } from "../../router";
import { Button, Empty, Head, Table, Time, type Column } from "../../ui";
import { ActDialog, type Act } from "./acts";
import { runPath, type Approval } from "./data";

export function Approvals() {
  const page = usePage<Approval>("/approvals", "approvals", { limit: 50 });
  const refresh = useRefresh();
  const live = useLive({ match: (c) => c.type === "run.changed", refresh: () => refresh("/approvals") });
  const [open, setOpen] = useState<{ a: Approval; act: Act }>();
  const columns: Column<Approval>[] = [
    {
      id: "node",
      head: "Asks",
      lead: true,
      cell: (a) => (
        <>
          <Link className="name" to={`${runPath(a.workflow_run_id)}?node=${encodeURIComponent(a.node)}`}>
            {a.node}
          </Link>
          <span className="sub">{a.workflow_name ?? a.workflow_id}</span>
        </>
      ),
    },
    { id: "since", head: "Waiting since", label: "since", cell: (a) => <Time at={a.since} /> },
    { id: "until", head: "Until", label: "until", cell: (a) => a.until && <Time at={a.until} /> },
    { id: "votes", head: "Approvals", num: true, label: "approvals", cell: (a) => `${a.approved ?? 0} of ${a.min || 1}` },
    {
      id: "act",
      head: <span className="sr">Decide</span>,
      cell: (a) => (
        <span className="row">
          <Button small kind="primary" aria-label={"Approve " + a.node} onClick={() => setOpen({ a, act: { what: "approve", node: a.node } })}>
            Approve
          </Button>
          <Button small className="danger" aria-label={"Reject " + a.node} onClick={() => setOpen({ a, act: { what: "reject", node: a.node } })}>
            Reject
          </Button>
        </span>
      ),
    },
  ];
  return (
    <>
      <Head title="Approvals" crumb={<Link to="/workflows">Workflows</Link>} />
      <Table label="Approvals" page={page} columns={columns} id={(a) => a.workflow_run_id + a.node} live={live} empty={<Empty title="Nothing waits for you">When a run of a workflow needs a decision that your role may make, it is listed here.</Empty>} />
      {open && <ActDialog run={{ workflow_run_id: open.a.workflow_run_id, status: "RUNNING", input: null }} act={open.act} schema={open.a.schema} onClose={() => setOpen(undefined)} />}
    </>
  );
}
