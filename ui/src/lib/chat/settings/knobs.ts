// The settings of a conversation: label, help and accepted values of each, in groups.

import type { ConversationSettings, LogitBias, SamplingOverrides, SamplingParams } from "../../host";
import { same } from "../../text/same";

type NumberOf<T> = { [K in keyof T]-?: T[K] extends number | null ? K : never }[keyof T];

interface Named {
  label: string;
  hint: string;
}

export interface NumberKnob extends Named {
  kind: "number";
  key: NumberOf<SamplingOverrides> | "maxTokens";
  least: number;
  most: number;
  whole?: boolean;
  /** Placeholder of a setting without a number as its default. */
  empty?: string;
}

export interface SwitchKnob extends Named {
  kind: "switch";
  key: "mirostat";
}

export interface TextsKnob extends Named {
  kind: "texts";
  key: "stop" | "dryBreakers" | "bannedStrings";
  /** One of them, as in “Add a stop string”. */
  one: string;
  /** Most texts. */
  most: number;
  /** Most bytes of a text. */
  bytes: number;
}

export interface BiasesKnob extends Named {
  kind: "biases";
  key: "logitBias";
  most: number;
  bytes: number;
}

export interface SchemaKnob extends Named {
  kind: "schema";
  key: "jsonSchema";
}

export type Knob = NumberKnob | SwitchKnob | TextsKnob | BiasesKnob | SchemaKnob;

/** A value; `null` means the default. */
export type Value = number | boolean | string | readonly string[] | readonly LogitBias[] | null;

const number = (key: NumberKnob["key"], label: string, hint: string, least: number, most: number, more: Partial<NumberKnob> = {}): NumberKnob => ({ kind: "number", key, label, hint, least, most, ...more });

const WHOLE = { whole: true };

export const temperature = number("temperature", "Temperature", "Randomness. At 0 the model always takes the most likely token; higher values vary more.", 0, 100);

export const limit = number("maxTokens", "Length limit", "Most tokens of an answer. Without a limit it ends where the model ends it, or where the context is full.", 1, 10_000_000, { whole: true, empty: "No limit" });

export type GroupId = "length" | "filters" | "penalties" | "dry" | "xtc" | "mirostat" | "dynatemp" | "bans" | "schema" | "other";

export interface KnobGroup {
  id: GroupId;
  title: string;
  knobs: Knob[];
}

export const groups: readonly KnobGroup[] = [
  {
    id: "length",
    title: "Length and stop",
    knobs: [limit, { kind: "texts", key: "stop", label: "Stop strings", hint: "An answer ends before any of these. \\n is a line break.", one: "stop string", most: 64, bytes: 1024 }],
  },
  {
    id: "filters",
    title: "Filters",
    knobs: [
      number("topK", "Top-k", "Keeps the k most likely tokens. 0 turns it off.", 0, 1_000_000, WHOLE),
      number("topP", "Top-p", "Keeps the most likely tokens whose probabilities add up to p. 1 turns it off.", 0, 1),
      number("minP", "Min-p", "Drops tokens less likely than this fraction of the most likely one. 0 turns it off.", 0, 1),
      number("typicalP", "Typical-p", "Keeps the tokens whose surprise is closest to the expected one, until their probabilities add up to p. 1 turns it off.", 0, 1),
      number("topNSigma", "Top-nσ", "Keeps tokens within this many standard deviations of the highest logit. 0 or less turns it off.", -1, 100),
    ],
  },
  {
    id: "penalties",
    title: "Penalties",
    knobs: [
      number("repetitionPenalty", "Repetition penalty", "Divides the logits of tokens that occurred. 1 turns it off.", 0.01, 100),
      number("presencePenalty", "Presence penalty", "Lowers the logit of every token that occurred, once. 0 turns it off.", -100, 100),
      number("frequencyPenalty", "Frequency penalty", "Lowers the logit of a token for each time it occurred. 0 turns it off.", -100, 100),
      number("repeatLastN", "Penalty window", "Number of recent tokens that the penalties look at. 0 turns all three off.", 0, 1_000_000, WHOLE),
    ],
  },
  {
    id: "dry",
    title: "DRY",
    knobs: [
      number("dryMultiplier", "Multiplier", "Scale of the penalty for a token that would continue a repetition. 0 turns DRY off; 0.8 is usual.", 0, 100),
      number("dryBase", "Base", "Growth of the penalty with each further repeated token.", 1, 100),
      number("dryAllowedLength", "Allowed length", "Length in tokens from which a repetition is penalised.", 0, 1_000_000, WHOLE),
      number("dryLastN", "Window", "Number of recent tokens that are searched for repetitions. 0 turns DRY off.", 0, 1_000_000, WHOLE),
      { kind: "texts", key: "dryBreakers", label: "Sequence breakers", hint: "A repetition ends at each of these texts. \\n is a line break.", one: "sequence breaker", most: 256, bytes: 256 },
    ],
  },
  {
    id: "xtc",
    title: "XTC",
    knobs: [
      number("xtcProbability", "Probability", "The chance, per token, that the most likely tokens are excluded. 0 turns XTC off; 0.5 is usual.", 0, 1),
      number("xtcThreshold", "Threshold", "Tokens at least this likely are excluded, but the least likely of them. More than 0.5 turns XTC off.", 0, 1),
    ],
  },
  {
    id: "mirostat",
    title: "Mirostat",
    knobs: [
      { kind: "switch", key: "mirostat", label: "Mirostat 2", hint: "Keeps the surprise of the tokens near a target, in place of the filters, XTC and dynamic temperature." },
      number("mirostatTau", "Target (τ)", "The target surprise, in bits. Lower values are more predictable.", 0, 100),
      number("mirostatEta", "Learning rate (η)", "How fast it approaches the target.", 0, 1),
    ],
  },
  {
    id: "dynatemp",
    title: "Dynamic temperature",
    knobs: [
      number("dynatempRange", "Range", "The temperature varies by this much up and down: higher where the model is unsure. 0 turns it off.", 0, 100),
      number("dynatempExponent", "Exponent", "Exponent of the normalised entropy that the temperature follows.", 0, 100),
    ],
  },
  {
    id: "bans",
    title: "Bias and bans",
    knobs: [
      { kind: "biases", key: "logitBias", label: "Logit bias", hint: "Added to the logits of a token, from -1000 to 1000. “ban” excludes it. A text that is no single token biases each of its tokens.", most: 256, bytes: 256 },
      { kind: "texts", key: "bannedStrings", label: "Banned strings", hint: "Texts that an answer never contains. Case matters. \\n is a line break.", one: "banned string", most: 256, bytes: 256 },
    ],
  },
  {
    id: "schema",
    title: "JSON schema",
    knobs: [{ kind: "schema", key: "jsonSchema", label: "Schema of answers", hint: "Each answer is JSON that follows this schema. Say in your message or the system prompt what its fields mean. Empty allows any text." }],
  },
  {
    id: "other",
    title: "Seed and model",
    knobs: [number("seed", "Seed", "The same seed gives the same answer on a CPU. Empty draws a new one for each answer.", 0, Number.MAX_SAFE_INTEGER, { whole: true, empty: "Random" })],
  },
];

/** Whether a setting is no sampling parameter. */
const isOfAnswer = (key: Knob["key"]): key is "maxTokens" | "stop" | "jsonSchema" => key === "maxTokens" || key === "stop" || key === "jsonSchema";

/** The value that is set. `null` means the default. */
export function valueOf<K extends Knob>(settings: ConversationSettings, { key }: K): Value {
  return isOfAnswer(key) ? settings[key] : settings.sampling[key];
}

/** The settings with another value. */
export function withValue(settings: ConversationSettings, { key }: Knob, value: Value): ConversationSettings {
  if (isOfAnswer(key)) return { ...settings, [key]: value };
  return { ...settings, sampling: { ...settings.sampling, [key]: value } };
}

/** The default. `null` means that there is none. */
export function defaultOf(defaults: SamplingParams | null, { key }: Knob): Value {
  if (key === "stop") return [];
  return isOfAnswer(key) || !defaults ? null : defaults[key];
}

/** Whether a value is set that is not the default. */
export function differs(settings: ConversationSettings, defaults: SamplingParams | null, knob: Knob): boolean {
  const value = valueOf(settings, knob);
  return value !== null && !same(value, defaultOf(defaults, knob));
}

/** A number as it is typed. */
export function shown(value: number | null): string {
  return value === null ? "" : String(Number.isInteger(value) ? value : Number(value.toPrecision(7)));
}

/** Parses what was typed; `problem` says why it is invalid. */
export function parse(knob: Pick<NumberKnob, "least" | "most" | "whole">, text: string): { value: number | null } | { problem: string } {
  const typed = text.trim().replace(",", ".");
  if (typed === "") return { value: null };
  const value = Number(typed);
  if (!Number.isFinite(value)) return { problem: "Not a number." };
  if (knob.whole && !Number.isInteger(value)) return { problem: "Enter a whole number." };
  if (value < knob.least || value > knob.most) return { problem: `Must be between ${knob.least} and ${knob.most}.` };
  return { value };
}

/** Why a list cannot have this text. `null` means that it can. */
export function textProblem({ key, bytes }: { key: Knob["key"]; bytes: number }, text: string): string | null {
  if (new TextEncoder().encode(text).length > bytes) return `Must have at most ${bytes} bytes.`;
  if (key === "bannedStrings" && text.includes("\ufffd")) return "Cannot have the replacement character.";
  return null;
}
