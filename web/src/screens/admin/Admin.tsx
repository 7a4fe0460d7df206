// Admin: who may do what, what is kept for jobs, who is told, who changed what, and how the installation does.

import type { ReactNode } from "react";
import type { ScreenProps } from "..";
import { Link, usePath } from "../../router";
import { useMay } from "../../session";
import { Empty, Head, LinkButton, useCommands } from "../../ui";
import { navigate } from "../../router";
import { Audit } from "./Audit";
import { Badges } from "./Badges";
import { Calendars } from "./Calendars";
import { History } from "./History";
import { Keys } from "./Keys";
import { Limits } from "./Limits";
import { Notifications } from "./Notifications";
import { Operations, OperationPage } from "./Operations";
import { Overview } from "./Overview";
import { Secrets } from "./Secrets";
import { Settings } from "./Settings";
import { SignIns } from "./SignIns";
import { Signing } from "./Signing";
import { TenantPage, Tenants } from "./Tenants";
import "./admin.css";

type Part = { id: string; label: string; needs?: "admin" | "system"; view: (id: string | undefined) => ReactNode };

const parts: Part[] = [
  { id: "", label: "Overview", view: () => <Overview /> },
  { id: "tenants", label: "Tenants", needs: "system", view: (id) => (id === undefined ? <Tenants /> : <TenantPage id={id} />) },
  { id: "keys", label: "Keys", needs: "admin", view: () => <Keys /> },
  { id: "sign-ins", label: "Signed in", needs: "admin", view: () => <SignIns /> },
  { id: "secrets", label: "Secrets", view: () => <Secrets /> },
  { id: "signing", label: "Signing", view: () => <Signing /> },
  { id: "notifications", label: "Notifications", view: () => <Notifications /> },
  { id: "badges", label: "Badges", view: () => <Badges /> },
  { id: "calendars", label: "Calendars", view: () => <Calendars /> },
  { id: "limits", label: "Limits", view: () => <Limits /> },
  { id: "operations", label: "Operations", view: (id) => (id === undefined ? <Operations /> : <OperationPage id={id} />) },
  { id: "history", label: "History", needs: "system", view: () => <History /> },
  { id: "audit", label: "Audit", needs: "admin", view: () => <Audit /> },
  { id: "settings", label: "Settings", view: () => <Settings /> },
];

export default function Admin({ params }: ScreenProps) {
  const path = usePath();
  const admin = useMay("admin");
  const system = useMay("system");
  const may = (p: Part) => p.needs === undefined || (p.needs === "admin" ? admin : system);
  const at = path.startsWith("/operations") ? ["operations", params["id"]] : (params["*"] ?? "").split("/").filter(Boolean).map(decoded);
  const part = parts.find((p) => p.id === (at[0] ?? ""));
  useCommands(parts.filter(may).map((p) => ({ label: "Admin: " + p.label, note: "screen", run: () => navigate("/admin" + (p.id ? "/" + p.id : "")) })));
  return (
    <>
      <nav className="admin-nav" aria-label="Parts of Admin">
        {parts.filter(may).map((p) => (
          <Link key={p.id} to={"/admin" + (p.id ? "/" + p.id : "")} aria-current={p === part ? "page" : undefined}>
            {p.label}
          </Link>
        ))}
      </nav>
      {!part ? (
        <>
          <Head title="Nothing here" />
          <Empty title="No such page in Admin" action={<LinkButton to="/admin">Overview</LinkButton>} />
        </>
      ) : may(part) ? (
        part.view(at[1])
      ) : (
        <>
          <Head title={part.label} />
          <div className="panel">
            <Empty title={`This needs the role ${part.needs ?? ""}`}>Ask someone who has it, or sign in with another key.</Empty>
          </div>
        </>
      )}
    </>
  );
}

function decoded(s: string): string {
  try {
    return decodeURIComponent(s);
  } catch {
    return s;
  }
}
