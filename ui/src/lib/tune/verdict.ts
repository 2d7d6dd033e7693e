// The verdict on a finished run: the meaning of its scores, and advice. Also the verdict on an
// export.

import { m } from "$messages";
import type { Verification } from "../host";
import { language } from "../text/language.svelte";
import { percentOf } from "../text/format";
import { sentence } from "../text/sentence";

/** The result of an export's verification. `result` may be empty. */
export function verificationText({ passed, learned, result }: Verification): {
  tone: "good" | "plain" | "bad";
  result: string;
  why: string;
} {
  const why = sentence("verification", result);
  if (!passed) return { tone: "bad", result: m.tune_export_failed(), why };
  if (!learned) return { tone: "plain", result: "", why: m.tune_export_nothing() };
  return { tone: "good", result: m.tune_export_passed(), why };
}

/** The scores of a finished run; `null` if not measured. */
export interface Scores {
  bestStep: number;
  steps: number;
  evalLossBefore: number | null;
  evalLoss: number | null;
  generalBefore: number | null;
  generalAfter: number | null;
}

export type Tone = "good" | "warn" | "bad" | "plain";

export interface Verdict {
  /** The verdict in a few words. */
  title: string;
  tone: Tone;
  /** The result of learning, by validation loss. */
  learning: string;
  /** The result of forgetting, by the perplexity of a general text. */
  memory: string;
  /** The advice; `null` if there is none. */
  advice: string | null;
}

type Improvement = "unknown" | "worse" | "nothing" | "little" | "well";
type Forgetting = "unknown" | "nothing" | "little" | "some" | "much";

/** Nats per token: a change below NOISE is noise; one above CLEAR shows in every answer. */
const NOISE = 0.02;
const CLEAR = 0.15;

/** Upper bounds of the growth of the general perplexity, per level of forgetting. */
const STEADY = 1.02;
const SOME = 1.1;
const MUCH = 1.35;

function improvement({ evalLossBefore: before, evalLoss: after }: Scores): Improvement {
  if (before === null || after === null) return "unknown";
  const gain = before - after;
  if (gain < -NOISE) return "worse";
  if (gain < NOISE) return "nothing";
  return gain < CLEAR ? "little" : "well";
}

function forgetting({ generalBefore: before, generalAfter: after }: Scores): Forgetting {
  if (before === null || after === null || before <= 0) return "unknown";
  const ratio = after / before;
  if (ratio <= STEADY) return "nothing";
  if (ratio <= SOME) return "little";
  return ratio <= MUCH ? "some" : "much";
}

const IMPROVEMENT: Record<Improvement, [title: () => string, tone: Tone]> = {
  unknown: [m.tune_verdict_unknown, "plain"],
  worse: [m.tune_verdict_worse, "bad"],
  nothing: [m.tune_verdict_nothing, "warn"],
  little: [m.tune_verdict_little, "good"],
  well: [m.tune_verdict_well, "good"],
};

const FORGETTING: Record<Exclude<Forgetting, "unknown">, () => string> = {
  nothing: m.tune_forgot_nothing,
  little: m.tune_forgot_little,
  some: m.tune_forgot_some,
  much: m.tune_forgot_much,
};

/** The verdict on a run's scores. */
export function verdict(scores: Scores): Verdict {
  const gained = improvement(scores);
  const lost = forgetting(scores);
  const [start, tone] = IMPROVEMENT[gained];
  return {
    title: lost === "unknown" ? start() : m.tune_verdict({ gained: start(), lost: FORGETTING[lost]() }),
    tone: lost === "much" ? "bad" : lost === "some" && tone === "good" ? "warn" : tone,
    learning: learning(gained, scores),
    memory: memory(lost, scores),
    advice: advice(gained, lost, scores),
  };
}

function learning(gained: Improvement, { evalLossBefore, evalLoss }: Scores): string {
  if (gained === "unknown") return m.tune_learned_unknown();
  if (gained === "nothing") return m.tune_learned_nothing();
  if (gained === "worse") return m.tune_learned_worse();
  const times = Math.exp((evalLossBefore ?? 0) - (evalLoss ?? 0));
  if (times < 1.95) return m.tune_learned_percent({ percent: percentOf((times - 1) * 100) });
  return m.tune_learned_times({
    times: times.toLocaleString(language.intl, { minimumFractionDigits: 1, maximumFractionDigits: 1 }),
  });
}

function memory(lost: Forgetting, { generalBefore, generalAfter }: Scores): string {
  const percent = percentOf(((generalAfter ?? 0) / (generalBefore ?? 1) - 1) * 100);
  switch (lost) {
    case "unknown":
      return m.tune_memory_unknown();
    case "nothing":
      return m.tune_memory_nothing();
    case "little":
      return m.tune_memory_little({ percent });
    case "some":
      return m.tune_memory_some({ percent });
    case "much":
      return m.tune_memory_much({ percent });
  }
}

function advice(gained: Improvement, lost: Forgetting, { bestStep, steps }: Scores): string | null {
  if (gained === "worse") return m.tune_advice_worse();
  if (lost === "much" || lost === "some") return m.tune_advice_forgot();
  if (gained === "nothing") return m.tune_advice_nothing();
  if (gained !== "unknown" && bestStep < steps * 0.7) return m.tune_advice_overfitted();
  return null;
}
