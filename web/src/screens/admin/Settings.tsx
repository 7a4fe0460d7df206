// Settings: what this browser remembers, who is signed in, and what the server is.

import { post } from "../../api";
import { useLiveSwitch } from "../../api/live";
import { applyTheme, usePref, useZone, type Theme, type Zone } from "../../prefs";
import { useSession } from "../../session";
import { Button, Check, CommandLine, failed, Head, Segments, Time, toast, zoneName } from "../../ui";
import { setParams } from "../../router";
import { useProbe } from "./parts";

export function Settings() {
  const [theme, setTheme] = usePref<Theme>("theme", "system");
  const [, setZone] = usePref<Zone>("zone", "local");
  const [zone] = useZone();
  const [live, setLive] = useLiveSwitch();
  const session = useSession();
  const alive = useProbe("/healthz");
  const forget = () => {
    for (const k of Object.keys(localStorage)) if (k.startsWith("carillon.")) localStorage.removeItem(k);
    toast("Cleared; the page reloads");
    setTimeout(() => location.assign("/admin/settings"), 600);
  };
  return (
    <>
      <Head title="Settings" />
      <div className="cols">
        <section className="panel stack" aria-label="This browser">
          <h2>This browser</h2>
          <div className="row">
            <span className="grow">Theme</span>
            <Segments
              label="Theme"
              value={theme}
              options={[["system", "System"], ["dark", "Dark"], ["light", "Light"]]}
              onChange={(t) => {
                setTheme(t);
                applyTheme(t);
              }}
            />
          </div>
          <div className="row">
            <span className="grow">
              Times in <span className="dim">{zoneName(zone)}</span>
            </span>
            <Segments
              label="Zone"
              value={zone}
              options={[["utc", "UTC"], ["local", "Local"], ["job", "The job's"]]}
              onChange={(z) => {
                setZone(z);
                setParams({ tz: null });
              }}
            />
          </div>
          <Check label="Follow changes as they happen" checked={live} onChange={setLive} />
          <div className="row">
            <span className="grow dim small">Theme, zone and saved filters are kept in this browser only.</span>
            <Button small onClick={forget}>
              Clear them
            </Button>
          </div>
        </section>
        <section className="panel stack" aria-label="Session">
          <h2>Session</h2>
          {!session ? (
            <p className="dim">This server has no sign-in: anyone who can reach it can do everything.</p>
          ) : session.kind === "none" ? (
            <p className="dim">
              This server was started with <code>carillon dev</code>: there is no sign-in, and it answers on this machine only.
            </p>
          ) : (
            <>
              <dl className="facts">
                <dt>Who</dt>
                <dd>{session.name}</dd>
                <dt>Role</dt>
                <dd>{session.role}</dd>
                <dt>Tenant</dt>
                <dd>{session.tenant_id === "*" ? "every one" : session.tenant_id}</dd>
                {session.key_id && (
                  <>
                    <dt>Key</dt>
                    <dd className="mono">{session.key_id}</dd>
                  </>
                )}
                {session.signed_in_at && (
                  <>
                    <dt>Signed in</dt>
                    <dd>
                      <Time at={session.signed_in_at} />
                    </dd>
                  </>
                )}
                {session.expires_at && (
                  <>
                    <dt>Ends</dt>
                    <dd>
                      <Time at={session.expires_at} />
                      {session.idle_expires_at && (
                        <span className="dim">
                          , or <Time at={session.idle_expires_at} /> if it is not used
                        </span>
                      )}
                    </dd>
                  </>
                )}
              </dl>
              {session.kind === "cookie" && (
                <div>
                  <Button onClick={() => void post("/sign-out").then(() => location.assign("/sign-in"), failed)}>Sign out</Button>
                </div>
              )}
            </>
          )}
        </section>
        <section className="panel stack" aria-label="Server">
          <h2>Server</h2>
          <dl className="facts">
            <dt>Address</dt>
            <dd className="mono">{location.origin}</dd>
            <dt>Version</dt>
            <dd className="mono">{alive.data?.version ?? "–"}</dd>
            <dt>API</dt>
            <dd>
              <a href="/docs">reference</a>, <a href="/openapi.json">OpenAPI</a>
            </dd>
          </dl>
          <p className="dim small">To see its settings and where each comes from, run this on its machine:</p>
          <div>
            <CommandLine>carillon config show</CommandLine>
          </div>
        </section>
      </div>
    </>
  );
}
