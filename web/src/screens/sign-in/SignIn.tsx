// Sign-in: a key for a session. Where to go afterwards is what the server answers, never what the address says.

import { useEffect, useState, type FormEvent } from "react";
import { isProblem, post } from "../../api";
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
        <p className="dim wrap">Sign in to {location.host}</p>
        {isProblem(error, 409) && (
          <p>
            This server has no sign-in: <a href="/">go on</a>.
          </p>
        )}
        <TextField label="API key" type="password" value={key} onChange={setKey} autoFocus autoComplete="current-password" mono wrong={wrongOf(error, "credential")} hint="Or a token from your identity provider. It becomes a session of this browser; the page does not keep it." />
        {error !== undefined && !isProblem(error, 409) && <ErrorBox error={error} what="You are not signed in" />}
        <Button type="submit" kind="primary" disabled={busy || key.trim() === ""}>
          {busy ? "Signing in…" : "Sign in"}
        </Button>
        <details className="signin-help">
          <summary>No key yet?</summary>
          <p className="dim small">The first start of a server prints one. Admins create more under Admin, Keys, or with:</p>
          <CommandLine>carillon key create me --role operator</CommandLine>
        </details>
      </form>
    </main>
  );
}
