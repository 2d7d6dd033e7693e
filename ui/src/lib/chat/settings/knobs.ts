// The settings of a conversation: label, help and accepted values of each, in groups.

import { m } from "$messages";
import type { ConversationSettings, LogitBias, SamplingOverrides, SamplingParams } from "../../host";
import { same } from "../../text/same";

type NumberOf<T> = { [K in keyof T]-?: T[K] extends number | null ? K : never }[keyof T];

/** The texts are functions, since the language changes. */
interface Named {
  label: () => string;
  hint: () => string;
}

export interface NumberKnob extends Named {
  kind: "number";
  key: NumberOf<SamplingOverrides> | "maxTokens";
  min: number;
  max: number;
  isInteger?: boolean;
  /** Placeholder of a setting without a number as its default. */
  empty?: () => string;
}

export interface SwitchKnob extends Named {
  kind: "switch";
  key: "mirostat";
}

export interface TextsKnob extends Named {
  kind: "texts";
  key: "stop" | "dryBreakers" | "bannedStrings";
  /** The label of an item. */
  one: (input: { n: number }) => string;
  add: () => string;
  remove: (input: { n: number }) => string;
  /** Maximum number of texts. */
  maxItems: number;
  /** Maximum bytes per text. */
  maxBytes: number;
}

export interface BiasesKnob extends Named {
  kind: "biases";
  key: "logitBias";
  maxItems: number;
  maxBytes: number;
}

export interface SchemaKnob extends Named {
  kind: "schema";
  key: "jsonSchema";
}

export type Knob = NumberKnob | SwitchKnob | TextsKnob | BiasesKnob | SchemaKnob;

/** A value; `null` means the default. */
export type Value = number | boolean | string | readonly string[] | readonly LogitBias[] | null;

const number = (
  key: NumberKnob["key"],
  label: Named["label"],
  hint: Named["hint"],
  min: number,
  max: number,
  more: Partial<NumberKnob> = {},
): NumberKnob => ({ kind: "number", key, label, hint, min, max, ...more });

const INTEGER = { isInteger: true };

export const temperature = number("temperature", m.knob_temperature, m.knob_temperature_hint, 0, 100);

export const limit = number("maxTokens", m.knob_limit, m.knob_limit_hint, 1, 10_000_000, {
  isInteger: true,
  empty: m.knob_limit_none,
});

export type GroupId =
  "length" | "filters" | "penalties" | "dry" | "xtc" | "mirostat" | "dynatemp" | "bans" | "schema" | "seed";

export interface KnobGroup {
  id: GroupId;
  title: () => string;
  knobs: Knob[];
}

export const groups: readonly KnobGroup[] = [
  {
    id: "length",
    title: m.knob_group_length,
    knobs: [
      limit,
      {
        kind: "texts",
        key: "stop",
        label: m.knob_stop,
        hint: m.knob_stop_hint,
        one: m.knob_stop_one,
        add: m.knob_stop_add,
        remove: m.knob_stop_remove,
        maxItems: 64,
        maxBytes: 1024,
      },
    ],
  },
  {
    id: "filters",
    title: m.knob_group_filters,
    knobs: [
      number("topK", m.knob_top_k, m.knob_top_k_hint, 0, 1_000_000, INTEGER),
      number("topP", m.knob_top_p, m.knob_top_p_hint, 0, 1),
      number("minP", m.knob_min_p, m.knob_min_p_hint, 0, 1),
      number("typicalP", m.knob_typical_p, m.knob_typical_p_hint, 0, 1),
      number("topNSigma", m.knob_top_n_sigma, m.knob_top_n_sigma_hint, -1, 100),
    ],
  },
  {
    id: "penalties",
    title: m.knob_group_penalties,
    knobs: [
      number("repetitionPenalty", m.knob_repetition_penalty, m.knob_repetition_penalty_hint, 0.01, 100),
      number("presencePenalty", m.knob_presence_penalty, m.knob_presence_penalty_hint, -100, 100),
      number("frequencyPenalty", m.knob_frequency_penalty, m.knob_frequency_penalty_hint, -100, 100),
      number("repeatLastN", m.knob_penalty_window, m.knob_penalty_window_hint, 0, 1_000_000, INTEGER),
    ],
  },
  {
    id: "dry",
    title: m.knob_group_dry,
    knobs: [
      number("dryMultiplier", m.knob_dry_multiplier, m.knob_dry_multiplier_hint, 0, 100),
      number("dryBase", m.knob_dry_base, m.knob_dry_base_hint, 1, 100),
      number("dryAllowedLength", m.knob_dry_allowed_length, m.knob_dry_allowed_length_hint, 0, 1_000_000, INTEGER),
      number("dryLastN", m.knob_dry_window, m.knob_dry_window_hint, 0, 1_000_000, INTEGER),
      {
        kind: "texts",
        key: "dryBreakers",
        label: m.knob_dry_breakers,
        hint: m.knob_dry_breakers_hint,
        one: m.knob_dry_breakers_one,
        add: m.knob_dry_breakers_add,
        remove: m.knob_dry_breakers_remove,
        maxItems: 256,
        maxBytes: 256,
      },
    ],
  },
  {
    id: "xtc",
    title: m.knob_group_xtc,
    knobs: [
      number("xtcProbability", m.knob_xtc_probability, m.knob_xtc_probability_hint, 0, 1),
      number("xtcThreshold", m.knob_xtc_threshold, m.knob_xtc_threshold_hint, 0, 1),
    ],
  },
  {
    id: "mirostat",
    title: m.knob_group_mirostat,
    knobs: [
      { kind: "switch", key: "mirostat", label: m.knob_mirostat, hint: m.knob_mirostat_hint },
      number("mirostatTau", m.knob_mirostat_tau, m.knob_mirostat_tau_hint, 0, 100),
      number("mirostatEta", m.knob_mirostat_eta, m.knob_mirostat_eta_hint, 0, 1),
    ],
  },
  {
    id: "dynatemp",
    title: m.knob_group_dynatemp,
    knobs: [
      number("dynatempRange", m.knob_dynatemp_range, m.knob_dynatemp_range_hint, 0, 100),
      number("dynatempExponent", m.knob_dynatemp_exponent, m.knob_dynatemp_exponent_hint, 0, 100),
    ],
  },
  {
    id: "bans",
    title: m.knob_group_bans,
    knobs: [
      {
        kind: "biases",
        key: "logitBias",
        label: m.knob_logit_bias,
        hint: m.knob_logit_bias_hint,
        maxItems: 256,
        maxBytes: 256,
      },
      {
        kind: "texts",
        key: "bannedStrings",
        label: m.knob_banned_strings,
        hint: m.knob_banned_strings_hint,
        one: m.knob_banned_strings_one,
        add: m.knob_banned_strings_add,
        remove: m.knob_banned_strings_remove,
        maxItems: 256,
        maxBytes: 256,
      },
    ],
  },
  {
    id: "schema",
    title: m.knob_group_schema,
    knobs: [{ kind: "schema", key: "jsonSchema", label: m.knob_schema, hint: m.knob_schema_hint }],
  },
  {
    id: "seed",
    title: m.knob_seed,
    knobs: [
      number("seed", m.knob_seed, m.knob_seed_hint, 0, Number.MAX_SAFE_INTEGER, {
        isInteger: true,
        empty: m.knob_seed_random,
      }),
    ],
  },
];

/** Whether a setting is no sampling parameter. */
const isOfAnswer = (key: Knob["key"]): key is "maxTokens" | "stop" | "jsonSchema" =>
  key === "maxTokens" || key === "stop" || key === "jsonSchema";

/** The value that is set. `null` means the default. */
export function valueOf(settings: ConversationSettings, { key }: Pick<Knob, "key">): Value {
  return isOfAnswer(key) ? settings[key] : settings.sampling[key];
}

/** The settings with another value. */
export function withValue(settings: ConversationSettings, { key }: Knob, value: Value): ConversationSettings {
  if (isOfAnswer(key)) return { ...settings, [key]: value };
  return { ...settings, sampling: { ...settings.sampling, [key]: value } };
}

/**
 * The default: the folder's value, or else the model's. `defaults` includes both. `null` means that
 * there is none.
 */
export function defaultOf(
  defaults: SamplingParams | null,
  { key }: Knob,
  folder: ConversationSettings | null = null,
): Value {
  if (isOfAnswer(key)) return folder?.[key] ?? (key === "stop" ? [] : null);
  return defaults ? defaults[key] : null;
}

/** Whether a value is set that is not the default. */
export function differs(
  settings: ConversationSettings,
  defaults: SamplingParams | null,
  knob: Knob,
  folder: ConversationSettings | null = null,
): boolean {
  const value = valueOf(settings, knob);
  return value !== null && !same(value, defaultOf(defaults, knob, folder));
}

/** The text of a number in its field. */
export function shown(value: number | null): string {
  return value === null ? "" : String(Number.isInteger(value) ? value : Number(value.toPrecision(7)));
}

/** Parses the typed text; `problem` is the error of an invalid one. */
export function parse(
  knob: Pick<NumberKnob, "min" | "max" | "isInteger">,
  text: string,
): { value: number | null } | { problem: string } {
  const typed = text.trim().replace(",", ".");
  if (typed === "") return { value: null };
  const value = Number(typed);
  if (!Number.isFinite(value)) return { problem: m.knob_not_a_number() };
  if (knob.isInteger && !Number.isInteger(value)) return { problem: m.knob_whole_number() };
  if (value < knob.min || value > knob.max) return { problem: m.knob_between({ least: knob.min, most: knob.max }) };
  return { value };
}

/** The reason for which a list cannot contain this text; `null` if it can. */
export function textProblem({ key, maxBytes }: { key: Knob["key"]; maxBytes: number }, text: string): string | null {
  if (new TextEncoder().encode(text).length > maxBytes) return m.knob_too_many_bytes({ n: maxBytes });
  if (key === "bannedStrings" && text.includes("\ufffd")) return m.knob_replacement_character();
  return null;
}
