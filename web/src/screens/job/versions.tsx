// Versions: who changed a job when, what exactly, and the way back.

import { useState } from "react";
import { post, stringify, usePage, useRefresh, type Job, type Revision } from "../../api";
import { droppedOf } from "../job-form/state";
import { Button, Confirm, ErrorBox, Loading, State, Time, toast } from "../../ui";

const shown = (v: unknown) => (v === undefined || v === null ? "–" : typeof v === "string" ? v : stringify(v));

export default function Versions({ j, path, may }: { j: Job; path: string; may: boolean }) {
  const page = usePage<Revision>(path + "/revisions", "revisions", { limit: 20 });
  const [restore, setRestore] = useState<Revision>();
  const refresh = useRefresh();
  if (page.query.isError) return <ErrorBox error={page.query.error} />;
  if (page.query.isPending) return <Loading />;
  return (
    <>
      <ol className="job-versions">
        {page.rows.map((r) => (
          <li key={r.revision} className="panel stack tight">
            <div className="row">
              <strong>Revision {r.revision}</strong>
              {r.current && <State of="ACTIVE" word="Current" />}
              <span className="dim">
                <Time at={r.at} /> {r.by ? `by ${r.by}` : ""} {r.action ? `(${r.action})` : ""}
              </span>
              <span className="grow" />
              {may && !r.current && (
                <Button small onClick={() => setRestore(r)}>
                  Restore…
                </Button>
              )}
            </div>
            {r.changes === null ? (
              <p className="dim small">The previous revision is no longer kept.</p>
            ) : r.changes.length === 0 ? (
              <p className="dim small">No visible field changed.</p>
            ) : (
              <dl className="job-diff">
                {r.changes.map((c) => (
                  <div key={c.field}>
                    <dt className="mono">{c.field}</dt>
                    <dd>
                      <del className="mono wrap">{shown(c.before)}</del> <span aria-hidden="true">→</span> <ins className="mono wrap">{shown(c.after)}</ins>
                    </dd>
                  </div>
                ))}
              </dl>
            )}
          </li>
        ))}
      </ol>
      <div className="row">
        {!page.first && (
          <Button small onClick={page.back}>
            Newer
          </Button>
        )}
        {page.next && (
          <Button small onClick={page.next}>
            Older
          </Button>
        )}
      </div>
      {restore && (
        <Confirm
          title={`Restore revision ${restore.revision}`}
          action="Restore"
          onClose={() => setRestore(undefined)}
          run={() =>
            post<Job>(`${path}/revisions/${restore.revision}/restore`, undefined, { headers: { "If-Match": String(j.revision) } }).then((n) => {
              toast(`Restored ${restore.revision} as revision ${n.revision}${droppedOf(n)}`, { bad: !!n.dropped_credentials });
              return refresh(path);
            })
          }
        >
          <p>The earlier definition becomes a new revision. The current one stays in the history.</p>
        </Confirm>
      )}
    </>
  );
}
