// The settings of a conversation that are numbers: label, help and accepted values of each.

import type { ConversationSettings, Model, SamplingOverrides } from "../../host";

/** The settings that are a number of their own. */
type Alone = "maxTokens";

export interface Knob {
  key: keyof SamplingOverrides | Alone;
  label: string;
  hint: string;
  least: number;
  most: number;
  step: number;
  whole?: boolean;
  /** Placeholder of a setting without a number as its default. */
  empty?: string;
}

export const temperature: Knob = { key: "temperature", label: "Temperature", hint: "Randomness. At 0 the model always takes the most likely token; higher values vary more.", least: 0, most: 100, step: 0.1 };

export const limit: Knob = { key: "maxTokens", label: "Length limit", hint: "Most tokens of an answer. Without a limit it ends where the model ends it, or where the context is full.", least: 1, most: 10_000_000, step: 1, whole: true, empty: "No limit" };

export interface KnobGroup {
  title: string;
  knobs: Knob[];
}

export const advanced: KnobGroup[] = [
  {
    title: "Sampling",
    knobs: [
      { key: "topK", label: "Top-k", hint: "Keeps the k most likely tokens. 0 turns it off.", least: 0, most: 1_000_000, step: 1, whole: true },
      { key: "topP", label: "Top-p", hint: "Keeps the most likely tokens whose probabilities add up to p. 1 turns it off.", least: 0, most: 1, step: 0.05 },
      { key: "minP", label: "Min-p", hint: "Drops tokens less likely than this fraction of the most likely one. 0 turns it off.", least: 0, most: 1, step: 0.01 },
      { key: "seed", label: "Seed", hint: "The same seed gives the same answer on a CPU. Empty draws a new one for each answer.", least: 0, most: Number.MAX_SAFE_INTEGER, step: 1, whole: true, empty: "Random" },
    ],
  },
  {
    title: "Penalties",
    knobs: [
      { key: "repetitionPenalty", label: "Repetition penalty", hint: "Divides the scores of tokens that occurred. 1 turns it off.", least: 0.01, most: 100, step: 0.05 },
      { key: "presencePenalty", label: "Presence penalty", hint: "Lowers the score of every token that occurred, once. 0 turns it off.", least: -100, most: 100, step: 0.1 },
      { key: "frequencyPenalty", label: "Frequency penalty", hint: "Lowers the score of a token for each time it occurred. 0 turns it off.", least: -100, most: 100, step: 0.1 },
      { key: "repeatLastN", label: "Penalty window", hint: "Tokens back in which the penalties look.", least: 0, most: 1_000_000, step: 1, whole: true },
    ],
  },
];

/** The value that is set. `null` means the default. */
export function valueOf(settings: ConversationSettings, { key }: Knob): number | null {
  return key === "maxTokens" ? settings.maxTokens : settings.sampling[key];
}

/** The settings with another value. */
export function withValue(settings: ConversationSettings, { key }: Knob, value: number | null): ConversationSettings {
  if (key === "maxTokens") return { ...settings, maxTokens: value };
  return { ...settings, sampling: { ...settings.sampling, [key]: value } };
}

/** The model's default. `null` means that it has none. */
export function defaultOf(model: Model | null, { key }: Knob): number | null {
  return key === "maxTokens" || !model ? null : model.sampling[key];
}

/** A number as it is typed. */
export function shown(value: number | null): string {
  return value === null ? "" : String(Number(value.toPrecision(7)));
}

/** Parses what was typed; `problem` says why it is invalid. */
export function parse(knob: Knob, text: string): { value: number | null } | { problem: string } {
  const typed = text.trim().replace(",", ".");
  if (typed === "") return { value: null };
  const value = Number(typed);
  if (!Number.isFinite(value)) return { problem: "Not a number." };
  if (knob.whole && !Number.isInteger(value)) return { problem: "Enter a whole number." };
  if (value < knob.least || value > knob.most) return { problem: `Must be between ${knob.least} and ${knob.most}.` };
  return { value };
}

/** Stop strings, one a line; `\n` is a line break. */
export function parseStops(text: string): string[] | null {
  const lines = text.split("\n").filter((line) => line !== "");
  const stops = lines.map((line) => line.replace(/\\(n|t|\\)/g, (_, c: string) => (c === "n" ? "\n" : c === "t" ? "\t" : "\\")));
  return stops.length === 0 ? null : stops;
}

/** Stop strings as they are typed. */
export function shownStops(stops: readonly string[] | null): string {
  return (stops ?? []).map((stop) => stop.replace(/\\/g, "\\\\").replace(/\n/g, "\\n").replace(/\t/g, "\\t")).join("\n");
}
