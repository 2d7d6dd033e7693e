// Speculative decoding in words: the choices, why a draft model is not used, and the figures of an answer.

import { m } from "$messages";
import type { DraftKind, DraftProblem, DraftSetting, DraftStats, Model, ModelInfo, Stats } from "../host";
import { count, list, percent, sentences, significant } from "./format";

const kinds: Record<DraftKind, () => string> = {
  ngram: m.text_draft_ngram,
  own: m.text_draft_own,
  model: m.text_draft_model,
};

/** The source of drafts for a loaded model, such as `n-gram lookup`. */
export function draftLabel(info: ModelInfo): string {
  return info.draft === null ? m.text_draft_off() : kinds[info.draft]();
}

/** A choice in one or two sentences; `name` is the draft model's name. */
export function draftHint(choice: DraftSetting, name: string | null): string {
  switch (choice.type) {
    case "auto":
      return m.text_draft_hint_auto();
    case "none":
      return m.text_draft_hint_none();
    case "own":
      return m.text_draft_hint_own();
    case "model":
      return name === null ? m.text_draft_hint_smaller() : m.text_draft_hint_model({ name });
  }
}

/** Why the chosen draft model of `target` cannot be used; `null` if it can, or none is chosen. */
export function draftProblem(choice: DraftSetting, target: Model, models: readonly Model[]): DraftProblem | null {
  if (choice.type !== "model") return null;
  const chosen = models.find(({ id }) => id === choice.model);
  if (!chosen) return { type: "missing" };
  if (target.drafts.includes(choice.model)) return null;
  return { type: chosen.problem === null ? "cannotDraft" : "unreadable", name: chosen.name };
}

/** The problem as a sentence, with what is done and what to do. */
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

/** The models that a model can draft for, and those that can draft for it, each with a label. */
export function draftRelations(model: Model, models: readonly Model[]): [label: string, names: string][] {
  const drafts = models.filter(({ id }) => model.drafts.includes(id));
  const targets = models.filter((target) => target.drafts.includes(model.id));
  const all: [string, Model[]][] = [
    [m.text_draft_drafts(), drafts],
    [m.text_draft_targets(), targets],
  ];
  return all
    .filter(([, found]) => found.length > 0)
    .map(([label, found]) => [label, list(found.map(({ name }) => name))]);
}

/** `drafted 60 %`: the share of the answer's tokens that a draft proposed and the model accepted; `null` if nothing was drafted. */
export function draftedLabel({ draft, tokens }: Stats): string | null {
  return draft === null || draft.drafted === 0 || tokens === 0
    ? null
    : m.text_draft_share({ percent: percent(draft.accepted / tokens) });
}

const titles = {
  ngram: m.text_draft_title_ngram,
  own: m.text_draft_title_own,
  model: m.text_draft_title_model,
} satisfies Record<DraftKind, unknown>;

/** The figures of a draft in sentences. */
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
