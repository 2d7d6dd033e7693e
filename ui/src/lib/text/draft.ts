// Texts on speculative decoding: the choices, the reasons for not using a draft model, and the
// statistics of an answer.

import { m } from "$messages";
import type { DraftKind, DraftProblem, DraftSetting, DraftStats, Model, ModelInfo, Stats } from "../host";
import { count, list, percent, sentences, significant } from "./format";

const kinds: Record<DraftKind, () => string> = {
  ngram: m.text_draft_ngram,
  firstLayers: m.text_draft_own,
  model: m.text_draft_model,
};

/** The source of drafts for a loaded model, such as `n-gram lookup`. */
export function draftLabel(info: ModelInfo): string {
  return info.draft === null ? m.text_draft_off() : kinds[info.draft]();
}

/** The hint of a choice; `name` is the name of the draft model. */
export function draftHint(choice: DraftSetting, name: string | null): string {
  switch (choice.type) {
    case "auto":
      return m.text_draft_hint_auto();
    case "none":
      return m.text_draft_hint_none();
    case "firstLayers":
      return m.text_draft_hint_own();
    case "model":
      return name === null ? m.text_draft_hint_smaller() : m.text_draft_hint_model({ name });
  }
}

/**
 * The reason for which the chosen draft model of `target` cannot be used; `null` if it can, or none
 * is chosen.
 */
export function draftProblem(choice: DraftSetting, target: Model, models: readonly Model[]): DraftProblem | null {
  if (choice.type !== "model") return null;
  const chosen = models.find(({ id }) => id === choice.model);
  if (!chosen) return { type: "missing" };
  if (target.drafts.includes(choice.model)) return null;
  return { type: chosen.problem === null ? "cannotDraft" : "unreadable", name: chosen.name };
}

/** The problem as sentences, with its effect and the next step. */
export function draftProblemText(problem: DraftProblem): string {
  switch (problem.type) {
    case "missing":
      return m.text_draft_missing();
    case "unreadable":
      return m.text_draft_unreadable({ name: problem.name });
    case "cannotDraft":
      return m.text_draft_cannot_draft({ name: problem.name });
  }
}

/** The targets that a model can draft for and the draft models for it, each with a label. */
export function draftRelations(model: Model, models: readonly Model[]): [label: string, names: string][] {
  const drafts = models.filter(({ id }) => model.drafts.includes(id));
  const targets = models.filter((target) => target.drafts.includes(model.id));
  const all: [string, Model[]][] = [
    [m.text_draft_drafts(), drafts],
    [m.text_draft_targets(), targets],
  ];
  return all
    .filter(([, related]) => related.length > 0)
    .map(([label, related]) => [label, list(related.map(({ name }) => name))]);
}

/**
 * `drafted 60 %`: the share of the answer's tokens that a draft proposed and the model accepted;
 * `null` if nothing was drafted.
 */
export function draftedLabel({ draft, tokens }: Stats): string | null {
  return draft === null || draft.drafted === 0 || tokens === 0
    ? null
    : m.text_draft_share({ percent: percent(draft.accepted / tokens) });
}

const titles = {
  ngram: m.text_draft_title_ngram,
  firstLayers: m.text_draft_title_own,
  model: m.text_draft_title_model,
} satisfies Record<DraftKind, unknown>;

/** The draft statistics of an answer, as sentences. */
export function draftedTitle({ kind, drafted, accepted, gain, used, stopped }: DraftStats): string {
  const all: string[] = [titles[kind]({ drafted, accepted: count(accepted) })];
  // A number that JSON cannot hold arrives as `null`.
  if (Number.isFinite(gain)) all.push(gainText(gain));
  if (Number.isFinite(used)) all.push(m.text_draft_steps({ percent: percent(used) }));
  if (stopped) all.push(m.text_draft_stopped());
  return sentences(all);
}

function gainText(gain: number): string {
  const isPlain = Number(gain.toPrecision(2)) === 1;
  return isPlain ? m.text_draft_gain_none() : m.text_draft_gain({ n: significant(gain, 2) });
}
