// The verdict on a finished run: what its scores mean and what to do.

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
  /** What it learned, by validation loss. */
  learning: string;
  /** What it forgot, by the perplexity of a general text. */
  memory: string;
  /** What to do; `null` if nothing. */
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

const IMPROVEMENT: Record<Improvement, [title: string, tone: Tone]> = {
  unknown: ["Training finished", "plain"],
  worse: ["Worse than before", "bad"],
  nothing: ["No measurable improvement", "warn"],
  little: ["Improved a little", "good"],
  well: ["Improved", "good"],
};

const FORGETTING: Record<Forgetting, string> = {
  unknown: "",
  nothing: "no forgetting",
  little: "little forgetting",
  some: "some forgetting",
  much: "much forgetting",
};

/** The verdict on a run's scores. */
export function verdict(scores: Scores): Verdict {
  const gained = improvement(scores);
  const lost = forgetting(scores);
  const [start, tone] = IMPROVEMENT[gained];
  return {
    title: lost === "unknown" ? start : `${start}, ${FORGETTING[lost]}`,
    tone: lost === "much" ? "bad" : lost === "some" && tone === "good" ? "warn" : tone,
    learning: learning(gained, scores),
    memory: memory(lost, scores),
    advice: advice(gained, lost, scores),
  };
}

function learning(gained: Improvement, { evalLossBefore, evalLoss }: Scores): string {
  if (gained === "unknown") return "There was no validation split, so the improvement was not measured.";
  const gain = (evalLossBefore ?? 0) - (evalLoss ?? 0);
  if (gained === "nothing") return "On the validation examples it does about as well as before.";
  if (gained === "worse") return "On the validation examples it does worse than before.";
  const times = Math.exp(gain);
  const likelihood = times < 1.95 ? `${Math.round((times - 1) * 100)} % more likely` : `${times.toFixed(1)} times as likely`;
  return `On the validation examples it predicts the right next token ${likelihood} than before.`.replace("as likely than before", "as likely as before");
}

function memory(lost: Forgetting, { generalBefore, generalAfter }: Scores): string {
  const worse = Math.round(((generalAfter ?? 0) / (generalBefore ?? 1) - 1) * 100);
  switch (lost) {
    case "unknown":
      return "Forgetting was not measured.";
    case "nothing":
      return "The perplexity of a general text stayed about the same: no sign of forgetting.";
    case "little":
      return `The perplexity of a general text rose by ${worse} %: hardly any forgetting.`;
    case "some":
      return `The perplexity of a general text rose by ${worse} %: it forgot some of what it knew.`;
    case "much":
      return `The perplexity of a general text rose by ${worse} %: it will do badly at other tasks.`;
  }
}

function advice(gained: Improvement, lost: Forgetting, { bestStep, steps }: Scores): string | null {
  if (gained === "worse") return "Lower the learning rate, or check the data.";
  if (lost === "much" || lost === "some") return "Train less: fewer epochs, a lower learning rate or a smaller rank. An adapter scale below 1 helps too.";
  if (gained === "nothing") return "Use more examples, more epochs or a higher learning rate.";
  if (gained !== "unknown" && bestStep < steps * 0.7) return "It overfitted after an early best checkpoint, which was saved. More examples would help most.";
  return null;
}
