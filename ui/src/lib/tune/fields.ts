// The settings of a run as the Advanced drawer shows them: what each is called, what it does, what may be typed.

import type { TrainSettings } from "../host";

/** Keys of the settings whose values are of a type. */
type KeyOf<T> = { [K in keyof TrainSettings]-?: TrainSettings[K] extends T ? K : never }[keyof TrainSettings];

interface Named<K> {
  key: K;
  label: string;
  hint: string;
}

export type Field =
  /** `empty` says what happens when nothing is typed; without it something must be. A share is typed in percent. */
  | (Named<KeyOf<number | null>> & { kind: "number"; least: number; most: number; whole?: boolean; share?: boolean; empty?: string })
  | (Named<KeyOf<boolean>> & { kind: "switch" })
  | (Named<"schedule" | "precision" | "checkpointing"> & { kind: "choice"; options: [value: string, label: string][] })
  | (Named<"targets"> & { kind: "targets" });

export interface Group {
  title: string;
  fields: Field[];
}

export const groups: Group[] = [
  {
    title: "What is trained",
    fields: [
      { kind: "number", key: "rank", label: "Rank", hint: "How much an adapter can hold. More learns finer and takes more memory.", least: 1, most: 1024, whole: true },
      { kind: "number", key: "alpha", label: "Alpha", hint: "How much the adapter counts; twice the rank is usual.", least: 0.001, most: 4096 },
      { kind: "number", key: "dropout", label: "Dropout", hint: "Share of an adapter's inputs left out at random, against learning by heart.", least: 0, most: 90, share: true },
      { kind: "switch", key: "rslora", label: "rsLoRA", hint: "Scales by the root of the rank: steadier at ranks above 32." },
      { kind: "switch", key: "trainOnPrompts", label: "Learn from prompts too", hint: "Not only what is answered but also what is asked." },
      { kind: "targets", key: "targets", label: "Linears", hint: "Which of a layer's products get an adapter. All of them learns best." },
    ],
  },
  {
    title: "How it learns",
    fields: [
      { kind: "number", key: "learningRate", label: "Learning rate", hint: "How far each step goes. Too high explodes, too low learns nothing.", least: 1e-8, most: 1 },
      { kind: "choice", key: "schedule", label: "Schedule", hint: "How the learning rate falls.", options: [["cosine", "Cosine"], ["linear", "Linear"], ["constant", "Constant"]] },
      { kind: "number", key: "warmup", label: "Warm-up", hint: "Share of the steps in which the learning rate rises.", least: 0, most: 100, share: true },
      { kind: "number", key: "epochs", label: "Epochs", hint: "Times through the examples, at most.", least: 0.01, most: 1000, empty: "From the data" },
      { kind: "number", key: "maxSteps", label: "Steps at most", hint: "Ends the run early, whatever the epochs say.", least: 1, most: 10_000_000, whole: true, empty: "No limit" },
      { kind: "number", key: "weightDecay", label: "Weight decay", hint: "Pulls the adapters towards nothing, against learning by heart.", least: 0, most: 10 },
      { kind: "number", key: "seed", label: "Seed", hint: "The same seed gives the same run.", least: 0, most: Number.MAX_SAFE_INTEGER, whole: true },
    ],
  },
  {
    title: "What goes through at once",
    fields: [
      { kind: "number", key: "batch", label: "Batch", hint: "Examples side by side. More is quicker and takes more memory.", least: 1, most: 4096, whole: true, empty: "Measured" },
      { kind: "number", key: "accumulation", label: "Accumulation", hint: "Batches before the weights move. Batch times this is what a step sees.", least: 1, most: 4096, whole: true, empty: "Measured" },
      { kind: "number", key: "sequence", label: "Sequence", hint: "Tokens an example may have; what is longer is cut.", least: 16, most: 1_048_576, whole: true, empty: "From the data" },
      { kind: "choice", key: "precision", label: "Precision", hint: "Of the factors in a product; sums are always 32 bits.", options: [["auto", "Automatic"], ["bf16", "bf16"], ["f32", "f32"]] },
      { kind: "choice", key: "checkpointing", label: "Checkpointing", hint: "What is kept for the way back. Less memory takes more time.", options: [["auto", "Automatic"], ["operations", "Every operation"], ["layers", "Layers only"]] },
    ],
  },
  {
    title: "How it is measured",
    fields: [
      { kind: "number", key: "evalSplit", label: "Held out", hint: "Share of the examples that is not learnt but measured with.", least: 0, most: 90, share: true },
      { kind: "number", key: "evalEvery", label: "Measure every", hint: "Steps from one measurement to the next.", least: 1, most: 1_000_000, whole: true, empty: "Ten times a run" },
      { kind: "number", key: "patience", label: "Patience", hint: "Measurements without a better loss before it ends early; 0 never does.", least: 0, most: 1000, whole: true },
    ],
  },
];

/** The linears of a layer, as the file names them, and as people say. */
export const linears: [name: string, label: string][] = [
  ["attn_q", "Q"],
  ["attn_k", "K"],
  ["attn_v", "V"],
  ["attn_output", "Output"],
  ["ffn_gate", "Gate"],
  ["ffn_up", "Up"],
  ["ffn_down", "Down"],
];

type NumberField = Extract<Field, { kind: "number" }>;

/** A setting as it stands in its field. */
export function shown(field: NumberField, value: number | null): string {
  if (value === null) return "";
  const number = Number((field.share ? value * 100 : value).toPrecision(12));
  return number !== 0 && Math.abs(number) < 1e-3 ? number.toExponential() : String(number);
}

/** What was typed, as a setting; or why it cannot be one. */
export function parse(field: NumberField, text: string): { value: number | null } | { problem: string } {
  if (text.trim() === "") return field.empty ? { value: null } : { problem: "A number is needed." };
  const number = Number(text.trim().replace(",", "."));
  if (!Number.isFinite(number)) return { problem: "That is not a number." };
  if (field.whole && !Number.isInteger(number)) return { problem: "A whole number is needed." };
  if (number < field.least || number > field.most) return { problem: `From ${shown({ ...field, share: false }, field.least)} to ${shown({ ...field, share: false }, field.most)}.` };
  return { value: field.share ? number / 100 : number };
}
