// Table: rows of a list, one page at a time. j and k move, Enter opens, x selects. On narrow screens rows become cards.

import { useEffect, useRef, useState, type MouseEvent, type ReactNode } from "react";
import type { Live, Page } from "../api";
import { navigate } from "../router";
import { Button, count } from "./basics";
import { ErrorBox, Loading } from "./feedback";
import { useHotkeys } from "./hotkeys";

export type Column<T> = {
  id: string;
  head: ReactNode;
  cell: (row: T) => ReactNode;
  num?: boolean;
  /** Gets more room. */
  wide?: boolean;
  /** The line that a card begins with, on narrow screens. */
  lead?: boolean;
  /** Left out on narrow screens. */
  wideOnly?: boolean;
  /** Left out where it would push others out of sight: below 1500 px. */
  roomy?: boolean;
  /** The word before the value in a card; none where the value speaks for itself. */
  label?: string;
};

type TableProps<T> = {
  label: string;
  page: Page<T>;
  columns: Column<T>[];
  id: (row: T) => string;
  /** Where Enter or a click on the row goes. */
  open?: (row: T) => string;
  /** What is shown where there is nothing. */
  empty: ReactNode;
  /** What makes a search faster that stopped before its end. */
  faster?: string;
  selected?: Selection;
  live?: Live;
};

export type Selection = { ids: Set<string>; set: (ids: Set<string>) => void };

/** useSelection holds which rows are chosen; another list begins with none. */
export function useSelection(list: string): Selection {
  const [s, set] = useState<{ list: string; ids: Set<string> }>({ list, ids: new Set() });
  const ids = s.list === list ? s.ids : new Set<string>();
  return { ids, set: (ids) => set({ list, ids }) };
}

export function Table<T>({ label, page, columns, id, open, empty, faster, selected, live }: TableProps<T>) {
  const { rows, query, pagination } = page;
  // The row that keys act on, by its id: others may come before it.
  const [at, setAt] = useState("");
  const body = useRef<HTMLTableSectionElement>(null);
  const current = at === "" ? -1 : rows.findIndex((r) => id(r) === at);
  const hold = live?.hold;
  useEffect(() => {
    hold?.(current >= 0);
    return () => hold?.(false);
  }, [hold, current >= 0]);
  useEffect(() => {
    if (current >= 0) body.current?.children[current]?.scrollIntoView({ block: "nearest" });
  }, [current]);

  const toggle = (row: T) => {
    if (!selected) return;
    const next = new Set(selected.ids);
    if (!next.delete(id(row))) next.add(id(row));
    selected.set(next);
  };
  const here = () => rows[current];
  const go = (i: number) => ((r) => r && setAt(id(r)))(rows[Math.max(0, Math.min(i, rows.length - 1))]);
  useHotkeys([
    { keys: "j", label: "Next row", run: () => go(current + 1) },
    { keys: "k", label: "Previous row", run: () => go(current - 1) },
    ...(current >= 0 ? [{ keys: "Escape", label: "Leave the row, and follow the list", run: () => setAt("") }] : []),
    ...(open ? [{ keys: "Enter", label: "Open the row", run: () => ((r) => r && navigate(open(r)))(here()) }] : []),
    ...(selected ? [{ keys: "x", label: "Select the row", run: () => ((r) => r && toggle(r))(here()) }] : []),
  ]);

  if (query.isPending) return <Loading lines={8} />;
  if (query.isError && rows.length === 0) return <ErrorBox error={query.error} retry={() => void query.refetch()} />;
  if (rows.length === 0 && pagination?.partial) return <Partial page={page} faster={faster} />;
  if (rows.length === 0 && page.first) return <div className="tablebox">{empty}</div>;

  const click = (e: MouseEvent, row: T) => {
    if (!open || (e.target as Element).closest("a,button,input,label,time[tabindex],svg")) return;
    if (!getSelection()?.isCollapsed) return;
    if (e.metaKey || e.ctrlKey) window.open(open(row), "_blank", "noopener");
    else navigate(open(row));
  };
  const all = rows.length > 0 && rows.every((r) => selected?.ids.has(id(r)));
  return (
    <>
      {live && live.held && (
        <button type="button" className="pill" onClick={live.show}>
          {live.fresh > 0 ? `${count(live.fresh)} new` : "Show what is new"}
        </button>
      )}
      {query.isError && <ErrorBox error={query.error} what="These rows could not be refreshed" retry={() => void query.refetch()} />}
      {pagination?.partial && <Partial page={page} faster={faster} />}
      <div className="tablebox" {...live?.region}>
        <table className="table cards" aria-label={label}>
          <thead>
            <tr>
              {selected && (
                <th className="pick">
                  <input type="checkbox" aria-label="Select all rows of this page" checked={all} onChange={() => selected.set(all ? new Set() : new Set(rows.map(id)))} />
                </th>
              )}
              {columns.map((c) => (
                <th key={c.id} scope="col" className={[c.num && "num", c.roomy && "roomy"].filter(Boolean).join(" ")}>
                  {c.head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody ref={body}>
            {rows.map((r, i) => (
              <tr key={id(r)} data-open={open ? "" : undefined} data-at={i === current ? "" : undefined} aria-selected={selected ? selected.ids.has(id(r)) : undefined} onClick={(e) => click(e, r)}>
                {selected && (
                  <td className="pick">
                    <input type="checkbox" aria-label="Select this row" checked={selected.ids.has(id(r))} onChange={() => toggle(r)} />
                  </td>
                )}
                {columns.map((c) => (
                  <td key={c.id} data-label={c.label} className={[c.num && "num", c.wide && "wide", c.lead && "lead", c.lead && selected && "pickable", c.wideOnly && "wide-only", c.roomy && "roomy"].filter(Boolean).join(" ") || undefined}>
                    {c.cell(r)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
        <div className="pager">
          <span aria-live="polite">
            {count(rows.length)} of {pagination?.total_is_estimate ? "about " : ""}
            {count(pagination?.total ?? rows.length)}
            {pagination?.partial ? "; the search stopped early and continues with the next page" : ""}
          </span>
          <span className="grow" />
          {!page.first && (
            <>
              <Button small onClick={page.toFirst}>
                First page
              </Button>
              <Button small onClick={page.back}>
                Back
              </Button>
            </>
          )}
          {page.next && (
            <Button small onClick={page.next}>
              Next page
            </Button>
          )}
        </div>
      </div>
    </>
  );
}

/** Partial says that a search stopped before its end, and has it go on. */
function Partial<T>({ page, faster }: { page: Page<T>; faster: string | undefined }) {
  const found = page.rows.length;
  return (
    <div className="panel row" role="status">
      <span className="grow">
        <strong>{found === 0 ? "Nothing found so far." : `${count(found)} found so far.`}</strong> Few of very many match, so the search stopped to answer quickly; it has looked only at the latest. {faster}
      </span>
      {!page.first && found === 0 && (
        <Button small onClick={page.toFirst}>
          First page
        </Button>
      )}
      {page.next && (
        <Button kind="primary" small onClick={page.next}>
          Continue searching
        </Button>
      )}
    </div>
  );
}
