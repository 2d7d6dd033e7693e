// Names of the answers of a comparison.

import { m } from "$messages";
import type { Message } from "../host";
import type { App } from "../stores/app.svelte";
import type { Choice } from "../stores/compare.svelte";
import { adapterName } from "./adapterName";

interface NameParts {
  model: string | null;
  preset: string | null;
  /** Names of the adapters. */
  adapters: readonly string[];
}

/** Between the parts of a name. */
const SEPARATOR = " · ";

/** The parts of each answer's name that differ between the answers. */
function names(all: readonly NameParts[]): string[][] {
  const differs = (key: (answer: NameParts) => string | null) => new Set(all.map(key)).size > 1;
  const modelDiffers = differs(({ model }) => model);
  const presetDiffers = differs(({ preset }) => preset);
  const adaptersDiffer = differs(({ adapters }) => adapters.join());
  return all.map(({ model, preset, adapters }) => {
    const withAdapters = adapters.length > 0 ? m.chat_with_adapters_title({ adapters: adapters.join(" + ") }) : null;
    // The lack of an adapter or preset is named only if an answer of the same model has one.
    const sameModel = all.filter((other) => other.model === model);
    const withoutAdapters = sameModel.some((other) => other.adapters.length > 0) ? m.chat_base_model() : null;
    const withoutPreset = sameModel.some((other) => other.preset !== null && other.adapters.join() === adapters.join())
      ? m.chat_own_settings()
      : null;
    const parts = [
      modelDiffers ? model : null,
      adaptersDiffer ? (withAdapters ?? withoutAdapters) : null,
      presetDiffers ? (preset ?? withoutPreset) : null,
    ].filter((part) => part !== null);
    return parts.length > 0 ? parts : [model ?? m.chat_answer()];
  });
}

function modelName(app: App, model: string | null): string | null {
  if (model === null) return app.chatModel?.name ?? null;
  return app.models.all.find(({ id }) => id === model)?.name ?? m.chat_contender_gone();
}

/** Names of the answers of a comparison. */
export function answerNames(app: App, compared: readonly Message[]): string[] {
  return names(
    compared.map(({ model, overrides, adapters }) => ({
      model: model ?? modelName(app, overrides?.model ?? null),
      preset: overrides?.preset?.name ?? null,
      adapters: adapters.map(adapterName),
    })),
  ).map((parts) => parts.join(SEPARATOR));
}

/** Names of the choices for the next answers. */
export function choiceNames(app: App, choices: readonly Choice[]): string[] {
  return choiceParts(app, choices).map((parts) => parts.join(SEPARATOR));
}

/** The parts of the choices' names; each but the first begins with the separator. */
export function choiceLabels(app: App, choices: readonly Choice[]): string[][] {
  return choiceParts(app, choices).map((parts) => parts.map((part, at) => (at > 0 ? SEPARATOR : "") + part));
}

function choiceParts(app: App, choices: readonly Choice[]): string[][] {
  return names(
    choices.map((choice) => ({
      model: modelName(app, choice.model),
      preset: app.presets.all.find(({ id }) => id === choice.preset)?.name ?? null,
      adapters: app.compare
        .adaptersOf(choice)
        .map(({ adapter, scale }) =>
          adapterName({ adapter, scale, name: app.adapters.get(adapter)?.name ?? m.chat_adapters_deleted() }),
        ),
    })),
  );
}
