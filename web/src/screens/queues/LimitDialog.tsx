// LimitDialog sets how many executions of a queue, or of the tenant, run at once or start in a time.

import { useState } from "react";
import { put, useRefresh, type Limit } from "../../api";
import { Button, failed, TextField, toast, wrongOf } from "../../ui";
import { Ask, sh } from "../../ui/ask";

const bodyOf = (l: Limit | undefined) => ({ max_concurrent: l?.max_concurrent ?? null, rate_limit: l?.rate_limit ?? null });

/** LimitDialog: queue null is the whole tenant, "" asks for the queue's name first. */
export function LimitDialog({ queue, limit, onClose }: { queue: string | null; limit: Limit | undefined; onClose: () => void }) {
  const [name, setName] = useState(queue ?? "");
  const [most, setMost] = useState(limit?.max_concurrent?.toString() ?? "");
  const [rate, setRate] = useState(limit?.rate_limit?.count.toString() ?? "");
  const [per, setPer] = useState(limit?.rate_limit?.per ?? "1s");
  const refresh = useRefresh();
  const path = queue === null ? "/limits/tenant" : "/limits/queues/" + encodeURIComponent(name.trim());
  const what = queue === null ? "the tenant" : name.trim() || "a queue";
  const number = (s: string) => (s.trim() === "" ? null : Number(s));
  const body = { max_concurrent: number(most), rate_limit: rate.trim() === "" ? null : { count: Number(rate), per: per.trim() } };
  const bare = most.trim() === "" && rate.trim() === "";
  const set = (b: unknown, said: string) =>
    put<Limit>(path, b).then(() => {
      void refresh("/limits", "/admin/queue/status");
      toast(said, { undo: () => void put<Limit>(path, bodyOf(limit)).then(() => refresh("/limits"), failed) });
    });
  const flags = [most.trim() && `--max-concurrent ${most.trim()}`, rate.trim() && `--rate ${rate.trim()}/${per.trim()}`].filter(Boolean).join(" ") || "--none";
  return (
    <Ask
      title={queue === null ? "Limit the tenant" : queue === "" ? "Limit a queue" : `Limit ${queue}`}
      action={bare ? "Take the limit off" : "Set the limit"}
      ready={(queue === null || name.trim() !== "") && (!bare || limit !== undefined)}
      cli={queue === null ? `carillon tenant limit ${flags}` : `carillon queue limit ${sh(name.trim() || "QUEUE")} ${flags}`}
      run={() => set(body, bare ? `${what} has no limit any more` : `Limited ${what}`)}
      onClose={onClose}
      other={
        limit && (
          <Button
            className="danger"
            onClick={() =>
              void set({ max_concurrent: null, rate_limit: null }, `${what} has no limit any more`).then(onClose, failed)
            }
          >
            No limit
          </Button>
        )
      }
    >
      {(error) => (
        <>
          <p className="dim">What is over the limit waits; nothing is refused. Empty is any number.</p>
          {queue === "" && <TextField label="Queue" value={name} onChange={setName} mono autoComplete="off" spellCheck={false} wrong={wrongOf(error, "queue")} />}
          <div className="formgrid">
            <TextField label="At once, at most" value={most} onChange={setMost} inputMode="numeric" wrong={wrongOf(error, "max_concurrent")} placeholder="any number" />
            <TextField label="Start, at most" value={rate} onChange={setRate} inputMode="numeric" wrong={wrongOf(error, "rate_limit.count")} placeholder="any number" />
            <TextField label="in" value={per} onChange={setPer} wrong={wrongOf(error, "rate_limit.per")} hint="A duration, such as 1s or 5m." disabled={rate.trim() === ""} />
          </div>
        </>
      )}
    </Ask>
  );
}
