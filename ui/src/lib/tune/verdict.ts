// What the figures at the end of a run mean, in words a person can act on.

/** The figures of a run that has ended; what was not measured is none. */
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
  /** The whole in a few words. */
  title: string;
  tone: Tone;
  /** What it learnt, from the held-out loss. */
  learning: string;
  /** What it forgot, from the perplexity of a general text. */
  memory: string;
  /** What to do about it; none where there is nothing. */
  advice: string | null;
}

type Learnt = "unknown" | "worse" | "nothing" | "little" | "well";
type Forgot = "unknown" | "nothing" | "little" | "some" | "much";

/** Nats a token: a smaller change than this is noise, and from the second on it shows in every answer. */
const NOISE = 0.02;
const SHOWS = 0.15;

/** Times the general perplexity may grow before it is called by the next word. */
const STEADY = 1.02;
const SOME = 1.1;
const MUCH = 1.35;

function learnt({ evalLossBefore: before, evalLoss: after }: Scores): Learnt {
  if (before === null || after === null) return "unknown";
  const gain = before - after;
  if (gain < -NOISE) return "worse";
  if (gain < NOISE) return "nothing";
  return gain < SHOWS ? "little" : "well";
}

function forgot({ generalBefore: before, generalAfter: after }: Scores): Forgot {
  if (before === null || after === null || before <= 0) return "unknown";
  const ratio = after / before;
  if (ratio <= STEADY) return "nothing";
  if (ratio <= SOME) return "little";
  return ratio <= MUCH ? "some" : "much";
}

const LEARNT: Record<Learnt, [title: string, tone: Tone]> = {
  unknown: ["It ran to its end", "plain"],
  worse: ["It got worse", "bad"],
  nothing: ["It learnt nothing that shows", "warn"],
  little: ["It learnt a little", "good"],
  well: ["It learnt", "good"],
};

const FORGOT: Record<Forgot, string> = {
  unknown: "",
  nothing: "forgot nothing",
  little: "forgot little",
  some: "forgot some of what it knew",
  much: "forgot much of what it knew",
};

/** The verdict over a run's scores. */
export function verdict(scores: Scores): Verdict {
  const gained = learnt(scores);
  const lost = forgot(scores);
  const [start, tone] = LEARNT[gained];
  const forgetful = lost === "some" || lost === "much";
  const joined = (forgetful && tone === "good") || (!forgetful && tone === "bad") ? "but" : "and";
  return {
    title: lost === "unknown" ? start : `${start}, ${joined} ${FORGOT[lost]}`,
    tone: lost === "much" ? "bad" : lost === "some" && tone === "good" ? "warn" : tone,
    learning: learning(gained, scores),
    memory: memory(lost, scores),
    advice: advice(gained, lost, scores),
  };
}

function learning(gained: Learnt, { evalLossBefore, evalLoss }: Scores): string {
  if (gained === "unknown") return "No examples were held out, so how well it learnt was not measured.";
  const gain = (evalLossBefore ?? 0) - (evalLoss ?? 0);
  if (gained === "nothing") return "On examples it has never seen, it does about as well as before.";
  if (gained === "worse") return "On examples it has never seen, it does worse than before.";
  const times = Math.exp(gain);
  const sure = times < 1.95 ? `${Math.round((times - 1) * 100)} % likelier` : `${times.toFixed(1)} times as likely`;
  return `On examples it has never seen, it finds the right next token ${sure} than before.`.replace("as likely than before", "as likely as before");
}

function memory(lost: Forgot, { generalBefore, generalAfter }: Scores): string {
  const worse = Math.round(((generalAfter ?? 0) / (generalBefore ?? 1) - 1) * 100);
  switch (lost) {
    case "unknown":
      return "What it forgot was not measured.";
    case "nothing":
      return "It reads a general text as well as before: no sign of forgetting.";
    case "little":
      return `A general text surprises it ${worse} % more than before: hardly any forgetting.`;
    case "some":
      return `A general text surprises it ${worse} % more than before: it has paid for what it learnt.`;
    case "much":
      return `A general text surprises it ${worse} % more than before: it will do badly at anything else.`;
  }
}

function advice(gained: Learnt, lost: Forgot, { bestStep, steps }: Scores): string | null {
  if (gained === "worse") return "Lower the learning rate, or look at the data again.";
  if (lost === "much" || lost === "some") return "Train less: fewer epochs, a lower learning rate or a smaller rank. Using it at a scale below 1 helps too.";
  if (gained === "nothing") return "Give it more examples, more epochs or a higher learning rate.";
  if (gained !== "unknown" && bestStep < steps * 0.7) return "It was best early and then began to learn by heart; the best is what was kept. More examples would help most.";
  return null;
}
