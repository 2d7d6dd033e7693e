// Names of the contenders of a comparison.

import { m } from "$messages";
import type { Message } from "../host";
import type { App } from "../stores/app.svelte";
import type { Choice } from "../stores/compare.svelte";
import { adapterName } from "./adapterName";

interface Named {
  model: string | null;
  preset: string | null;
  /** The names of its adapters. */
  adapters: readonly string[];
}

/** Between the parts of a name. */
const BETWEEN = " · ";

/** The parts of names that say only what differs among them. */
function names(all: readonly Named[]): string[][] {
  const differ = (of: (one: Named) => string | null) => new Set(all.map(of)).size > 1;
  const [byModel, byPreset, byAdapters] = [
    differ(({ model }) => model),
    differ(({ preset }) => preset),
    differ(({ adapters }) => adapters.join()),
  ];
  return all.map((one) => {
    const tuned = one.adapters.length > 0 ? m.chat_with_adapters_title({ adapters: one.adapters.join(" + ") }) : null;
    // That there is no adapter or preset is said where it tells apart.
    const ofModel = all.filter(({ model }) => model === one.model);
    const base = ofModel.some(({ adapters }) => adapters.length > 0) ? m.chat_base_model() : null;
    const own = ofModel.some(({ preset, adapters }) => preset !== null && adapters.join() === one.adapters.join())
      ? m.chat_own_settings()
      : null;
    const parts = [
      byModel ? one.model : null,
      byAdapters ? (tuned ?? base) : null,
      byPreset ? (one.preset ?? own) : null,
    ].filter((part) => part !== null);
    return parts.length > 0 ? parts : [one.model ?? m.chat_answer()];
  });
}

function modelName(app: App, model: string | null): string | null {
  if (model === null) return app.chatModel?.name ?? null;
  return app.models.all.find(({ id }) => id === model)?.name ?? m.chat_contender_gone();
}

/** Names of the contenders that gave these answers. */
export function answerNames(app: App, compared: readonly Message[]): string[] {
  return names(
    compared.map(({ model, own, adapters }) => ({
      model: model ?? modelName(app, own?.model ?? null),
      preset: own?.preset?.name ?? null,
      adapters: adapters.map(adapterName),
    })),
  ).map((parts) => parts.join(BETWEEN));
}

/** Names of the contenders for the next answers. */
export function choiceNames(app: App, choices: readonly Choice[]): string[] {
  return choiceParts(app, choices).map((parts) => parts.join(BETWEEN));
}

/** The parts of these names; each but the first begins with the separator. */
export function choiceLabels(app: App, choices: readonly Choice[]): string[][] {
  return choiceParts(app, choices).map((parts) => parts.map((part, at) => (at > 0 ? BETWEEN : "") + part));
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
