// Tabs: parts of a screen, the chosen one in the address (tab=).

import type { ReactNode } from "react";
import { Link, useParam, useSearch, withParams } from "../router";

export type Tab = { id: string; label: ReactNode; content: () => ReactNode };

export function Tabs({ tabs, label }: { tabs: Tab[]; label: string }) {
  useSearch();
  const [chosen] = useParam("tab", tabs[0]?.id ?? "");
  const current = tabs.find((t) => t.id === chosen) ?? tabs[0];
  return (
    <>
      <div className="tabs" role="tablist" aria-label={label}>
        {tabs.map((t) => (
          <Link key={t.id} role="tab" id={"tab-" + t.id} aria-selected={t === current} aria-controls="tabpanel" to={withParams({ tab: t.id === tabs[0]?.id ? null : t.id, cursor: null })}>
            {t.label}
          </Link>
        ))}
      </div>
      <div id="tabpanel" role="tabpanel" aria-labelledby={"tab-" + current?.id} className="stack">
        {current?.content()}
      </div>
    </>
  );
}
