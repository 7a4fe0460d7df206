// Sign-in: a key for a session. Where to go afterwards is what the server answers, never what the address says.

import { useEffect, useState, type FormEvent } from "react";
import { post } from "../../api";
import { useParam } from "../../router";
import type { Session } from "../../session";
import { Button, CommandLine, ErrorBox, Icon, TextField, wrongOf } from "../../ui";
import "./sign-in.css";

export default function SignIn() {
  const [next] = useParam("next");
  const [key, setKey] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    document.title = "Sign in · Carillon";
  }, []);
  const submit = (e: FormEvent) => {
    e.preventDefault();
    if (busy || key.trim() === "") return;
    setBusy(true);
    setError(undefined);
    post<Session>("/sign-in", { credential: key.trim(), ...(next ? { next } : {}) }).then(
      (s) => location.assign(s.next ?? "/"),
      (e: unknown) => {
        setError(e);
        setBusy(false);
      },
    );
  };
  return (
    <main id="main" className="signin" tabIndex={-1}>
      <form className="panel stack" onSubmit={submit}>
        <div className="brand">
          <Icon name="bell" />
          <h1>Carillon</h1>
        </div>
        <TextField label="API key" type="password" value={key} onChange={setKey} autoFocus autoComplete="current-password" mono wrong={wrongOf(error, "credential")} hint="Or a token of your identity provider. It becomes a session of this browser and is not kept in the page." />
        {error !== undefined && <ErrorBox error={error} what="You are not signed in" />}
        <Button type="submit" kind="primary" disabled={busy || key.trim() === ""}>
          {busy ? "Signing in…" : "Sign in"}
        </Button>
        <p className="dim small">No key yet? The first start of the server prints one; whoever has it makes more:</p>
        <CommandLine>carillon key create me --role operator</CommandLine>
      </form>
    </main>
  );
}
