// CopyAs: what is shown or done, as a line for curl or for the command line, or as YAML for a file.

import { stringify } from "../api/json";
import { queries } from "../api/query";
import { copy } from "./feedback";
import { Menu, type MenuItem } from "./overlay";

const shell = (s: string) => (/^[\w@%+=:,./-]+$/.test(s) ? s : "'" + s.replaceAll("'", "'\\''") + "'");

export type Request = { method: string; path: string; body?: unknown };

// Whether the server wants a key; until it has said so, one that is not on this machine does.
function wantsKey(): boolean {
  const session = queries.getQueryData<{ kind: string }>(["/session", {}]);
  return session ? session.kind !== "none" : location.hostname !== "localhost" && !location.hostname.startsWith("127.");
}

/** asCurl is a request as a line for a shell. The key is named, never shown. */
export function asCurl(r: Request): string {
  const parts = ["curl -s", ...(r.method === "GET" ? [] : ["-X", r.method])];
  if (wantsKey()) parts.push('-H "Authorization: Bearer $CARILLON_TOKEN"');
  parts.push(shell(location.origin + "/api/v1" + r.path));
  if (r.body !== undefined) parts.push("-d", shell(stringify(r.body)));
  return parts.join(" ");
}

/** asYaml writes JSON as YAML. Texts are written as JSON strings where YAML could read them otherwise. */
export function asYaml(value: unknown, indent = ""): string {
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]";
    return value.map((v) => `\n${indent}- ${asYaml(v, indent + "  ").replace(/^\n\s*/, "")}`).join("");
  }
  if (value !== null && typeof value === "object" && !("rawJSON" in value)) {
    const entries = Object.entries(value).filter(([, v]) => v !== undefined);
    if (entries.length === 0) return "{}";
    return entries
      .map(([k, v]) => {
        const text = asYaml(v, indent + "  ");
        return `\n${indent}${scalar(k)}:${text.startsWith("\n") ? text : " " + text}`;
      })
      .join("");
  }
  return typeof value === "string" ? scalar(value) : stringify(value);
}

const plain = /^[A-Za-z_/][\w ./@+-]*$/;
const risky = /^(true|false|null|yes|no|on|off|y|n|~)$|^\s|\s$|:\s|\s#/i;
const scalar = (s: string) => (plain.test(s) && !risky.test(s) ? s : JSON.stringify(s));

export function CopyAs({ curl, cli, yaml, link }: { curl?: Request; cli?: string; yaml?: unknown; link?: string }) {
  const items: MenuItem[] = [];
  if (link) items.push({ label: "Link", run: () => copy(location.origin + link, "Link copied") });
  if (cli) items.push({ label: "Command line", note: cli, run: () => copy(cli, "Command copied") });
  if (curl) items.push({ label: "curl", run: () => copy(asCurl(curl), "curl line copied") });
  if (yaml !== undefined) items.push({ label: "YAML", run: () => copy(asYaml(yaml).replace(/^\n/, "") + "\n", "YAML copied") });
  return <Menu label="Copy as" icon="copy" items={items} />;
}
