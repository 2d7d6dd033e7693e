// Speculative decoding in words: the choices, why a draft model is not used, and the figures of an answer.

import type { DraftKind, DraftProblem, DraftSetting, DraftStats, Model, ModelInfo, Stats } from "../host";
import { count, percent, plural } from "./format";

const kinds: Record<DraftKind, string> = { ngram: "n-gram lookup", own: "own first layers", model: "draft model" };

/** What drafts for a loaded model: `n-gram lookup`. */
export function draftLabel(info: ModelInfo): string {
  return info.draft === null ? "off" : kinds[info.draft];
}

const ends = "Answers stay the same. It switches itself off while it costs more than it gains.";

/** A choice in one or two sentences; `name` is that of a draft model. */
export function draftHint(choice: DraftSetting, name: string | null): string {
  switch (choice.type) {
    case "auto":
      return `N-gram lookup drafts the next tokens from text that occurred before, and the model verifies them in one step. It takes no memory. ${ends}`;
    case "none":
      return "Plain decoding: one token per step.";
    case "own":
      return `The model's own first layers draft the next tokens, and the whole model verifies them in one step. ${ends}`;
    case "model":
      return `${name ?? "A smaller model"} drafts the next tokens, and the model verifies them in one step. It takes memory of its own. ${ends}`;
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
  const instead = "N-gram lookup is used instead.";
  switch (problem.type) {
    case "missing":
      return `The chosen draft model is no longer in the library. ${instead} Add it again, or choose another draft under Load settings.`;
    case "unreadable":
      return `The file of the draft model ${problem.name} cannot be read. ${instead} See Models for the reason, or choose another draft under Load settings.`;
    case "cannotDraft":
      return `${problem.name} cannot draft for this model: it has another vocabulary or is too large. ${instead} Choose another draft under Load settings.`;
  }
}

/** The models that a model can draft for, and those that can draft for it, each with a label. */
export function draftRelations(model: Model, models: readonly Model[]): [label: string, names: string][] {
  const drafts = models.filter(({ id }) => model.drafts.includes(id));
  const targets = models.filter((target) => target.drafts.includes(model.id));
  const all: [string, Model[]][] = [["Drafts", drafts], ["Can draft for", targets]];
  return all.filter(([, found]) => found.length > 0).map(([label, found]) => [label, found.map(({ name }) => name).join(", ")]);
}

/** `drafted 60 %`: the share of the answer's tokens that a draft proposed and the model accepted; `null` if nothing was drafted. */
export function draftedLabel({ draft, tokens }: Stats): string | null {
  return draft === null || draft.drafted === 0 || tokens === 0 ? null : `drafted ${percent(draft.accepted / tokens)}`;
}

/** The figures of a draft in sentences. */
export function draftedTitle({ kind, drafted, accepted, gain, used, stopped }: DraftStats): string {
  const figures = `Speculative decoding with ${kind === "model" ? "a draft model" : kind === "own" ? "the model's own first layers" : "n-gram lookup"}: ${plural(drafted, "token")} drafted, ${count(accepted)} accepted.`;
  const steps = Number.isFinite(used) ? ` ${percent(used)} of the steps verified a draft.` : "";
  return `${figures}${gainText(gain)}${steps}${stopped ? " It switched itself off: it cost more than it gained." : ""}`;
}

const twoDigits = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });

/** The gain as a sentence; empty if it is unknown. */
function gainText(gain: number): string {
  // A number that JSON cannot hold arrives as `null`.
  if (!Number.isFinite(gain)) return "";
  const rounded = twoDigits.format(gain);
  return rounded === "1" ? " About plain speed." : ` ${rounded} times plain speed.`;
}
