// History: which days have moved to the archive, whether it is behind, and whether its files are as they were written.

import { useState } from "react";
import { isProblem, post, useGet, useRefresh, type Page } from "../../api";
import { navigate, useParam, withParams } from "../../router";
import { Button, bytes, CopyAs, count, counted, duration, Empty, ErrorBox, failed, Head, Loading, State, Table, Time, toast, type Column } from "../../ui";
import type { Archive, ArchiveCheck, ArchiveDay } from "./types";

const path = "/admin/archive";
const steps: Record<string, string> = {
  write: "its files are being written and read back", leave: "the database hands over to its files", drop: "the database lets go of what the files have", purge: "files whose retention is over are being deleted",
};

export function History() {
  const [every, setEvery] = useState<number | undefined>(15_000);
  const q = useGet<Archive>(path, undefined, every === undefined ? {} : { every });
  const refresh = useRefresh();
  const a = q.data;
  const none = isProblem(q.error, 409);
  const soon = none ? undefined : a?.moving ? 1000 : 15_000;
  if ((a || none) && soon !== every) setEvery(soon);
  if (none) return <None />;
  const run = () =>
    post(path + "/run").then(
      () => {
        toast("A server is looking for what is due");
        void refresh(path);
      },
      (e: unknown) => failed(e, "Nothing was asked for"),
    );
  return (
    <>
      <Head
        title="History"
        actions={
          <>
            <Button onClick={() => void run()} tip="Otherwise a server looks every hour." disabled={a === undefined}>
              Move what is due
            </Button>
            <CopyAs link="/admin/history" cli="carillon archive status" curl={{ method: "GET", path }} />
          </>
        }
      >
        <p className="dim">Finished executions of all tenants, by the day (UTC) on which they ended. Lists, searches and exports read the database and the archive as one.</p>
      </Head>
      {!a ? q.isError ? <ErrorBox error={q.error} retry={() => void q.refetch()} /> : <Loading lines={6} /> : <Facts a={a} />}
      {a && a.days.length > 0 && <Verify />}
      {a && <Days a={a} query={q} />}
    </>
  );
}

function None() {
  return (
    <>
      <Head title="History" />
      <div className="panel">
        <Empty title="All history is in the database" command="CARILLON_ARCHIVE_URL=s3://my-bucket/history">
          Days can move to a folder or a bucket instead, as Parquet files that you own. All screens go on showing them. Set this on every server:
        </Empty>
      </div>
    </>
  );
}

function sum(days: ArchiveDay[], of: (d: ArchiveDay) => number): number {
  return days.reduce((n, d) => n + of(d), 0);
}

function Facts({ a }: { a: Archive }) {
  const first = a.days[a.days.length - 1];
  const last = a.days[0];
  const state = a.error ? ["FAILED", "Failing"] : a.overdue_since ? ["LATE", "Behind"] : a.moving ? ["RUNNING", "Moving"] : ["ACTIVE", "Up to date"];
  return (
    <section className="panel stack" aria-label="Archive">
      <dl className="facts">
        <dt>State</dt>
        <dd>
          <State of={state[0] ?? ""} word={state[1] ?? ""} />
          {a.overdue_since && (
            <span className="dim">
              {" "}
              {a.overdue_since} should have moved {duration(a.lag_seconds * 1000)} ago
            </span>
          )}
        </dd>
        {a.moving && (
          <>
            <dt>Now</dt>
            <dd>
              {a.moving.day}: {steps[a.moving.step] ?? a.moving.step}
              {a.moving.rows > 0 && <span className="dim">, {counted(a.moving.rows, "execution")} so far</span>}
            </dd>
          </>
        )}
        <dt>In the database</dt>
        <dd>{a.hot_days === 0 ? "the current day" : a.hot_days === 1 ? "the current day and the one before" : `the current day and the ${count(a.hot_days)} before`}</dd>
        <dt>In the archive</dt>
        <dd>
          {first && last ? (
            <>
              {counted(a.days.length, "day")}, {first.day === last.day ? first.day : `${first.day} to ${last.day}`}
              <span className="dim">
                : {counted(sum(a.days, (d) => d.executions), "execution")} in {bytes(sum(a.days, (d) => d.bytes))}
              </span>
            </>
          ) : (
            "nothing yet"
          )}
        </dd>
        <dt>Place</dt>
        <dd className="wrap">
          <span className="mono">{a.place}</span> <span className="dim">{a.layout === "per-tenant" ? "a file for each tenant" : "tenants share files"}</span>
        </dd>
        <dt>Last looked</dt>
        <dd>{a.checked_at ? <Time at={a.checked_at} /> : "never"}</dd>
      </dl>
      {a.error && <ErrorBox error={new Error(a.error)} what="The last attempt failed; what could not move stays in the database" />}
      {a.foreign_files.length > 0 && (
        <details className="admin-audit">
          <summary>The catalogue does not know {counted(a.foreign_files.length, "object")} at this place</summary>
          <p className="dim small">They are not Carillon's, or were written after the backup from which the database was restored. They are left alone.</p>
          {a.foreign_files.map((f) => (
            <p key={f} className="mono small wrap">
              {f}
            </p>
          ))}
        </details>
      )}
    </section>
  );
}

const perPage = 60;

function Days({ a, query }: { a: Archive; query: Page<ArchiveDay>["query"] }) {
  const [cursor] = useParam("cursor");
  const from = cursor === "" ? 0 : a.days.findIndex((d) => d.day < cursor);
  const rows = from < 0 ? [] : a.days.slice(from, from + perPage);
  const more = from >= 0 && from + perPage < a.days.length;
  const page: Page<ArchiveDay> = {
    rows,
    query,
    pagination: { limit: perPage, total: a.days.length, next_cursor: null },
    first: cursor === "",
    next: more ? () => navigate(withParams({ cursor: rows[rows.length - 1]?.day ?? null })) : undefined,
    back: () => history.back(),
    toFirst: () => navigate(withParams({ cursor: null })),
  };
  const columns: Column<ArchiveDay>[] = [
    { id: "day", head: "Day", lead: true, cell: (d) => <span className="name">{d.day}</span> },
    { id: "state", head: "State", cell: (d) => (d.settled ? <State of="SUCCEEDED" word="Archived" /> : <State of="RUNNING" word="Moving" />) },
    { id: "executions", head: "Executions", label: "executions", num: true, cell: (d) => count(d.executions) },
    { id: "logs", head: "Log lines", label: "log lines", num: true, cell: (d) => count(d.log_lines) },
    { id: "files", head: "Files", label: "files", num: true, cell: (d) => count(d.files) },
    { id: "bytes", head: "Size", label: "size", num: true, cell: (d) => bytes(d.bytes) },
  ];
  return <Table label="Archived days" page={page} columns={columns} id={(d) => d.day} empty={<Empty title="Nothing has moved yet">A day moves when it is older than {counted(a.hot_days, "day")} and a server looks next.</Empty>} />;
}

/** Verify reads every file, and says what it found. */
function Verify() {
  const [busy, setBusy] = useState(false);
  const [files, setFiles] = useState(0);
  const [found, setFound] = useState<ArchiveCheck["problems"]>();
  const [error, setError] = useState<unknown>();
  const run = async () => {
    setBusy(true);
    setError(undefined);
    setFound(undefined);
    setFiles(0);
    try {
      const all: ArchiveCheck["problems"] = [];
      let after = "";
      let n = 0;
      do {
        const v: ArchiveCheck = await post<ArchiveCheck>(path + "/verify", after === "" ? {} : { after });
        all.push(...v.problems);
        after = v.next;
        n += v.files;
        setFiles(n);
      } while (after !== "");
      setFound(all);
    } catch (e) {
      setError(e);
    } finally {
      setBusy(false);
    }
  };
  const good = found?.length === 0;
  return (
    <section className={"panel stack tight" + (found ? " admin-verified" + (good ? "" : " bad") : "")} aria-label="Are the files intact?">
      <div className="row">
        <span className="grow" role="status">
          {busy ? (
            `${counted(files, "file")} read…`
          ) : found ? (
            <span className="row">
              <State of={good ? "SUCCEEDED" : "FAILED"} word={good ? "Intact" : counted(found.length, "problem")} />
              {good ? `${counted(files, "file")} read: ${files === 1 ? "it is as it was" : "all are as they were"} written.` : `${counted(files, "file")} read.`}
            </span>
          ) : (
            "Each file has a checksum in the catalogue. Verifying reads them all."
          )}
        </span>
        <Button small disabled={busy} onClick={() => void run()}>
          Verify
        </Button>
      </div>
      {found?.map((p) => (
        <p key={p.file} className="small wrap">
          <span className="mono">{p.file}</span>: {p.problem}
        </p>
      ))}
      {error !== undefined && <ErrorBox error={error} what="Not all files could be read" />}
    </section>
  );
}
