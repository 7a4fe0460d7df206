// LimitDialog sets how many executions of a queue, or of the tenant, run at once or start in a time.

import { useState } from "react";
import { put, useGet, useRefresh, type Limit, type Limits } from "../../api";
import { Button, failed, TextField, toast, wrongOf } from "../../ui";
import { Ask, sh } from "../../ui/ask";
import { limitWords } from "./data";

const bodyOf = (l: Limit | undefined) => ({ max_concurrent: l?.max_concurrent ?? null, rate_limit: l?.rate_limit ?? null });
const limits = (l: Limit | undefined) => l !== undefined && (l.max_concurrent !== null || l.rate_limit !== null);

/** LimitDialog: queue null is the whole tenant, "" asks for the queue's name first. */
export function LimitDialog({ queue, onClose }: { queue: string | null; onClose: () => void }) {
  const known = useGet<Limits>("/limits", { limit: 1000 }, { fresh: true });
  const [name, setName] = useState(queue ?? "");
  const of = queue === null ? null : name.trim();
  const limit = known.data?.limits.find((l) => l.queue === of);
  // What is typed is about the queue that was meant; until then the fields say what its limit is.
  const [typed, setTyped] = useState<{ most?: string; rate?: string; per?: string; burst?: string }>({});
  const was = { most: limit?.max_concurrent?.toString() ?? "", rate: limit?.rate_limit?.count.toString() ?? "", per: limit?.rate_limit?.per ?? "1s", burst: limit?.rate_limit?.burst?.toString() ?? "" };
  const { most, rate, per, burst } = { ...was, ...typed };
  const type = (k: "most" | "rate" | "per" | "burst") => (v: string) => setTyped({ ...typed, [k]: v });
  const refresh = useRefresh();
  const path = of === null ? "/limits/tenant" : "/limits/queues/" + encodeURIComponent(of);
  const what = of === null ? "the tenant" : of || "a queue";
  const number = (s: string) => (s.trim() === "" ? null : Number(s));
  const body = { max_concurrent: number(most), rate_limit: rate.trim() === "" ? null : { count: Number(rate), per: per.trim(), ...(burst.trim() === "" ? {} : { burst: Number(burst) }) } };
  const bare = most.trim() === "" && rate.trim() === "";
  const set = (b: unknown, said: string) =>
    put<Limit>(path, b).then(() => {
      void refresh("/limits", "/queues", "/admin/queue/status");
      toast(said, { undo: () => void put<Limit>(path, bodyOf(limit)).then(() => refresh("/limits", "/queues"), failed) });
    });
  const flags = [most.trim() && `--max-concurrent ${sh(most.trim())}`, rate.trim() && `--rate ${sh(`${rate.trim()}/${per.trim()}`)}`, rate.trim() && burst.trim() && `--burst ${sh(burst.trim())}`].filter(Boolean).join(" ") || "--none";
  return (
    <Ask
      title={queue === null ? "Limit the tenant" : queue === "" ? "Limit a queue" : `Limit ${queue}`}
      action={bare ? "Remove the limit" : "Set the limit"}
      ready={known.isSuccess && of !== "" && (!bare || limits(limit))}
      cli={of === null ? `carillon tenant limit ${flags}` : `carillon queue limit ${sh(of || "QUEUE")} ${flags}`}
      run={() => set(body, bare ? `${what} has no limit now` : `Limited ${what}`)}
      onClose={onClose}
      other={
        limits(limit) && (
          <Button
            className="danger"
            onClick={() =>
              void set({ max_concurrent: null, rate_limit: null }, `${what} has no limit now`).then(onClose, failed)
            }
          >
            No limit
          </Button>
        )
      }
    >
      {(error) => (
        <>
          <p className="dim">Executions over the limit wait; nothing is refused. Empty means no limit.</p>
          {queue === "" && (
            <TextField
              label="Queue"
              value={name}
              onChange={setName}
              mono
              autoComplete="off"
              spellCheck={false}
              wrong={wrongOf(error, "queue")}
              hint={limits(limit) ? `It has a limit: ${limitWords(limit)}. Your new limit replaces it.` : undefined}
            />
          )}
          <div className="formgrid">
            <TextField label="At once, at most" value={most} onChange={type("most")} inputMode="numeric" wrong={wrongOf(error, "max_concurrent")} placeholder="any number" />
            <TextField label="Start, at most" value={rate} onChange={type("rate")} inputMode="numeric" wrong={wrongOf(error, "rate_limit.count")} placeholder="any number" />
            <TextField label="in" value={per} onChange={type("per")} wrong={wrongOf(error, "rate_limit.per")} hint="A duration, such as 1s or 5m." disabled={rate.trim() === ""} />
            <TextField label="of these together" value={burst} onChange={type("burst")} inputMode="numeric" wrong={wrongOf(error, "rate_limit.burst")} placeholder="a tenth of a second's" hint="How many may start at once after a quiet period." disabled={rate.trim() === ""} />
          </div>
        </>
      )}
    </Ask>
  );
}
