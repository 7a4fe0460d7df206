// Signed in: whose browsers are, since when, and a way to end that.

import { useState } from "react";
import { del, usePage, useRefresh } from "../../api";
import { Button, Confirm, Empty, Head, Table, Time, toast, type Column } from "../../ui";
import { acts } from "./parts";
import type { SignIn } from "./types";

const ends = (s: SignIn) => (Date.parse(s.idle_expires_at) < Date.parse(s.expires_at) ? s.idle_expires_at : s.expires_at);
const withWhat = (s: SignIn) => (s.key_id ? "key " + s.key_id : "a token");

export function SignIns() {
  const page = usePage<SignIn>("/sign-ins", "sign_ins", { limit: 50 });
  const [end, setEnd] = useState<SignIn>();
  const refresh = useRefresh();
  const columns: Column<SignIn>[] = [
    {
      id: "name",
      head: "Name",
      lead: true,
      cell: (s) => (
        <>
          <span className="name wrap">{s.name}</span>
          <span className="sub">with {withWhat(s)}</span>
        </>
      ),
    },
    { id: "role", head: "Role", label: "role", cell: (s) => <>{s.role}{s.current && <span className="dim"> (this browser)</span>}</> },
    { id: "since", head: "Since", label: "since", cell: (s) => <Time at={s.signed_in_at} /> },
    { id: "used", head: "Last used", label: "last used", cell: (s) => <Time at={s.last_used_at} /> },
    { id: "expires", head: "Expires", label: "expires", cell: (s) => <><Time at={ends(s)} />{ends(s) !== s.expires_at && <span className="sub">unless it is used</span>}</> },
    acts((s) =>
      s.current ? null : (
        <Button small className="danger" onClick={() => setEnd(s)} aria-label={"End " + s.name}>
          End
        </Button>
      ),
    ),
  ];
  return (
    <>
      <Head title="Signed in" />
      <Table label="Signed in" page={page} columns={columns} id={(s) => s.sign_in_id} empty={<Empty title="Nobody is signed in">People who sign in to this dashboard with a key or a token are listed here until the sign-in ends. Programs send their key with each request.</Empty>} />
      {end && (
        <Confirm
          title={`End the sign-in of ${end.name}`}
          action="End"
          danger
          cli={"carillon sign-in end " + end.sign_in_id}
          onClose={() => setEnd(undefined)}
          run={() =>
            del<SignIn>("/sign-ins/" + encodeURIComponent(end.sign_in_id)).then(() => {
              toast(`Signed ${end.name} out`);
              void refresh("/sign-ins");
            })
          }
        >
          <p>Every server refuses that browser within 5 s. Who has the {end.key_id ? "key" : "token"} can sign in again{end.key_id && ": revoke the key to keep them out"}.</p>
        </Confirm>
      )}
    </>
  );
}
