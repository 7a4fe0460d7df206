// Limits: how much of the tenant, or of a queue, runs at once or starts in a time.

import { useState } from "react";
import { usePage, type Limit } from "../../api";
import { Link } from "../../router";
import { useMay } from "../../session";
import { Button, count, Empty, Head, Table, type Column } from "../../ui";
import { LimitDialog } from "../queues/LimitDialog";
import { acts, New, Only } from "./parts";

export function Limits() {
  const page = usePage<Limit>("/limits", "limits", { limit: 100 });
  const may = useMay("admin");
  const [edit, setEdit] = useState<{ queue: string | null }>();
  const columns: Column<Limit>[] = [
    {
      id: "of",
      head: "Of",
      lead: true,
      cell: (l) =>
        l.queue === null ? (
          <span className="name">the whole tenant</span>
        ) : (
          <Link className="name wrap" to={"/queues/" + encodeURIComponent(l.queue)}>
            {l.queue}
          </Link>
        ),
    },
    { id: "most", head: "At once", label: "at once", num: true, cell: (l) => (l.max_concurrent === null ? <span className="dim">any</span> : count(l.max_concurrent)) },
    { id: "rate", head: "Start", label: "start", num: true, cell: (l) => (l.rate_limit === null ? <span className="dim">any</span> : `${count(l.rate_limit.count)} in ${l.rate_limit.per}`) },
    { id: "burst", head: "In a burst", label: "burst", num: true, cell: (l) => (l.rate_limit?.burst === undefined ? <span className="dim">–</span> : count(l.rate_limit.burst)) },
    ...(may
      ? [
          acts<Limit>((l) => (
            <Button small onClick={() => setEdit({ queue: l.queue })} aria-label={"Change the limit of " + (l.queue ?? "the tenant")}>
              Change
            </Button>
          )),
        ]
      : []),
  ];
  return (
    <>
      <Head
        title="Limits"
        actions={
          <>
            {may && !page.rows.some((l) => l.queue === null) && <Button onClick={() => setEdit({ queue: null })}>Limit the tenant</Button>}
            <New may={may} role="admin" onClick={() => setEdit({ queue: "" })}>
              Limit a queue
            </New>
          </>
        }
      >
        <p className="dim">Executions over a limit wait; nothing is refused. Jobs can also have their own limits.</p>
      </Head>
      <Only may={may} role="admin" what="Changing limits" />
      <Table label="Limits" page={page} columns={columns} id={(l) => l.queue ?? "*"} empty={<Empty title="No limits" command="carillon queue limit mail --max-concurrent 5">As many executions run at once as workers have slots. A limit keeps a queue from taking all slots, or a target from being called too often.</Empty>} />
      {edit && <LimitDialog {...edit} onClose={() => setEdit(undefined)} />}
    </>
  );
}
