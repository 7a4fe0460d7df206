// Secrets: values that jobs name and nobody can read back. Only names are here.

import { useState } from "react";
import { del, isProblem, put, usePage, useRefresh } from "../../api";
import { useMay } from "../../session";
import { Button, Check, copy, Empty, Head, Table, TextField, Time, toast, wrongOf, type Column } from "../../ui";
import { Ask, sh } from "../../ui/ask";
import { acts, New, Only } from "./parts";
import type { Secret } from "./types";

export function Secrets() {
  const page = usePage<Secret>("/secrets", "secrets", { limit: 100 });
  const may = useMay("admin");
  const [set, setSet] = useState<string>();
  const [drop, setDrop] = useState<Secret>();
  const columns: Column<Secret>[] = [
    { id: "name", head: "Name", lead: true, cell: (s) => <span className="name mono wrap">{s.name}</span> },
    { id: "version", head: "Version", label: "version", num: true, cell: (s) => s.version },
    { id: "updated", head: "Set", label: "set", cell: (s) => <Time at={s.updated_at} /> },
    { id: "created", head: "Created", label: "created", cell: (s) => <Time at={s.created_at} /> },
    {
      id: "use",
      head: "In jobs",
      wideOnly: true,
      cell: (s) => (
        <Button kind="ghost" small className="mono" onClick={() => copy(`\${secret:${s.name}}`)} tip="Click to copy">{`\${secret:${s.name}}`}</Button>
      ),
    },
    ...(may
      ? [
          acts<Secret>((s) => (
            <>
              <Button small onClick={() => setSet(s.name)} aria-label={"Rotate " + s.name}>
                Rotate
              </Button>
              <Button small className="danger" onClick={() => setDrop(s)} aria-label={"Delete " + s.name}>
                Delete
              </Button>
            </>
          )),
        ]
      : []),
  ];
  return (
    <>
      <Head
        title="Secrets"
        actions={
          <New may={may} role="admin" onClick={() => setSet("")}>
            New secret
          </New>
        }
      />
      <Only may={may} role="admin" what="Setting and deleting secrets" />
      <Table
        label="Secrets"
        page={page}
        columns={columns}
        id={(s) => s.name}
        empty={
          <Empty title="No secrets yet" command="carillon secret set api-token">
            A value that headers, environment and payloads of jobs name as <code>{"${secret:name}"}</code>. It is encrypted, given to workers only, and cannot be read back.
          </Empty>
        }
      />
      {set !== undefined && <SetSecret name={set} onClose={() => setSet(undefined)} />}
      {drop && <DropSecret s={drop} onClose={() => setDrop(undefined)} />}
    </>
  );
}

function SetSecret({ name: known, onClose }: { name: string; onClose: () => void }) {
  const [name, setName] = useState(known);
  const [value, setValue] = useState("");
  const refresh = useRefresh();
  return (
    <Ask
      title={known ? `Rotate ${known}` : "New secret"}
      action={known ? "Set the new value" : "Keep it"}
      ready={name.trim() !== "" && value !== ""}
      cli={`carillon secret set ${sh(name.trim() || "NAME")}   (reads the value from standard input)`}
      onClose={onClose}
      run={() =>
        put<Secret>("/secrets/" + encodeURIComponent(name.trim()), { value }).then((s) => {
          void refresh("/secrets");
          toast(`${s.name} has version ${s.version}`);
        })
      }
    >
      {(error) => (
        <>
          {!known && <TextField label="Name" value={name} onChange={setName} mono wrong={wrongOf(error, "name")} autoFocus autoComplete="off" spellCheck={false} hint="Letters, digits, dots, dashes." />}
          <TextField label="Value" type="password" value={value} onChange={setValue} mono wrong={wrongOf(error, "value")} autoComplete="new-password" hint={known ? "Executions that start at least five seconds from now use the new value. Saving the same value changes nothing." : "It is never shown again."} />
        </>
      )}
    </Ask>
  );
}

/** DropSecret deletes a secret. Where jobs name it the server refuses; then it can be forced, knowingly. */
function DropSecret({ s, onClose }: { s: Secret; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [force, setForce] = useState(false);
  const [used, setUsed] = useState(false);
  const refresh = useRefresh();
  return (
    <Ask
      title={`Delete ${s.name}`}
      action={force ? "Delete it anyway" : "Delete"}
      danger
      ready={typed.trim() === s.name && (!used || force)}
      cli={`carillon secret rm ${sh(s.name)}${force ? " --force" : ""}`}
      onClose={onClose}
      run={() =>
        del<Secret>("/secrets/" + encodeURIComponent(s.name), force ? { force: true } : undefined).then(
          () => {
            void refresh("/secrets");
            toast(`Deleted ${s.name}`);
          },
          (e: unknown) => {
            if (isProblem(e, 409)) setUsed(true);
            throw e;
          },
        )
      }
    >
      <p>Its value is gone for good.</p>
      {used && (
        <>
          <p className="warn">Active or paused jobs use it. Remove it from them first. If you delete it anyway, their executions fail without retries, with an error that says so.</p>
          <Check label="Delete it even though jobs use it" checked={force} onChange={setForce} />
        </>
      )}
      <TextField label={`Type ${s.name} to confirm`} value={typed} onChange={setTyped} autoComplete="off" spellCheck={false} autoFocus />
    </Ask>
  );
}
