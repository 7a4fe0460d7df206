// PauseDialog: nothing of a queue starts until it is resumed. It can be undone for ten seconds.

import { useState } from "react";
import { post, serverNow, useRefresh, type PausedQueue } from "../../api";
import { failed, SelectField, TextField, toast, wrongOf } from "../../ui";
import { Ask, sh } from "../../ui/ask";

const spans: [string, string][] = [
  ["", "someone resumes it"],
  ["3600000", "in an hour"],
  ["14400000", "in 4 hours"],
  ["86400000", "tomorrow at this time"],
  ["at", "at a time…"],
];

const touched = ["/queues", "/limits", "/admin/queue/status", "/overview"];
const path = (queue: string, verb: string) => `/queues/${encodeURIComponent(queue)}/${verb}`;
const named = (queues: string[]) => (queues.length === 1 ? queues[0]! : `${queues.length} queues`);

/** useResume resumes queues at once; undo pauses them as they were. */
export function useResume(): (queues: { queue: string; pause: PausedQueue | null }[]) => void {
  const refresh = useRefresh();
  return (queues) =>
    void Promise.all(queues.map((q) => post(path(q.queue, "resume")))).then(
      () => {
        void refresh(...touched);
        const undo = () =>
          void Promise.all(queues.map((q) => post(path(q.queue, "pause"), { ...(q.pause?.reason ? { reason: q.pause.reason } : {}), ...(q.pause?.until ? { until: q.pause.until } : {}) }))).then(() => refresh(...touched), failed);
        toast(`Resumed ${named(queues.map((q) => q.queue))}`, { undo });
      },
      (e: unknown) => {
        void refresh(...touched);
        failed(e);
      },
    );
}

export function PauseDialog({ queues, onClose }: { queues: string[]; onClose: () => void }) {
  const [reason, setReason] = useState("");
  const [span, setSpan] = useState("");
  const [at, setAt] = useState("");
  const refresh = useRefresh();
  const until = span === "at" ? (Number.isNaN(Date.parse(at + "Z")) ? undefined : at + ":00Z") : span ? new Date(serverNow() + Number(span)).toISOString() : null;
  const run = () =>
    Promise.all(queues.map((q) => post(path(q, "pause"), { ...(reason ? { reason } : {}), ...(until ? { until } : {}) }))).then(() => {
      void refresh(...touched);
      toast(`Paused ${named(queues)}`, { undo: () => void Promise.all(queues.map((q) => post(path(q, "resume")))).then(() => refresh(...touched), failed) });
    });
  const when = span === "at" ? (until ? ` --until ${sh(until)}` : "") : span ? ` --until +${Number(span) / 3_600_000}h` : "";
  return (
    <Ask
      title={`Pause ${named(queues)}`}
      action="Pause"
      ready={until !== undefined}
      run={run}
      onClose={onClose}
      cli={`carillon queue pause ${queues.map(sh).join(" ")}${reason ? ` --reason ${sh(reason)}` : ""}${when}`}
    >
      {(error) => (
        <>
          <p className="dim">Nothing in it starts. Running executions continue, and new ones wait.</p>
          <TextField label="Reason" value={reason} onChange={setReason} maxLength={1000} autoFocus placeholder="Maintenance" hint="Shown to everyone who asks why something waits." wrong={wrongOf(error, "reason")} />
          <SelectField label="Resumes" value={span} onChange={setSpan} options={spans} />
          {span === "at" && <TextField label="At (UTC)" type="datetime-local" value={at} onChange={setAt} wrong={wrongOf(error, "until")} />}
        </>
      )}
    </Ask>
  );
}
