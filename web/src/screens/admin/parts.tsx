// What the parts of administration share.

import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useFollowing } from "../../api";
import { Button, type Column } from "../../ui";

/** acts is the column of a list with what can be done to a row. */
export function acts<T>(cell: (row: T) => ReactNode): Column<T> {
  return { id: "do", head: <span className="sr">Actions</span>, num: true, cell: (r) => <span className="admin-acts">{cell(r)}</span> };
}

/** Only says who may change what is shown, to those who may not. */
export function Only({ may, role, what }: { may: boolean; role: string; what: string }) {
  return may ? null : (
    <p className="dim">
      {what} needs the role {role}.
    </p>
  );
}

export function New({ may, role, onClick, children }: { may: boolean; role: string; onClick: () => void; children: ReactNode }) {
  return (
    <Button kind="primary" icon="plus" disabled={!may} {...(may ? {} : { tip: `Needs the role ${role}.` })} onClick={onClick}>
      {children}
    </Button>
  );
}

/** lines are the words of a text, parted by blanks, commas or line breaks. */
export const lines = (s: string) => s.split(/[\s,]+/).filter(Boolean);

/** useProbe asks a server how it is: /healthz or /readyz. */
export function useProbe(path: "/healthz" | "/readyz") {
  return useQuery({
    queryKey: [path.slice(1)],
    queryFn: async () => {
      const r = await fetch(path, { headers: { Accept: "application/json" } });
      const j = (await r.json()) as { status?: string | number; version?: string; detail?: string };
      return { ok: r.ok, version: j.version ?? "", said: r.ok ? String(j.status ?? "") : (j.detail ?? "it is not well") };
    },
    ...useFollowing(15_000),
  });
}

/** span is a length of time as the command line takes it. */
export const hoursOf = (seconds: number) => (seconds % 3600 === 0 ? seconds / 3600 + "h" : seconds % 60 === 0 ? seconds / 60 + "m" : seconds + "s");
