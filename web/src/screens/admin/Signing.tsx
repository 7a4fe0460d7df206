// Signing: what callbacks are signed with, so that targets can tell them from forgeries.

import { useState } from "react";
import { del, post, usePage, useRefresh } from "../../api";
import { useMay } from "../../session";
import { asCurl, Button, Confirm, copy, Empty, failed, Head, SelectField, State, Table, Time, toast, useNow, type Column } from "../../ui";
import { Ask, Once } from "../../ui/ask";
import { acts, hoursOf, New, Only } from "./parts";
import type { SigningSecret } from "./types";

export function Signing() {
  const page = usePage<SigningSecret>("/signing-secrets", "signing_secrets", {});
  const may = useMay("admin");
  const now = useNow();
  const refresh = useRefresh();
  const [making, setMaking] = useState(false);
  const [fresh, setFresh] = useState<SigningSecret>();
  const [drop, setDrop] = useState<SigningSecret>();
  const columns: Column<SigningSecret>[] = [
    { id: "id", head: "Secret", lead: true, cell: (s) => (s.shown ? <span className="name mono">{s.prefix}…</span> : <span className="name dim">not shown yet</span>) },
    {
      id: "state",
      head: "State",
      cell: (s) => (s.expires_at === null ? <State of="ACTIVE" word="Signs" /> : Date.parse(s.expires_at) > now ? <State of="DRAINING" word="Also signs" /> : <State of="EXPIRED" word="Over" />),
    },
    { id: "algorithm", head: "Algorithm", label: "algorithm", cell: (s) => s.algorithm },
    { id: "created", head: "Created", label: "created", cell: (s) => <Time at={s.created_at} /> },
    { id: "until", head: "Until", label: "until", cell: (s) => (s.expires_at ? <Time at={s.expires_at} /> : <span className="dim">the next one</span>) },
    acts((s) => (
      <>
        {s.public_key && (
          <Button small onClick={() => copy(s.public_key ?? "", "Public key copied")}>
            Copy public key
          </Button>
        )}
        {may && !s.shown && (
          <Button
            small
            onClick={() =>
              void post<SigningSecret>(`/signing-secrets/${encodeURIComponent(s.id)}/reveal`, undefined).then(setFresh, (e: unknown) => failed(e, "It is not shown")).finally(() => void refresh("/signing-secrets"))
            }
          >
            Show once
          </Button>
        )}
        {may && (
          <Button small className="danger" onClick={() => setDrop(s)} aria-label={"Revoke " + s.prefix}>
            Revoke
          </Button>
        )}
      </>
    )),
  ];
  return (
    <>
      <Head
        title="Signing"
        actions={
          <New may={may} role="admin" onClick={() => setMaking(true)}>
            {page.rows.length ? "Rotate" : "New signing secret"}
          </New>
        }
      >
        <p className="dim">Callbacks are signed from the start. They carry the headers webhook-id, webhook-timestamp and webhook-signature (Standard Webhooks).</p>
      </Head>
      <Only may={may} role="admin" what="Creating and revoking badges" />
      <Table label="Signing secrets" page={page} columns={columns} id={(s) => s.id} empty={<Empty title="Callbacks are not signed" command="carillon config show">The server has no key to encrypt a signing secret with: set secrets.key_file.</Empty>} />
      {making && (
        <Make
          first={page.rows.length === 0}
          onMade={(s) => {
            void refresh("/signing-secrets");
            setFresh(s);
          }}
          onClose={() => setMaking(false)}
        />
      )}
      {fresh && (
        <Once title={fresh.secret ? "The signing secret" : "The public key"} text={fresh.secret ?? fresh.public_key ?? ""} onClose={() => setFresh(undefined)}>
          {fresh.secret === undefined && <p className="dim">A public key is not secret: the list shows it.</p>}
        </Once>
      )}
      {drop && (
        <Confirm
          title={`Revoke ${drop.prefix}…`}
          name={drop.prefix}
          action="Revoke"
          danger
          cli={"carillon signing rm " + drop.id}
          onClose={() => setDrop(undefined)}
          run={() =>
            del("/signing-secrets/" + encodeURIComponent(drop.id)).then(() => {
              toast("Revoked");
              void refresh("/signing-secrets");
            })
          }
        >
          <p>Within 5 s, no callback is signed with it. Targets that know only this one refuse callbacks from then on.</p>
        </Confirm>
      )}
    </>
  );
}

const overlaps: [string, string][] = [
  ["0", "not at all"],
  ["3600", "for an hour"],
  ["86400", "for a day"],
  ["604800", "for a week"],
];

function Make({ first, onMade, onClose }: { first: boolean; onMade: (s: SigningSecret) => void; onClose: () => void }) {
  const [algorithm, setAlgorithm] = useState("hmac-sha256");
  const [overlap, setOverlap] = useState("86400");
  const body = { algorithm, overlap_seconds: Number(overlap) };
  return (
    <Ask
      title={first ? "New signing secret" : "Rotate the signing secret"}
      action="Make it"
      cli={algorithm === "hmac-sha256" ? `carillon signing create --overlap ${hoursOf(Number(overlap))}` : asCurl({ method: "POST", path: "/signing-secrets", body })}
      onClose={onClose}
      run={() => post<SigningSecret>("/signing-secrets", body).then(onMade)}
    >
      <div className="formgrid">
        <SelectField label="Algorithm" value={algorithm} onChange={setAlgorithm} options={[["hmac-sha256", "hmac-sha256: a shared secret"], ["ed25519", "ed25519: a public key for targets"]]} />
        {!first && <SelectField label="The previous one keeps signing" value={overlap} onChange={setOverlap} options={overlaps} hint="Targets accept a callback if any of its signatures is valid." />}
      </div>
    </Ask>
  );
}
