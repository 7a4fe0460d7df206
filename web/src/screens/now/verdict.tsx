// The verdict of the server's overview. Now and Admin both show this one and judge nothing themselves.

import type { Overview } from "../../api";
import { State } from "../../ui";

type Health = Overview["health"];

const words: Record<Health, [state: string, word: string]> = { ok: ["ACTIVE", "Healthy"], warning: ["LATE", "Needs attention"], critical: ["FAILED", "Critical"] };

export const stateOf = (h: Health) => words[h][0];

export function Verdict({ of }: { of: Health }) {
  return <State of={words[of][0]} word={words[of][1]} />;
}

/** amiss is what the overview finds wrong with one of these, the worst first. */
export function amiss(o: Overview | undefined, ...about: string[]) {
  const found = (o?.findings ?? []).filter((f) => about.includes(f.about) && f.health !== "ok");
  return found.find((f) => f.health === "critical") ?? found[0];
}
