// The training settings under Advanced: label, hint and accepted values of each.

import type { TrainSettings } from "../host";

/** Keys of the settings that have values of a type. */
type KeyOf<T> = { [K in keyof TrainSettings]-?: TrainSettings[K] extends T ? K : never }[keyof TrainSettings];

interface Named<K> {
  key: K;
  label: string;
  hint: string;
}

export type Field =
  /** `empty` is the placeholder of an optional field; a field without it is required. A `share` is typed in percent. */
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
    title: "LoRA",
    fields: [
      { kind: "number", key: "rank", label: "Rank", hint: "Size of the LoRA matrices. A higher rank learns more detail and needs more memory.", least: 1, most: 1024, whole: true },
      { kind: "number", key: "alpha", label: "Alpha", hint: "Scaling of the adapter: alpha / rank. Twice the rank is usual.", least: 0.001, most: 4096 },
      { kind: "number", key: "dropout", label: "Dropout", hint: "Share of the adapter's inputs dropped at random, to reduce overfitting.", least: 0, most: 90, share: true },
      { kind: "switch", key: "rslora", label: "rsLoRA", hint: "Rank-stabilised LoRA: scales by alpha / √rank. Steadier at ranks above 32." },
      { kind: "switch", key: "trainOnPrompts", label: "Train on prompts", hint: "Computes the loss on prompts too, not only on answers." },
      { kind: "targets", key: "targets", label: "Target modules", hint: "Linear layers that get an adapter. All of them works best." },
    ],
  },
  {
    title: "Optimiser",
    fields: [
      { kind: "number", key: "learningRate", label: "Learning rate", hint: "Size of each update. Too high diverges, too low learns nothing.", least: 1e-8, most: 1 },
      { kind: "choice", key: "schedule", label: "Learning rate schedule", hint: "How the learning rate decays.", options: [["cosine", "Cosine"], ["linear", "Linear"], ["constant", "Constant"]] },
      { kind: "number", key: "warmup", label: "Warm-up", hint: "Share of the steps in which the learning rate rises to its maximum.", least: 0, most: 100, share: true },
      { kind: "number", key: "epochs", label: "Maximum epochs", hint: "Passes over the training examples.", least: 0.01, most: 1000, empty: "From the data" },
      { kind: "number", key: "maxSteps", label: "Maximum steps", hint: "Ends the run at this step, even before the last epoch.", least: 1, most: 10_000_000, whole: true, empty: "No limit" },
      { kind: "number", key: "weightDecay", label: "Weight decay", hint: "Pulls the adapter's weights towards zero, to reduce overfitting.", least: 0, most: 10 },
      { kind: "number", key: "seed", label: "Seed", hint: "The same seed on the same machine gives the same run.", least: 0, most: Number.MAX_SAFE_INTEGER, whole: true },
    ],
  },
  {
    title: "Batch and memory",
    fields: [
      { kind: "number", key: "batch", label: "Batch size", hint: "Examples per forward pass. Larger is faster and needs more memory.", least: 1, most: 4096, whole: true, empty: "Automatic" },
      { kind: "number", key: "accumulation", label: "Gradient accumulation", hint: "Batches per optimiser step. The effective batch size is this times the batch size.", least: 1, most: 4096, whole: true, empty: "Automatic" },
      { kind: "number", key: "sequence", label: "Max sequence length", hint: "Tokens per example. Longer examples are truncated.", least: 16, most: 1_048_576, whole: true, empty: "From the data" },
      { kind: "choice", key: "precision", label: "Precision", hint: "Of the inputs of matrix products. Sums are always f32.", options: [["auto", "Automatic"], ["bf16", "bf16"], ["f32", "f32"]] },
      { kind: "choice", key: "checkpointing", label: "Gradient checkpointing", hint: "Recomputes activations in the backward pass: less memory, more time.", options: [["auto", "Automatic"], ["operations", "Off"], ["layers", "On, per layer"]] },
    ],
  },
  {
    title: "Evaluation",
    fields: [
      { kind: "number", key: "evalSplit", label: "Validation split", hint: "Share of the examples used for validation, not for training.", least: 0, most: 90, share: true },
      { kind: "number", key: "evalEvery", label: "Evaluate every", hint: "Steps between evaluations on the validation split.", least: 1, most: 1_000_000, whole: true, empty: "10 times per run" },
      { kind: "number", key: "patience", label: "Early stopping patience", hint: "Evaluations without a lower loss before the run stops early. 0 turns it off.", least: 0, most: 1000, whole: true },
    ],
  },
];

/** The target modules of a layer: name in the file and label. */
export const targetModules: [name: string, label: string][] = [
  ["attn_q", "Q"],
  ["attn_k", "K"],
  ["attn_v", "V"],
  ["attn_output", "Output"],
  ["ffn_gate", "Gate"],
  ["ffn_up", "Up"],
  ["ffn_down", "Down"],
];

type NumberField = Extract<Field, { kind: "number" }>;

/** The text of a setting in its field. */
export function shown(field: NumberField, value: number | null): string {
  if (value === null) return "";
  const number = Number((field.share ? value * 100 : value).toPrecision(12));
  return number !== 0 && Math.abs(number) < 1e-3 ? number.toExponential() : String(number);
}

/** Parses a field's text; `problem` says why it is invalid. */
export function parse(field: NumberField, text: string): { value: number | null } | { problem: string } {
  if (text.trim() === "") return field.empty ? { value: null } : { problem: "Enter a number." };
  const number = Number(text.trim().replace(",", "."));
  if (!Number.isFinite(number)) return { problem: "Not a number." };
  if (field.whole && !Number.isInteger(number)) return { problem: "Enter a whole number." };
  if (number < field.least || number > field.most) return { problem: `Must be between ${shown({ ...field, share: false }, field.least)} and ${shown({ ...field, share: false }, field.most)}.` };
  return { value: field.share ? number / 100 : number };
}
