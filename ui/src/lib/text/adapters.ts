// Texts on the fit of adapters to models.

import { m } from "$messages";
import type { Adapter, AdapterFit, AdapterMisfit, UnmatchedEntries } from "../host";
import { count, fileSize } from "./format";

/** The fit of an adapter to a model; `null` if the files of the adapter could not be read. */
export function fitOf(adapter: Adapter, model: string | null): AdapterFit | null {
  return adapter.matches.find((match) => match.model === model)?.fit ?? null;
}

export function doesFit(adapter: Adapter, model: string | null): boolean {
  const fit = fitOf(adapter, model);
  return fit !== null && fit.type !== "misfit";
}

const levels = ["exact", "named", "sizes"] as const;

/** The model that it fits best: of one level the first of the library. */
export function bestModel(adapter: Adapter): string | null {
  for (const level of levels) {
    const found = adapter.matches.find(({ fit }) => fit.type === level);
    if (found) return found.model;
  }
  return null;
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
    case "misfit":
      return m.text_fit_none();
  }
}

/** The meaning of a fit; for a misfit, the reason. */
export function fitHint(fit: AdapterFit): string {
  switch (fit.type) {
    case "exact":
      return m.text_fit_exact_hint();
    case "named":
      return m.text_fit_named_hint();
    case "sizes":
      return m.text_fit_sizes_hint();
    case "misfit":
      return misfitText(fit.why);
  }
}

function misfitText(why: AdapterMisfit): string {
  switch (why.type) {
    case "architecture":
      return m.text_misfit_architecture({ architecture: why.adapter });
    case "unsupported":
      return m.text_misfit_unsupported();
    case "layers":
      return m.text_misfit_layers({ adapter: count(why.adapter), model: count(why.model) });
    case "linear":
      return m.text_misfit_linear(why);
    case "otherBase":
      return m.text_misfit_base();
  }
}

/** That the entries of a setting match no module of the adapter. */
export function unmatchedText({ setting, entries, more }: UnmatchedEntries): string {
  const others = more > 0 ? [`… (+${count(more)})`] : [];
  return m.text_adapter_unmatched({ setting, entries: [...entries, ...others].join(", ") });
}

/** The effect of deleting an adapter on its files. */
export function deletionText(adapter: Adapter): string {
  return adapter.isDeletable ? m.text_adapter_deletes({ size: fileSize(adapter.size) }) : m.text_adapter_stays();
}
