// Calendars: what schedules leave out.

import { useRef, useState } from "react";
import { del, put, stringify, usePage, useRefresh, type Calendar } from "../../api";
import { useZone } from "../../prefs";
import { useMay } from "../../session";
import { Button, Check, Confirm, count, Empty, failed, Head, shortTime, Table, Tags, TextArea, TextField, Time, toast, wrongOf, type Column } from "../../ui";
import { Ask, sh } from "../../ui/ask";
import { excluded } from "../forecast/calc";
import { acts, lines, New, Only } from "./parts";

const week: [string, string][] = [
  ["MON", "Monday"], ["TUE", "Tuesday"], ["WED", "Wednesday"], ["THU", "Thursday"], ["FRI", "Friday"], ["SAT", "Saturday"], ["SUN", "Sunday"],
];
type Body = Omit<Calendar, "name" | "updated_at">;
const bodyOf = ({ dates, yearly, weekdays, windows, timezone }: Calendar): Body => ({ dates, yearly, weekdays, windows, timezone });
const pathOf = (name: string) => "/calendars/" + encodeURIComponent(name);

export function Calendars() {
  const page = usePage<Calendar>("/calendars", "calendars", { limit: 100 });
  const may = useMay("operator");
  const refresh = useRefresh();
  const [zone] = useZone();
  const [edit, setEdit] = useState<Calendar | "new">();
  const [drop, setDrop] = useState<Calendar>();
  const next = (c: Calendar) => {
    const now = Date.now() / 1000;
    const s = excluded(c, now, now + 366 * 86_400, zone)[0];
    return s ? `${shortTime(s.from * 1000, zone, undefined, false)} to ${shortTime(s.to * 1000, zone, undefined, false)}` : "nothing within a year";
  };
  const columns: Column<Calendar>[] = [
    { id: "name", head: "Calendar", lead: true, cell: (c) => <span className="name wrap">{c.name}</span> },
    { id: "weekdays", head: "Weekdays", cell: (c) => <Tags of={c.weekdays} /> },
    { id: "days", head: "Days", label: "days", num: true, cell: (c) => count(c.dates.length) },
    { id: "yearly", head: "Every year", label: "every year", num: true, cell: (c) => count(c.yearly.length) },
    { id: "windows", head: "Stretches", label: "stretches", num: true, cell: (c) => count(c.windows.length) },
    { id: "next", head: "Next exclusion", label: "next", cell: (c) => <span className="wrap">{next(c)}</span> },
    { id: "zone", head: "Zone", label: "zone", cell: (c) => c.timezone ?? <span className="dim">each schedule's</span> },
    { id: "updated", head: "Changed", wideOnly: true, cell: (c) => <Time at={c.updated_at} /> },
    acts((c) => (
      <>
        {may && (
          <Button small onClick={() => setEdit(c)} aria-label={"Change " + c.name}>
            Change
          </Button>
        )}
        {may && (
          <Button small className="danger" onClick={() => setDrop(c)} aria-label={"Delete " + c.name}>
            Delete
          </Button>
        )}
      </>
    )),
  ];
  return (
    <>
      <Head
        title="Calendars"
        actions={
          <New may={may} role="operator" onClick={() => setEdit("new")}>
            New calendar
          </New>
        }
      />
      <Only may={may} role="operator" what="Changing calendars" />
      <Table label="Calendars" page={page} columns={columns} id={(c) => c.name} empty={<Empty title="No calendars yet" command="carillon calendar set holidays --yearly 12-25,12-26 --weekday SAT,SUN">A calendar lists days and times that schedules skip: holidays, weekends, a maintenance window. A job uses it through schedule.calendar.</Empty>} />
      {edit && <Edit c={edit === "new" ? undefined : edit} onClose={() => setEdit(undefined)} />}
      {drop && (
        <Confirm
          title={`Delete ${drop.name}`}
          name={drop.name}
          action="Delete"
          danger
          cli={"carillon calendar rm " + sh(drop.name)}
          onClose={() => setDrop(undefined)}
          run={() =>
            del(pathOf(drop.name)).then(() => {
              void refresh("/calendars");
              toast(`Deleted ${drop.name}`, { undo: () => void put<Calendar>(pathOf(drop.name), bodyOf(drop)).then(() => refresh("/calendars"), failed) });
            })
          }
        >
          <p>You can delete it only if no job uses it.</p>
        </Confirm>
      )}
    </>
  );
}

function Edit({ c, onClose }: { c: Calendar | undefined; onClose: () => void }) {
  const [name, setName] = useState(c?.name ?? "");
  const [days, setDays] = useState(new Set(c?.weekdays ?? []));
  const [dates, setDates] = useState(c?.dates.join("\n") ?? "");
  const [yearly, setYearly] = useState(c?.yearly.join("\n") ?? "");
  const [windows, setWindows] = useState(c?.windows.map((w) => `${w.from} ${w.to}`).join("\n") ?? "");
  const [tz, setTz] = useState(c?.timezone ?? "");
  const refresh = useRefresh();
  const body: Body = {
    weekdays: week.map(([d]) => d).filter((d) => days.has(d)),
    dates: lines(dates),
    yearly: lines(yearly),
    windows: windows.split("\n").filter((l) => l.trim()).map((l) => ((p) => ({ from: p[0] ?? "", to: p[1] ?? "" }))(l.trim().split(/[\s/]+/))),
    timezone: tz.trim() || null,
  };
  const toggle = (d: string) => {
    const next = new Set(days);
    if (!next.delete(d)) next.add(d);
    setDays(next);
  };
  const flags = [body.dates.length && `--date ${body.dates.join(",")}`, body.yearly.length && `--yearly ${body.yearly.join(",")}`, body.weekdays.length && `--weekday ${body.weekdays.join(",")}`, body.windows.length && `--window ${body.windows.map((w) => w.from + "/" + w.to).join(",")}`, body.timezone && `--tz ${body.timezone}`].filter(Boolean).join(" ");
  const typed = stringify([name, body]);
  const first = useRef(typed);
  const wrong = (error: unknown, field: string) => wrongOf(error, field) ?? wrongOf(error, field + "[0]");
  return (
    <Ask
      title={c ? `Change ${c.name}` : "New calendar"}
      action="Save"
      broad
      ready={name.trim() !== "" && flags !== ""}
      cli={`carillon calendar set ${sh(name.trim() || "NAME")} ${flags}`}
      dirty={typed !== first.current}
      onClose={onClose}
      run={() =>
        put<Calendar>(pathOf(name.trim()), body).then((k) => {
          void refresh("/calendars", "/forecast");
          toast(c ? `Changed ${k.name}; jobs that use it are rescheduled` : `Made ${k.name}`, c ? { undo: () => void put<Calendar>(pathOf(c.name), bodyOf(c)).then(() => refresh("/calendars"), failed) } : {});
        })
      }
    >
      {(error) => (
        <>
          <div className="formgrid">
            {!c && <TextField label="Name" value={name} onChange={setName} mono autoFocus autoComplete="off" wrong={wrongOf(error, "name")} placeholder="holidays" />}
            <TextField label="Zone" value={tz} onChange={setTz} wrong={wrongOf(error, "timezone")} placeholder="each schedule's" hint="Such as Europe/Berlin." />
          </div>
          <fieldset className="stack tight">
            <legend>Weekdays</legend>
            <div className="admin-checks">
              {week.map(([d, w]) => (
                <Check key={d} label={w} checked={days.has(d)} onChange={() => toggle(d)} />
              ))}
            </div>
          </fieldset>
          <div className="formgrid">
            <TextArea label="Days" value={dates} onChange={setDates} rows={3} mono placeholder="2026-12-28" hint="One per line." wrong={wrong(error, "dates")} />
            <TextArea label="Days every year" value={yearly} onChange={setYearly} rows={3} mono placeholder="12-25" hint="Month and day." wrong={wrong(error, "yearly")} />
            <TextArea label="Windows of local time" value={windows} onChange={setWindows} rows={3} mono placeholder="2026-12-24T18:00 2026-12-27" hint="From and to, one per line." wrong={wrong(error, "windows")} />
          </div>
        </>
      )}
    </Ask>
  );
}
