// What the command palette offers: the actions that can be done now, the presets, the models that can be
// loaded, and the conversations.

import type { IconName } from "../shell/icons";
import type { App } from "../stores/app.svelte";
import { fuzzy } from "../text/fuzzy";
import { actions } from ".";

export interface Item {
  id: string;
  title: string;
  group: string;
  icon: IconName;
  words: string;
  /** Its key, as shown. */
  key: string;
  run: () => unknown;
}

export interface Found extends Item {
  /** Indices of the matched characters of its title. */
  at: readonly number[];
}

/** Number of results shown. */
const LIMIT = 60;

export function items(app: App): Item[] {
  const now = actions
    .filter((action) => action.id !== "palette" && (action.enabled?.(app) ?? true))
    .map((action): Item => ({ ...action, words: `${action.group} ${action.words ?? ""}`, key: app.shortcuts.label(action.id), run: () => action.run(app) }));
  const { state } = app.models;
  const here = state.type === "ready" || state.type === "loading" ? state.model : null;
  const models = app.models.all
    .filter((model) => model.problem === null && model.id !== here)
    .map((model): Item => ({ id: `model:${model.id}`, title: `Load ${model.name}`, group: "Models", icon: "models", words: `model switch use ${model.quantization} ${model.architecture}`, key: "", run: () => app.models.load(model.id) }));
  const conversations = app.conversations.all.map((conversation): Item => ({ id: `conversation:${conversation.id}`, title: conversation.title, group: "Conversation", icon: "chat", words: "conversation", key: "", run: () => app.open(conversation.id) }));
  const presets = app.presets.all.map((preset): Item => ({ id: `preset:${preset.id}`, title: `Use the preset ${preset.name}`, group: "Chat", icon: "sliders", words: "preset sampling settings apply", key: "", run: () => app.presets.apply(preset.id) }));
  return [...now, ...presets, ...models, ...conversations];
}

/**
 * The items that fit a query, best first. Recent ones come first for an empty query, and before others that fit equally.
 */
export function find(all: readonly Item[], query: string, recent: readonly string[]): Found[] {
  const age = (id: string) => {
    const at = recent.indexOf(id);
    return at < 0 ? Infinity : at;
  };
  const empty = query.trim() === "";
  const found = all.flatMap((item, order) => {
    const match = fuzzy(query, item.title, item.words);
    // An empty query lists actions; of the rest only what was used.
    if (!match || (empty && item.id.includes(":") && age(item.id) === Infinity)) return [];
    const bonus = age(item.id) === Infinity ? 0 : 15 - age(item.id);
    return [{ item: { ...item, at: match.at }, score: empty ? 0 : match.score + bonus, age: age(item.id), order }];
  });
  found.sort((a, b) => b.score - a.score || (a.age === b.age ? 0 : a.age - b.age) || a.order - b.order);
  return found.slice(0, LIMIT).map(({ item }) => item);
}
