// Texts on the fit of adapters to models.

import { m } from "$messages";
import type { Adapter, AdapterFit, AdapterMismatch, UnmatchedEntries } from "../host";
import { count, fileSize, loss, moment } from "./format";

/** The name of an adapter of an answer; one that was deleted before the answer has none. */
export function usedAdapterName(name: string): string {
  return name === "" ? m.chat_adapters_deleted() : name;
}

/** The fit of an adapter to a model; `null` if the files of the adapter could not be read. */
export function fitOf(adapter: Adapter, model: string | null): AdapterFit | null {
  return adapter.matches.find((match) => match.model === model)?.fit ?? null;
}

/** Whether an adapter can be offered on a model: it fits, and was not merged into it. */
export function doesFit(adapter: Adapter, model: string | null): boolean {
  const fit = fitOf(adapter, model);
  return fit !== null && fit.type !== "mismatch" && fit.type !== "merged";
}

const levels = ["exact", "named", "sizes"] as const;

/** Id of the model with the best fit: of equal fits, the first in the library. */
export function bestModel(adapter: Adapter): string | null {
  for (const level of levels) {
    const match = adapter.matches.find(({ fit }) => fit.type === level);
    if (match) return match.model;
  }
  return null;
}

/** The facts that tell adapters apart: base, validation loss and date. */
export function adapterFacts({ modelName, baseName, outcome, createdAt }: Adapter): string[] {
  const base = modelName ?? baseName;
  const validationLoss = outcome?.evalLoss ?? null;
  return [
    ...(base === null ? [] : [base]),
    ...(validationLoss === null ? [] : [m.tune_facts_loss({ loss: loss(validationLoss) })]),
    moment(createdAt, Date.now()),
  ];
}

/** A few words: `trained on this model`. */
export function fitLabel(fit: AdapterFit): string {
  switch (fit.type) {
    case "exact":
      return m.text_fit_exact();
    case "named":
      return m.text_fit_named();
    case "sizes":
      return m.text_fit_sizes();
    case "merged":
      return m.text_fit_merged();
    case "mismatch":
      return m.text_fit_none();
  }
}

/** The meaning of a fit; for a mismatch, the reason. */
export function fitHint(fit: AdapterFit): string {
  switch (fit.type) {
    case "exact":
      return m.text_fit_exact_hint();
    case "named":
      return m.text_fit_named_hint();
    case "sizes":
      return m.text_fit_sizes_hint();
    case "merged":
      return m.text_fit_merged_hint();
    case "mismatch":
      return mismatchReason(fit.reason);
  }
}

function mismatchReason(mismatch: AdapterMismatch): string {
  switch (mismatch.type) {
    case "architecture":
      return m.text_misfit_architecture({ architecture: mismatch.adapter });
    case "unsupported":
      return m.text_misfit_unsupported();
    case "layers":
      return m.text_misfit_layers({ adapter: count(mismatch.adapter), model: count(mismatch.model) });
    case "linear":
      return m.text_misfit_linear({
        name: mismatch.name,
        adapter: shape(mismatch.adapter),
        model: shape(mismatch.model),
      });
    case "otherBase":
      return m.text_misfit_base();
  }
}

/** Input and output features: `576 × 1536`. */
function shape(features: readonly number[]): string {
  return features.join(" × ");
}

/** The sentence on entries of a setting that match no module of the adapter. */
export function unmatchedText({ setting, entries, more }: UnmatchedEntries): string {
  const others = more > 0 ? [`… (+${count(more)})`] : [];
  return m.text_adapter_unmatched({ setting, entries: [...entries, ...others].join(", ") });
}

/** The effect of deleting an adapter on its files. */
export function deletionText(adapter: Adapter): string {
  return adapter.isDeletable ? m.text_adapter_deletes({ size: fileSize(adapter.size) }) : m.text_adapter_stays();
}
