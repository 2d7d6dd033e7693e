// The training settings under Advanced: label, hint and accepted values of each.

import { m } from "$messages";
import type { TrainSettings } from "../host";

/** Keys of the settings with values of type `T`. */
type KeyOf<T> = { [K in keyof TrainSettings]-?: TrainSettings[K] extends T ? K : never }[keyof TrainSettings];

interface Named<K> {
  key: K;
  label: () => string;
  hint: () => string;
}

export type Field =
  /**
   * `empty` is the placeholder of an optional field; a field without it is required. A `share` is
   * typed in percent.
   */
  | (Named<KeyOf<number | null>> & {
      kind: "number";
      min: number;
      max: number;
      isInteger?: boolean;
      share?: boolean;
      empty?: () => string;
    })
  | (Named<KeyOf<boolean>> & { kind: "switch" })
  | (Named<"schedule" | "precision" | "checkpointing"> & {
      kind: "choice";
      options: [value: string, label: () => string][];
    })
  | (Named<"targets"> & { kind: "targets" });

export interface Group {
  title: () => string;
  fields: Field[];
}

export const groups: Group[] = [
  {
    title: () => "LoRA",
    fields: [
      {
        kind: "number",
        key: "rank",
        label: m.tune_field_rank,
        hint: m.tune_field_rank_hint,
        min: 1,
        max: 1024,
        isInteger: true,
      },
      {
        kind: "number",
        key: "alpha",
        label: m.tune_field_alpha,
        hint: m.tune_field_alpha_hint,
        min: 0.001,
        max: 4096,
      },
      {
        kind: "number",
        key: "dropout",
        label: m.tune_field_dropout,
        hint: m.tune_field_dropout_hint,
        min: 0,
        max: 90,
        share: true,
      },
      { kind: "switch", key: "rslora", label: () => "rsLoRA", hint: m.tune_field_rslora_hint },
      { kind: "switch", key: "trainOnPrompts", label: m.tune_field_prompts, hint: m.tune_field_prompts_hint },
      { kind: "targets", key: "targets", label: m.tune_field_targets, hint: m.tune_field_targets_hint },
    ],
  },
  {
    title: m.tune_group_optimizer,
    fields: [
      {
        kind: "number",
        key: "learningRate",
        label: m.tune_learning_rate,
        hint: m.tune_field_rate_hint,
        min: 1e-8,
        max: 1,
      },
      {
        kind: "choice",
        key: "schedule",
        label: m.tune_field_schedule,
        hint: m.tune_field_schedule_hint,
        options: [
          ["cosine", m.tune_schedule_cosine],
          ["linear", m.tune_schedule_linear],
          ["constant", m.tune_schedule_constant],
        ],
      },
      {
        kind: "number",
        key: "warmup",
        label: m.tune_field_warmup,
        hint: m.tune_field_warmup_hint,
        min: 0,
        max: 100,
        share: true,
      },
      {
        kind: "number",
        key: "epochs",
        label: m.tune_field_epochs,
        hint: m.tune_field_epochs_hint,
        min: 0.01,
        max: 1000,
        empty: m.tune_empty_from_data,
      },
      {
        kind: "number",
        key: "maxSteps",
        label: m.tune_field_steps,
        hint: m.tune_field_steps_hint,
        min: 1,
        max: 10_000_000,
        isInteger: true,
        empty: m.tune_empty_no_limit,
      },
      {
        kind: "number",
        key: "weightDecay",
        label: m.tune_field_decay,
        hint: m.tune_field_decay_hint,
        min: 0,
        max: 10,
      },
      {
        kind: "number",
        key: "seed",
        label: m.tune_field_seed,
        hint: m.tune_field_seed_hint,
        min: 0,
        max: Number.MAX_SAFE_INTEGER,
        isInteger: true,
      },
    ],
  },
  {
    title: m.tune_group_batch,
    fields: [
      {
        kind: "number",
        key: "batch",
        label: m.tune_field_batch,
        hint: m.tune_field_batch_hint,
        min: 1,
        max: 4096,
        isInteger: true,
        empty: m.tune_empty_automatic,
      },
      {
        kind: "number",
        key: "accumulation",
        label: m.tune_field_accumulation,
        hint: m.tune_field_accumulation_hint,
        min: 1,
        max: 4096,
        isInteger: true,
        empty: m.tune_empty_automatic,
      },
      {
        kind: "number",
        key: "sequence",
        label: m.tune_field_sequence,
        hint: m.tune_field_sequence_hint,
        min: 16,
        max: 1_048_576,
        isInteger: true,
        empty: m.tune_empty_from_data,
      },
      {
        kind: "choice",
        key: "precision",
        label: m.tune_field_precision,
        hint: m.tune_field_precision_hint,
        options: [
          ["auto", m.tune_empty_automatic],
          ["bf16", () => "bf16"],
          ["f32", () => "f32"],
        ],
      },
      {
        kind: "choice",
        key: "checkpointing",
        label: m.tune_field_checkpointing,
        hint: m.tune_field_checkpointing_hint,
        options: [
          ["auto", m.tune_empty_automatic],
          ["operations", m.tune_checkpointing_off],
          ["layers", m.tune_checkpointing_layers],
        ],
      },
    ],
  },
  {
    title: m.tune_group_evaluation,
    fields: [
      {
        kind: "number",
        key: "evalSplit",
        label: m.tune_field_split,
        hint: m.tune_field_split_hint,
        min: 0,
        max: 90,
        share: true,
      },
      {
        kind: "number",
        key: "evalEvery",
        label: m.tune_field_every,
        hint: m.tune_field_every_hint,
        min: 1,
        max: 1_000_000,
        isInteger: true,
        empty: m.tune_empty_ten_times,
      },
      {
        kind: "number",
        key: "patience",
        label: m.tune_field_patience,
        hint: m.tune_field_patience_hint,
        min: 0,
        max: 1000,
        isInteger: true,
      },
    ],
  },
];

/**
 * The target modules of a layer: name in the file, and label. The labels are English in every
 * language.
 */
export const targetModules: [name: string, label: string][] = [
  ["attn_q", "Q"],
  ["attn_k", "K"],
  ["attn_v", "V"],
  ["attn_output", "Output"], // not text: a name of the architecture
  ["ffn_gate", "Gate"], // not text: a name of the architecture
  ["ffn_up", "Up"], // not text: a name of the architecture
  ["ffn_down", "Down"], // not text: a name of the architecture
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
  if (text.trim() === "") return field.empty ? { value: null } : { problem: m.tune_invalid_empty() };
  const number = Number(text.trim().replace(",", "."));
  if (!Number.isFinite(number)) return { problem: m.tune_invalid_number() };
  if (field.isInteger && !Number.isInteger(number)) return { problem: m.tune_invalid_whole() };
  if (number < field.min || number > field.max)
    return {
      problem: m.tune_invalid_range({
        least: shown({ ...field, share: false }, field.min),
        most: shown({ ...field, share: false }, field.max),
      }),
    };
  return { value: field.share ? number / 100 : number };
}
