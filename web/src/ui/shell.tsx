// Shell: the frame around every screen: where one can go, how fresh what is shown is, and the switches for theme and zone.

import { useEffect, useState, type ReactNode } from "react";
import { useLive, useLiveState, useLiveSwitch } from "../api/live";
import { post } from "../api/http";
import { queries } from "../api/query";
import { applyTheme, usePref, useZone, type Theme } from "../prefs";
import { Link, navigate, usePath } from "../router";
import { useSession } from "../session";
import { Button } from "./basics";
import { failed, Tip, Toasts } from "./feedback";
import { zoneName } from "./format";
import { useHotkeys } from "./hotkeys";
import { Icon, type IconName } from "./icons";
import { Menu } from "./overlay";
import { Help, Palette, useCommands } from "./palette";

export type NavEntry = { path: string; label: string; icon: IconName; key?: string };

export const nav: NavEntry[] = [
  { path: "/", label: "Now", icon: "now", key: "n" },
  { path: "/jobs", label: "Jobs", icon: "jobs", key: "j" },
  { path: "/workflows", label: "Workflows", icon: "workflows", key: "o" },
  { path: "/executions", label: "Executions", icon: "executions", key: "r" },
  { path: "/dead-letters", label: "Dead letters", icon: "dead-letters", key: "d" },
  { path: "/queues", label: "Queues", icon: "queues", key: "q" },
  { path: "/workers", label: "Workers", icon: "workers", key: "w" },
  { path: "/forecast", label: "Forecast", icon: "forecast", key: "f" },
  { path: "/admin", label: "Admin", icon: "admin", key: "a" },
];

const words = { off: "Live updates are off", connecting: "Connecting…", live: "Live", polling: "Polling every 5 s: the stream is not available", stale: "No answer for more than 10 s" };

const nothing = { match: () => false, refresh: () => Promise.resolve() };

export function Shell({ children }: { children: ReactNode }) {
  const path = usePath();
  const [open, setOpen] = useState(false);
  const [palette, setPalette] = useState(false);
  const [help, setHelp] = useState(false);
  const [theme, setTheme] = usePref<Theme>("theme", "system");
  const [zone, nextZone] = useZone();
  const [on, setOn] = useLiveSwitch();
  const state = useLiveState();
  const session = useSession();
  useLive(nothing); // the stream stays open from screen to screen
  useEffect(() => applyTheme(theme), [theme]);
  useEffect(() => setOpen(false), [path]);
  const flip = () => {
    setOn(!on);
    if (!on) void queries.invalidateQueries(); // what stood still is read at once
  };
  const nextTheme = () => setTheme(theme === "system" ? "dark" : theme === "dark" ? "light" : "system");

  useHotkeys([
    { keys: "mod+k", label: "Search and commands", run: () => setPalette(true) },
    { keys: "?", label: "Keyboard shortcuts", run: () => setHelp(true) },
    { keys: ".", label: "Live updates on or off", run: flip },
    { keys: "z", label: "Zone: UTC, local, the job's", run: nextZone },
    ...nav.flatMap((n) => (n.key ? [{ keys: "g " + n.key, label: "Go to " + n.label, run: () => navigate(n.path) }] : [])),
  ]);
  useCommands([
    ...nav.map((n) => ({ label: n.label, note: n.key ? "g " + n.key : "screen", run: () => navigate(n.path) })),
    { label: "Theme: next", note: theme, run: nextTheme },
    { label: "Zone: next", note: zone, run: nextZone },
    { label: on ? "Live updates off" : "Live updates on", note: ".", run: flip },
    { label: "API reference", note: "/docs", run: () => location.assign("/docs") },
    { label: "Keys", note: "?", run: () => setHelp(true) },
  ]);
  const signOut = () => void post("/sign-out").then(() => location.assign("/sign-in"), failed);
  const current = (p: string) => (p === "/" ? path === "/" : path === p || path.startsWith(p + "/"));
  const liveState = on ? state : "off";
  return (
    <div className="shell" data-open={open ? "" : undefined}>
      <a className="skip" href="#main">
        Skip to content
      </a>
      <aside className="side" aria-label="Carillon">
        <Link to="/" className="brand">
          <Icon name="bell" />
          Carillon
        </Link>
        <nav className="nav" aria-label="Screens">
          {nav.map((n) => (
            <Link key={n.path} to={n.path} aria-current={current(n.path) ? "page" : undefined}>
              <Icon name={n.icon} />
              {n.label}
            </Link>
          ))}
        </nav>
        <div className="foot">
          {session && session.tenant_id !== "default" && <span>Tenant {session.tenant_id}</span>}
          {session && session.kind !== "none" && (
            <span>
              {session.name}, {session.role}
            </span>
          )}
          <a href="/docs">API reference</a>
        </div>
      </aside>
      <div>
        <div className="topbar" role="banner">
          <Button kind="ghost" className="burger" icon={open ? "close" : "menu"} aria-label="Screens" aria-expanded={open} onClick={() => setOpen(!open)} />
          <button type="button" className="find" onClick={() => setPalette(true)}>
            <span>Search and commands</span>
            <kbd>{/Mac|iP/.test(navigator.platform) ? "⌘ K" : "Ctrl K"}</kbd>
          </button>
          <Button kind="ghost" aria-pressed={on} tip={words[liveState] + "\nSwitch with ."} onClick={flip}>
            <span className={"dot " + liveState} />
            <span className="opt">{liveState === "live" ? "Live" : liveState === "off" ? "Paused" : liveState === "stale" ? "Stale" : liveState === "polling" ? "Polling" : "…"}</span>
            <span className="sr">{words[liveState]}</span>
          </Button>
          <Button kind="ghost" tip={"Times in " + (zone === "job" ? "the job's zone, else " : "") + zoneName(zone) + "\nSwitch with z"} onClick={nextZone}>
            {zone === "utc" ? "UTC" : zone === "local" ? "Local" : "Job"}
            <span className="sr"> time; switch</span>
          </Button>
          <Button kind="ghost" icon={theme === "dark" ? "moon" : theme === "light" ? "sun" : "half"} aria-label={`Theme: ${theme}; switch`} tip={"Theme: " + theme} onClick={nextTheme} />
          <span className="opt">
            <Button kind="ghost" aria-label="Keys" tip="Keys" onClick={() => setHelp(true)}>
              ?
            </Button>
          </span>
          {session && session.kind === "cookie" && <Menu label={"Account of " + session.name} icon="user" kind="ghost" items={[{ label: "Sign out", run: signOut }]} />}
        </div>
        {liveState === "stale" && (
          <div className="banner" role="status">
            This page may be out of date: the server has not answered for more than 10 s. It keeps trying.
          </div>
        )}
        <main id="main" className="main" tabIndex={-1}>
          {children}
        </main>
      </div>
      <Toasts />
      <Tip />
      {palette && <Palette onClose={() => setPalette(false)} />}
      {help && <Help onClose={() => setHelp(false)} />}
    </div>
  );
}

/** Head is the top of a screen: its name, what one can do, and where it belongs. It also names the window. */
export function Head({ title, crumb, children, actions }: { title: string; crumb?: ReactNode; children?: ReactNode; actions?: ReactNode }) {
  useEffect(() => {
    document.title = title + " · Carillon";
  }, [title]);
  return (
    <header className="head">
      <div className="stack tight grow">
        {crumb && <div className="crumb">{crumb}</div>}
        <h1>{title}</h1>
        {children}
      </div>
      {actions && <div className="actions">{actions}</div>}
    </header>
  );
}
