// Items of the command palette: the actions that can be done now, new conversations in folders,
// saved prompts, the presets, the models that can be loaded, and the conversations.

import { m } from "$messages";
import type { IconName } from "../shell/icons";
import type { App } from "../stores/app.svelte";
import { fuzzy } from "../text/fuzzy";
import { actions } from ".";
import { groupLabel, searchWords } from "./action";

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
    .map((action): Item => ({
      ...action,
      group: groupLabel(action.group),
      key: app.shortcuts.label(action.id),
      run: () => action.run(app),
    }));
  const { state } = app.models;
  const loaded = state.type === "ready" || state.type === "loading" ? state.model : null;
  const chosen = loaded === app.chatModel?.id ? loaded : null;
  const modelWords = searchWords(m.action_load_model_words);
  const models = app.models.all
    .filter((model) => model.problem === null && model.id !== chosen)
    .map((model): Item => ({
      id: `model:${model.id}`,
      title: m.action_load_model({ name: model.name }),
      group: groupLabel("models"),
      icon: "models",
      key: "",
      words: `${modelWords} ${model.quantization} ${model.architecture}`,
      run: () => app.chooseModel(model.id),
    }));
  const ofConversation = {
    group: m.action_group_conversation(),
    icon: "chat",
    words: searchWords(m.action_group_conversation),
    key: "",
  } as const;
  const conversations = app.conversations.all.map((conversation): Item => ({
    ...ofConversation,
    id: `conversation:${conversation.id}`,
    title: conversation.title,
    run: () => app.open(conversation.id),
  }));
  const ofPreset = {
    group: groupLabel("chat"),
    icon: "sliders",
    words: searchWords(m.action_use_preset_words),
    key: "",
  } as const;
  const presets = app.presets.all.map((preset): Item => ({
    ...ofPreset,
    id: `preset:${preset.id}`,
    title: m.action_use_preset({ name: preset.name }),
    run: () => app.presets.apply(preset.id),
  }));
  const ofFolder = {
    group: groupLabel("chat"),
    icon: "folder",
    words: searchWords(m.action_new_in_folder_words),
    key: "",
  } as const;
  const folders = app.folders.all.map((folder): Item => ({
    ...ofFolder,
    id: `folder:${folder.id}`,
    title: m.action_new_in_folder({ name: folder.name }),
    run: () => app.newConversation(folder.id),
  }));
  const ofPrompt = {
    group: groupLabel("chat"),
    icon: "bookmark",
    words: searchWords(m.action_insert_prompt_words),
    key: "",
  } as const;
  const prompts = app.prompts.all.map((prompt): Item => ({
    ...ofPrompt,
    id: `prompt:${prompt.id}`,
    title: m.action_insert_prompt({ name: prompt.name }),
    run: () => app.insertPrompt(prompt),
  }));
  return [...now, ...folders, ...prompts, ...presets, ...models, ...conversations];
}

/**
 * The items that fit a query, best first. Recent ones come first for an empty query, and before
 * others that fit equally.
 */
export function find(all: readonly Item[], query: string, recent: readonly string[]): Found[] {
  const age = (id: string) => {
    const at = recent.indexOf(id);
    return at < 0 ? Infinity : at;
  };
  const empty = query.trim() === "";
  const matches = all.flatMap((item, order) => {
    const match = fuzzy(query, item.title, item.words);
    // An empty query lists actions; of the rest only what was used.
    if (!match || (empty && item.id.includes(":") && age(item.id) === Infinity)) return [];
    const bonus = age(item.id) === Infinity ? 0 : 15 - age(item.id);
    return [{ item: { ...item, at: match.at }, score: empty ? 0 : match.score + bonus, age: age(item.id), order }];
  });
  matches.sort((a, b) => b.score - a.score || (a.age === b.age ? 0 : a.age - b.age) || a.order - b.order);
  return matches.slice(0, LIMIT).map(({ item }) => item);
}
