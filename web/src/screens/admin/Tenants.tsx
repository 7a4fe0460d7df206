// Tenants: who shares the installation, and what each may have.

import { useState } from "react";
import { patch, post, useGet, usePage, useRefresh } from "../../api";
import { Link, navigate } from "../../router";
import { Button, Check, count, duration, Empty, ErrorBox, Head, ListField, Loading, SelectField, Table, TextField, Time, toast, wrongOf, type Column } from "../../ui";
import { Ask, sh } from "../../ui/ask";
import { Meter } from "../../ui/meter";
import type { Quotas, Tenant, Tier, Usage } from "./types";

const tiers: [Tier, string][] = [
  ["free", "free: share 1"],
  ["pro", "pro: share 3"],
  ["enterprise", "enterprise: share 10"],
];

const names: Record<keyof Quotas, string> = {
  active_jobs: "Active jobs", executions_per_minute: "Executions a minute", executions_burst: "Executions in a burst", payload_bytes: "Payload", history_days: "Days of history",
  max_retries: "Retries", shortest_interval_ms: "Shortest interval", best_priority: "Best priority", dead_letters: "Dead letters", notification_rules: "Notification rules",
  requests_per_second: "Requests a second", weight: "Share of the workers",
};
const keys = Object.keys(names) as (keyof Quotas)[];

function said(k: keyof Quotas, v: number | boolean): string {
  if (typeof v === "boolean") return v ? "yes" : "no";
  if (k === "shortest_interval_ms") return v === 0 ? "any" : duration(v);
  if (v < 0) return "no limit";
  if (k === "payload_bytes") return v >= 1024 * 1024 ? `${+(v / 1024 / 1024).toFixed(1)} MiB` : v >= 1024 ? `${+(v / 1024).toFixed(1)} KiB` : count(v) + " bytes";
  return count(v);
}

/** QuotaFacts shows what there may be, and a bar where it is known how much there is. */
export function QuotaFacts({ quotas, usage, overridden }: { quotas: Quotas; usage: Usage | undefined; overridden: string[] }) {
  return (
    <dl className="admin-quotas">
      {keys.map((k) => (
        <div key={k}>
          <dt>
            {names[k]}
            {overridden.includes(k) && <span className="warn"> (not the tier's)</span>}
          </dt>
          <dd>{k === "active_jobs" && usage?.active_jobs != null && quotas.active_jobs >= 0 ? <Meter label="Active jobs" value={usage.active_jobs} limit={quotas.active_jobs} /> : said(k, quotas[k])}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Tenants() {
  const page = usePage<Tenant>("/tenants", "tenants", { limit: 100 });
  const [making, setMaking] = useState(false);
  const columns: Column<Tenant>[] = [
    {
      id: "name",
      head: "Tenant",
      lead: true,
      cell: (t) => (
        <>
          <Link className="name wrap" to={"/admin/tenants/" + encodeURIComponent(t.tenant_id)}>
            {t.name}
          </Link>
          <span className="sub mono">{t.tenant_id}</span>
        </>
      ),
    },
    { id: "tier", head: "Tier", cell: (t) => <span className="tag">{t.tier}</span> },
    { id: "jobs", head: "Active jobs", label: "active jobs", cell: (t) => <Used t={t} /> },
    { id: "rate", head: "Executions a minute", label: "a minute", num: true, cell: (t) => said("executions_per_minute", t.quotas.executions_per_minute) },
    { id: "requests", head: "Requests a second", label: "requests a second", num: true, cell: (t) => said("requests_per_second", t.quotas.requests_per_second) },
    { id: "own", head: "Own quotas", label: "own quotas", num: true, cell: (t) => (t.overridden.length ? count(t.overridden.length) : <span className="dim">none</span>) },
    { id: "created", head: "Created", label: "created", cell: (t) => <Time at={t.created_at} /> },
  ];
  return (
    <>
      <Head
        title="Tenants"
        actions={
          <Button kind="primary" icon="plus" onClick={() => setMaking(true)}>
            New tenant
          </Button>
        }
      />
      <Table label="Tenants" page={page} columns={columns} id={(t) => t.tenant_id} open={(t) => "/admin/tenants/" + encodeURIComponent(t.tenant_id)} empty={<Empty title="No tenants" command="carillon tenant create Acme --tier pro" />} />
      {making && <NewTenant onClose={() => setMaking(false)} />}
    </>
  );
}

/** Used reads how many jobs a tenant has, which is told of one at a time. */
function Used({ t }: { t: Tenant }) {
  const limited = t.quotas.active_jobs >= 0;
  const q = useGet<Tenant>(limited ? "/tenants/" + encodeURIComponent(t.tenant_id) : undefined);
  if (!limited) return <span className="dim">no limit</span>;
  const n = q.data?.usage?.active_jobs;
  return n === null || n === undefined ? <span>of {count(t.quotas.active_jobs)}</span> : <Meter label={"Active jobs of " + t.name} value={n} limit={t.quotas.active_jobs} />;
}

function NewTenant({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [tier, setTier] = useState<string>("free");
  const refresh = useRefresh();
  return (
    <Ask
      title="New tenant"
      action="Create"
      ready={name.trim() !== ""}
      cli={`carillon tenant create ${sh(name.trim() || "NAME")} --tier ${tier}`}
      onClose={onClose}
      run={() =>
        post<Tenant>("/tenants", { name: name.trim(), tier }).then((t) => {
          void refresh("/tenants");
          toast(`Created ${t.name}`);
          navigate("/admin/tenants/" + encodeURIComponent(t.tenant_id));
        })
      }
    >
      {(error) => (
        <>
          <TextField label="Name" value={name} onChange={setName} maxLength={255} wrong={wrongOf(error, "name")} hint="The id is derived from it and never changes." autoFocus />
          <SelectField label="Tier" value={tier} onChange={setTier} options={tiers} hint="Its quotas, and its share of the workers when other tenants have waiting work." />
        </>
      )}
    </Ask>
  );
}

export function TenantPage({ id }: { id: string }) {
  const path = "/tenants/" + encodeURIComponent(id);
  const q = useGet<Tenant>(path, undefined, { every: 30_000 });
  const [edit, setEdit] = useState(false);
  const t = q.data;
  return (
    <>
      <Head title={t?.name ?? id} crumb={<Link to="/admin/tenants">Tenants</Link>} actions={t && <Button onClick={() => setEdit(true)}>Change</Button>}>
        {t && (
          <p className="dim">
            <span className="mono">{t.tenant_id}</span>, tier {t.tier}, created <Time at={t.created_at} />
          </p>
        )}
      </Head>
      {q.isError ? (
        <ErrorBox error={q.error} />
      ) : !t ? (
        <Loading />
      ) : (
        <>
          <section className="panel stack" aria-label="Quotas">
            <h2>Quotas and usage</h2>
            <QuotaFacts quotas={t.quotas} usage={t.usage} overridden={t.overridden} />
          </section>
          <section className="panel stack" aria-label="Callbacks">
            <h2>Callback addresses</h2>
            <dl className="admin-quotas">
              <div>
                <dt>Plain http</dt>
                <dd>{t.callbacks_https_only ? "refused: https only" : "allowed, unless the server forbids it"}</dd>
              </div>
              <div>
                <dt>Private addresses</dt>
                <dd>{t.callbacks_allow.length ? <span className="mono wrap">{t.callbacks_allow.join(", ")}</span> : "only those that the server allows for all tenants"}</dd>
              </div>
            </dl>
          </section>
        </>
      )}
      {edit && t && <Change t={t} path={path} onClose={() => setEdit(false)} />}
    </>
  );
}

/** Change edits a tenant: an empty quota is the tier's. */
function Change({ t, path, onClose }: { t: Tenant; path: string; onClose: () => void }) {
  const [name, setName] = useState(t.name);
  const [tier, setTier] = useState<string>(t.tier);
  const [own, setOwn] = useState<Record<string, string>>(() => Object.fromEntries(t.overridden.map((k) => [k, String(t.quotas[k as keyof Quotas])])));
  const [https, setHttps] = useState(t.callbacks_https_only);
  const [ranges, setRanges] = useState(t.callbacks_allow);
  const refresh = useRefresh();
  const allow = ranges.map((r) => r.trim()).filter(Boolean);
  const reaches = allow.join() !== t.callbacks_allow.join();
  /** the place of a row among those that are sent */
  const sent = (i: number) => ranges.slice(0, i).filter((r) => r.trim()).length;
  const quotas: Record<string, number | boolean | null> = {};
  for (const k of keys) {
    const text = (own[k] ?? "").trim();
    if (text === "" && t.overridden.includes(k)) quotas[k] = null;
    else if (text !== "" && (!t.overridden.includes(k) || text !== String(t.quotas[k]))) quotas[k] = typeof t.quotas[k] === "boolean" ? text === "true" : Number(text);
  }
  const body = { ...(name !== t.name ? { name } : {}), ...(tier !== t.tier ? { tier } : {}), ...(Object.keys(quotas).length ? { quotas } : {}), ...(https !== t.callbacks_https_only ? { callbacks_https_only: https } : {}), ...(reaches ? { callbacks_allow: allow } : {}) };
  const flags = [name !== t.name && `--name ${sh(name)}`, tier !== t.tier && `--tier ${tier}`, ...Object.entries(quotas).flatMap(([k, v]) => (v === null ? [] : [`--set ${k}=${v}`])), https !== t.callbacks_https_only && `--https-only${https ? "" : "=false"}`, reaches && `--allow-callback ${sh(allow.join())}`].filter(Boolean).join(" ");
  return (
    <Ask
      title={`Change ${t.name}`}
      action="Save"
      broad
      ready={Object.keys(body).length > 0 && Object.values(quotas).every((v) => !Number.isNaN(v))}
      cli={`carillon tenant quota ${t.tenant_id} ${flags}`.trim()}
      onClose={onClose}
      run={() =>
        patch<Tenant>(path, body).then(() => {
          void refresh("/tenants", "/quotas");
          toast(`Changed ${name}; every server applies it within 5 s`);
        })
      }
    >
      {(error) => (
        <>
          <div className="formgrid">
            <TextField label="Name" value={name} onChange={setName} wrong={wrongOf(error, "name")} />
            <SelectField label="Tier" value={tier} onChange={setTier} options={tiers} />
          </div>
          <p className="dim">Empty uses the tier's quota; −1 means no limit. Lowering a quota removes nothing that the tenant has.</p>
          <div className="formgrid">
            {keys.map((k) =>
              typeof t.quotas[k] === "boolean" ? (
                <SelectField key={k} label={names[k]} value={own[k] ?? ""} onChange={(v) => setOwn({ ...own, [k]: v })} options={[["", "as in the tier"], ["true", "yes"], ["false", "no"]]} />
              ) : (
                <TextField key={k} label={names[k] + (k === "payload_bytes" ? ", bytes" : k === "shortest_interval_ms" ? ", ms" : "")} value={own[k] ?? ""} onChange={(v) => setOwn({ ...own, [k]: v })} inputMode="numeric" placeholder={t.overridden.includes(k) ? "the tier's" : said(k, t.quotas[k])} wrong={wrongOf(error, "quotas." + k)} />
              ),
            )}
          </div>
          <Check label="Require https for callbacks" checked={https} onChange={setHttps} />
          <ListField
            label="Private addresses its callbacks may reach"
            value={ranges}
            onChange={setRanges}
            add="Add a range"
            mono
            placeholder="10.1.0.0/16"
            wrong={wrongOf(error, "callbacks_allow")}
            wrongAt={(i) => (ranges[i]?.trim() ? wrongOf(error, `callbacks_allow[${sent(i)}]`) : undefined)}
            hint="Ranges or single addresses, in addition to those that the server allows for all tenants."
          />
        </>
      )}
    </Ask>
  );
}
