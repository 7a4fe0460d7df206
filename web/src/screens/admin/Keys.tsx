// Keys: credentials of people and programs. A key's text is shown once.

import { useState } from "react";
import { del, post, serverNow, usePage, useRefresh } from "../../api";
import { useParam } from "../../router";
import { useMay, useSession } from "../../session";
import { Button, Confirm, Empty, Head, SelectField, State, Table, TextField, Time, toast, wrongOf, type Column } from "../../ui";
import { Ask, Once, sh } from "../../ui/ask";
import { acts, hoursOf } from "./parts";
import type { ApiKey, Role } from "./types";

const roles: [Role, string][] = [
  ["viewer", "viewer: reads"],
  ["operator", "operator: also changes jobs and executions"],
  ["admin", "admin: also manages keys and settings of its tenant"],
  ["worker", "worker: runs executions"],
  ["system", "system: manages the installation"],
];
const lives: [string, string][] = [
  ["", "never"],
  ["720", "in 30 days"],
  ["2160", "in 90 days"],
  ["8760", "in a year"],
];

export function Keys() {
  const page = usePage<ApiKey>("/api-keys", "api_keys", { limit: 50 });
  const [wanted, setWanted] = useParam("new");
  const [rotate, setRotate] = useState<ApiKey>();
  const [revoke, setRevoke] = useState<ApiKey>();
  const [fresh, setFresh] = useState<ApiKey>();
  const refresh = useRefresh();
  const session = useSession();
  const made = (k: ApiKey) => {
    setFresh(k);
    void refresh("/api-keys");
  };
  const columns: Column<ApiKey>[] = [
    {
      id: "name",
      head: "Name",
      lead: true,
      cell: (k) => (
        <>
          <span className="name wrap">{k.name}</span>
          <span className="sub mono">{k.prefix}…</span>
        </>
      ),
    },
    { id: "status", head: "State", cell: (k) => <State of={k.status === "REVOKED" ? "CANCELLED" : k.status} word={k.status === "REVOKED" ? "Revoked" : k.status === "EXPIRED" ? "Expired" : "Active"} /> },
    { id: "role", head: "Role", label: "role", cell: (k) => <>{k.role}{k.tenant_id === "*" && <span className="dim"> of every tenant</span>}{session?.key_id === k.key_id && <span className="dim"> (yours)</span>}</> },
    { id: "used", head: "Last used", label: "last used", cell: (k) => (k.last_used_at ? <Time at={k.last_used_at} /> : <span className="dim">never</span>) },
    { id: "expires", head: "Expires", label: "expires", cell: (k) => (k.expires_at ? <Time at={k.expires_at} /> : <span className="dim">never</span>) },
    { id: "created", head: "Created", label: "created", cell: (k) => <Time at={k.created_at} /> },
    acts((k) =>
      k.status === "REVOKED" ? null : (
        <>
          <Button small onClick={() => setRotate(k)} aria-label={"Rotate " + k.name}>
            Rotate
          </Button>
          <Button small className="danger" onClick={() => setRevoke(k)} aria-label={"Revoke " + k.name}>
            Revoke
          </Button>
        </>
      ),
    ),
  ];
  return (
    <>
      <Head
        title="Keys"
        actions={
          <Button kind="primary" icon="plus" onClick={() => setWanted("operator")}>
            New key
          </Button>
        }
      />
      <Table label="Keys" page={page} columns={columns} id={(k) => k.key_id} empty={<Empty title="No keys yet" command="carillon key create ci --role operator">A person or a program signs in with a key. Each key has a role, and you can see when it was last used.</Empty>} />
      {wanted && <NewKey role={roles.some(([r]) => r === wanted) ? wanted : "operator"} onMade={made} onClose={() => setWanted("")} />}
      {rotate && <Rotate k={rotate} onMade={made} onClose={() => setRotate(undefined)} />}
      {revoke && (
        <Confirm
          title={`Revoke ${revoke.name}`}
          name={revoke.name}
          action="Revoke"
          danger
          cli={"carillon key revoke " + revoke.key_id}
          onClose={() => setRevoke(undefined)}
          run={() =>
            del<ApiKey>("/api-keys/" + encodeURIComponent(revoke.key_id)).then(() => {
              toast(`Revoked ${revoke.name}`);
              void refresh("/api-keys");
            })
          }
        >
          <p>
            Every server refuses it within 5 s, and browsers signed in with it are signed out.
            {session?.key_id === revoke.key_id && <strong> You are signed in with this key.</strong>}
          </p>
        </Confirm>
      )}
      {fresh?.key && (
        <Once title={`The key ${fresh.name}`} text={fresh.key} onClose={() => setFresh(undefined)}>
          {fresh.role === "worker" ? <code className="small wrap">{`CARILLON_TOKEN=… carillon worker --server ${location.origin}`}</code> : <code className="small wrap">{`carillon login ${location.origin}`}</code>}
        </Once>
      )}
    </>
  );
}

function NewKey({ role: first, onMade, onClose }: { role: string; onMade: (k: ApiKey) => void; onClose: () => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState(first);
  const [life, setLife] = useState("");
  const [tenant, setTenant] = useState("");
  const system = useMay("system");
  const expires = life ? new Date(serverNow() + Number(life) * 3_600_000).toISOString() : undefined;
  return (
    <Ask
      title="New key"
      action="Create"
      ready={name.trim() !== ""}
      cli={`carillon key create ${sh(name.trim() || "NAME")} --role ${role}${tenant.trim() ? ` --for-tenant ${sh(tenant.trim())}` : ""}${life ? ` --expires +${life}h` : ""}`}
      onClose={onClose}
      run={() => post<ApiKey>("/api-keys", { name: name.trim(), role, ...(tenant.trim() ? { tenant_id: tenant.trim() } : {}), ...(expires ? { expires_at: expires } : {}) }).then(onMade)}
    >
      {(error) => (
        <>
          <TextField label="Name" value={name} onChange={setName} maxLength={255} wrong={wrongOf(error, "name")} hint="Who or what it is for." autoFocus autoComplete="off" />
          <div className="formgrid">
            <SelectField label="Role" value={role} onChange={setRole} options={system ? roles : roles.filter(([r]) => r !== "system")} wrong={wrongOf(error, "role")} />
            <SelectField label="Expires" value={life} onChange={setLife} options={lives} wrong={wrongOf(error, "expires_at")} />
            {system && <TextField label="Tenant" value={tenant} onChange={setTenant} placeholder="your own" wrong={wrongOf(error, "tenant_id")} hint={role === "worker" ? "* is every tenant." : "An id."} />}
          </div>
        </>
      )}
    </Ask>
  );
}

const overlaps: [string, string][] = [
  ["0", "not at all"],
  ["3600", "for an hour"],
  ["86400", "for a day"],
  ["604800", "for a week"],
];

function Rotate({ k, onMade, onClose }: { k: ApiKey; onMade: (k: ApiKey) => void; onClose: () => void }) {
  const [overlap, setOverlap] = useState("86400");
  return (
    <Ask title={`Rotate ${k.name}`} action="Create the new key" cli={`carillon key rotate ${k.key_id} --overlap ${hoursOf(Number(overlap))}`} onClose={onClose} run={() => post<ApiKey>(`/api-keys/${encodeURIComponent(k.key_id)}/rotate`, { overlap_seconds: Number(overlap) }).then(onMade)}>
      <p className="dim">A new key with the same name and role replaces it. Switch to it before the old one stops working.</p>
      <SelectField label="The old key keeps working" value={overlap} onChange={setOverlap} options={overlaps} />
    </Ask>
  );
}
