// Who is signed in. Where the server has no sign-in, everyone is.

import { useGet } from "./api/query";

export type Session = {
  tenant_id: string; role: "viewer" | "operator" | "admin" | "worker" | "system"; name: string; key_id: string | null; kind: "cookie" | "key" | "token" | "none";
  signed_in_at: string | null; idle_expires_at: string | null; expires_at: string | null; next?: string;
};

/** useDeadLetters is whether the tenant's quota has dead letters, and the name of its tier; undefined while that is not known. */
export function useDeadLetters(): { has: boolean; tier: string } | undefined {
  const q = useGet<{ tier: string; quotas: { dead_letters: boolean } }>("/quotas");
  if (q.data) return { has: q.data.quotas.dead_letters, tier: q.data.tier };
  return q.isError ? { has: true, tier: "" } : undefined; // the server says so where it is not
}

/** useSession is who is signed in; undefined while that is not known. */
export function useSession(): Session | undefined {
  return useGet<Session>("/session").data;
}

const ranks = ["viewer", "operator", "admin", "system"];

/** useMay reports whether the role is at least this one. Until the role is known it says yes: the server decides in any case. */
export function useMay(role: "operator" | "admin" | "system"): boolean {
  const s = useSession();
  return s === undefined || ranks.indexOf(s.role) >= ranks.indexOf(role);
}
