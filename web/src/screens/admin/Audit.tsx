// Audit: who changed what, and whether that record is whole.

import { useState } from "react";
import { get, usePage } from "../../api";
import { Link } from "../../router";
import { Button, CopyAs, count, Empty, ErrorBox, FilterBar, Head, State, Table, Time, useFilter, type Column, type FilterKey } from "../../ui";
import type { AuditEntry, Verification } from "./types";

const keys: FilterKey[] = [
  { key: "action", param: "action", hint: "job.delete, or job. for all job actions", values: ["job.", "job.create", "job.update", "job.delete", "job.pause", "job.resume", "execution.", "dead_letter.", "operation.", "api_key.", "secret.", "signing_secret.", "sign_in.", "notification_rule.", "badge.", "calendar.", "limit.", "tenant.", "worker.drain"] },
  { key: "object", param: "object", hint: "changes to this id or name" },
  { key: "who", param: "principal", hint: "changes by the credential with this name" },
  { key: "key", param: "key_id", hint: "changes by this API key" },
  { key: "from", param: "from", hint: "at or after this date or time" },
  { key: "to", param: "to", hint: "before this date or time" },
];

export function Audit() {
  const filter = useFilter(keys);
  const { q, ...rest } = filter.params;
  const page = usePage<AuditEntry>("/audit", "audit", { ...rest, ...(q && !rest["object"] ? { object: q } : {}), limit: 50 });
  const columns: Column<AuditEntry>[] = [
    { id: "at", head: "When", cell: (e) => <Time at={e.at} /> },
    {
      id: "who",
      head: "Who",
      cell: (e) => (
        <>
          <span className="wrap">{e.principal}</span>
          <span className="sub">
            {e.role}
            {e.ip && `, ${e.ip}`}
          </span>
        </>
      ),
    },
    { id: "action", head: "Did", lead: true, cell: (e) => <span className="name mono">{e.action}</span> },
    {
      id: "object",
      head: "To",
      cell: (e) => (
        <>
          {linkOf(e) ? (
            <Link className="mono wrap" to={linkOf(e) ?? ""}>
              {e.object}
            </Link>
          ) : (
            <span className="mono wrap">{e.object}</span>
          )}
          {e.count > 1 && <span className="dim"> and {count(e.count - 1)} more</span>}
        </>
      ),
    },
    { id: "changes", head: "What changed", wide: true, cell: (e) => <Changes e={e} /> },
  ];
  return (
    <>
      <Head title="Audit" actions={<CopyAs cli="carillon audit tail" curl={{ method: "GET", path: "/audit" }} />}>
        <p className="dim">Every change that someone requested. Entries are stored with the change, never modified, and kept for a year.</p>
      </Head>
      <Verify />
      <FilterBar keys={keys} name="audit" placeholder="action:job. who:ann" />
      <Table label="Changes" page={page} columns={columns} id={(e) => String(e.seq)} empty={<Empty title={filter.text ? "No change matches" : "No changes yet"} />} />
    </>
  );
}

/** linkOf is where to look at what was changed, if it is to be looked at. */
function linkOf(e: AuditEntry): string | undefined {
  const id = encodeURIComponent(e.object);
  if (e.action.startsWith("job.") && /^[0-9a-f-]{36}$/.test(e.object)) return "/jobs/" + id;
  if (e.action.startsWith("execution.") && /^[0-9a-f-]{36}$/.test(e.object)) return "/executions/" + id;
  if (e.action.startsWith("operation.")) return "/operations/" + id;
  if (e.action.startsWith("tenant.")) return "/admin/tenants/" + id;
  return undefined;
}

const cut = (s: string | undefined) => (s === undefined ? "–" : s.length > 40 ? s.slice(0, 39) + "…" : s);

function Changes({ e }: { e: AuditEntry }) {
  const fields = [...new Set([...Object.keys(e.before ?? {}), ...Object.keys(e.after ?? {})])];
  if (fields.length === 0) return <span className="dim">–</span>;
  const only = fields.length === 1 ? (fields[0] ?? "") : undefined;
  const first = only !== undefined ? `${only}: ${e.before ? cut(e.before[only]) + " → " : ""}${cut(e.after?.[only])}` : fields.slice(0, 4).join(", ") + (fields.length > 4 ? "…" : "");
  return (
    <details className="admin-audit">
      <summary>{first}</summary>
      <div className="admin-diff">
        <span className="dim">field</span>
        <span className="dim">before</span>
        <span className="dim">after</span>
        {fields.map((f) => (
          <Cells key={f} f={f} before={e.before?.[f]} after={e.after?.[f]} />
        ))}
      </div>
      {e.request_id && <p className="dim small mono wrap">request {e.request_id}</p>}
    </details>
  );
}

function Cells({ f, before, after }: { f: string; before: string | undefined; after: string | undefined }) {
  return (
    <>
      <code>{f}</code>
      <span>{before ?? "–"}</span>
      <span>{after ?? "–"}</span>
    </>
  );
}

/** Verify goes through the whole chain of seals, and says what it found. */
function Verify() {
  const [busy, setBusy] = useState(false);
  const [checked, setChecked] = useState(0);
  const [result, setResult] = useState<Verification>();
  const [error, setError] = useState<unknown>();
  const run = async () => {
    setBusy(true);
    setError(undefined);
    setResult(undefined);
    try {
      let sum = 0;
      let seals = 0;
      let cursor: string | null = null;
      for (;;) {
        const v: Verification = await get<Verification>("/audit/verify", { cursor });
        sum += v.entries;
        seals += v.seals;
        setChecked(sum);
        cursor = v.next_cursor;
        if (cursor === null || !v.ok) {
          setResult({ ...v, entries: sum, seals });
          break;
        }
      }
    } catch (e) {
      setError(e);
    } finally {
      setBusy(false);
    }
  };
  return (
    <section className={"panel stack tight" + (result ? " admin-verified" + (result.ok ? "" : " bad") : "")} aria-label="Is the audit log intact?">
      <div className="row">
        <span className="grow" role="status">
          {busy ? (
            `${count(checked)} checked…`
          ) : result ? (
            <span className="row">
              <State of={result.ok ? "SUCCEEDED" : "FAILED"} word={result.ok ? "Whole" : "Broken"} />
              {result.ok
                ? `${count(result.entries)} entries under ${count(result.seals)} seals are unchanged${result.unsealed ? `; the latest ${count(result.unsealed)} are sealed within seconds` : ""}.`
                : `Seal ${result.broken?.seal ?? "?"}${result.broken?.seq != null ? `, entry ${result.broken.seq}` : ""}: ${result.broken?.reason ?? "it was altered"}.`}
            </span>
          ) : (
            "The entries form a hash chain. Changing one would break the chain."
          )}
        </span>
        <Button small disabled={busy} onClick={() => void run()}>
          Verify
        </Button>
      </div>
      {result?.head && (
        <p className="dim small wrap">
          It sums up to <span className="mono">{result.head}</span>. Kept elsewhere, that shows whether the end was cut off.
        </p>
      )}
      {error !== undefined && <ErrorBox error={error} />}
    </section>
  );
}
