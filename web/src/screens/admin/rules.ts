// Changing notification rules without undoing what others change: each is read again just before it is written.

import { get, isProblem, Problem, put, stringify } from "../../api";
import { counted } from "../../ui";
import { sh } from "../../ui/ask";
import { hoursOf } from "./parts";
import type { Rule } from "./types";

export type RuleBody = Omit<Rule, "name" | "blocked" | "created_at" | "updated_at">;

export const pathOf = (name: string) => "/notification-rules/" + encodeURIComponent(name);
export const bodyOf = ({ events, jobs, tags, callback_url, late_after_seconds, silence_until }: Rule): RuleBody => ({ events, jobs, tags, callback_url, late_after_seconds, silence_until });

/** flagsOf is a rule as flags of the command line. */
export const flagsOf = (b: RuleBody) =>
  [`--event ${b.events.join(",") || "EVENT"}`, `--to ${sh(b.callback_url || "URL")}`, ...b.tags.map((t) => `--tag ${sh(t)}`), ...b.jobs.map((j) => `--job ${sh(j)}`), ...(b.events.includes("late") ? [`--late-after ${hoursOf(b.late_after_seconds)}`] : [])].join(" ");

export type Silenced = { name: string; back: () => Promise<unknown> };

/** silence has a rule tell nothing until then, or again where that is null, and changes nothing else of it. until may depend on what it was. */
export async function silence(name: string, until: (before: string | null) => string | null): Promise<Silenced> {
  const before = await get<Rule>(pathOf(name));
  const after = await put<Rule>(pathOf(name), { ...bodyOf(before), silence_until: until(before.silence_until) });
  const back = async () => {
    const now = await get<Rule>(pathOf(name));
    if (now.silence_until !== after.silence_until) throw new Problem(409, "changed", "It was changed", `Someone else has silenced ${name} meanwhile, or turned it on again.`);
    return put<Rule>(pathOf(name), { ...bodyOf(now), silence_until: before.silence_until });
  };
  return { name, back };
}

const shape = (r: Rule) => stringify({ ...bodyOf(r), silence_until: null });

/** change writes an edited rule, unless someone else has edited it since it was read. That it was silenced meanwhile stays. */
export async function change(was: Rule, body: RuleBody): Promise<Rule> {
  const now = await get<Rule>(pathOf(was.name));
  if (shape(now) !== shape(was)) throw new Problem(412, "changed", `${was.name} was changed`, "It has changed since you opened it.");
  return put<Rule>(pathOf(was.name), { ...body, silence_until: now.silence_until });
}

/**
 * restore makes a rule again that was deleted, and says so. Jobs that were deleted, too, no rule takes up: it comes back without them,
 * and not at all where none would be left, for then it would tell of every job.
 */
export async function restore(r: Rule): Promise<string> {
  const { notification_rules: all } = await get<{ notification_rules: Rule[] }>("/notification-rules", { limit: 100 });
  if (all.some((x) => x.name === r.name)) throw new Problem(409, "changed", "The name is taken", `Someone else has created a rule named ${r.name} meanwhile.`);
  try {
    await put<Rule>(pathOf(r.name), bodyOf(r));
    return `${r.name} is back`;
  } catch (e) {
    const gone = isProblem(e, 422) ? e.errors.flatMap((f) => /^jobs\[(\d+)\]$/.exec(f.field)?.[1] ?? []).map(Number) : [];
    if (!isProblem(e) || gone.length === 0 || gone.length < e.errors.length) throw e;
    const jobs = r.jobs.filter((_, i) => !gone.includes(i));
    if (jobs.length === 0) throw new Problem(409, "gone", "Its jobs are gone", `${r.name} applied only to jobs that are deleted too. Without them it would apply to every job, so it stays deleted.`);
    await put<Rule>(pathOf(r.name), { ...bodyOf(r), jobs });
    return `${r.name} is back, without ${counted(gone.length, "job")} that ${gone.length === 1 ? "is" : "are"} deleted too`;
  }
}
