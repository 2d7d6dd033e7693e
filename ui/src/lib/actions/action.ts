// An action: what a button, a key and the command palette do.

import { m } from "$messages";
import type { IconName } from "../shell/icons";
import type { App } from "../stores/app.svelte";
import type { View } from "../stores/view";

/** A message, in the language of the window or in English. */
export type Message = (inputs?: object, options?: { locale?: "en" }) => string;

const groupNames = {
  chat: m.action_group_chat,
  goto: m.action_group_goto,
  models: m.action_group_models,
  tune: m.action_group_tune,
  window: m.action_group_window,
};

export type Group = keyof typeof groupNames;

/** In the language of the window. */
export const groupLabel = (group: Group): string => groupNames[group]();

/** The groups in their order; a label follows the language. */
export const groups = (Object.keys(groupNames) as Group[]).map((id) => ({
  id,
  get label(): string {
    return groupLabel(id);
  },
}));

export interface Action {
  /** Stable: changed keys are saved under it. */
  id: string;
  /** In the language of the window. */
  readonly title: string;
  group: Group;
  icon: IconName;
  /** Default keys; the first one is shown. */
  keys?: readonly string[];
  /** Default keys on Apple's machines, if they differ. */
  appleKeys?: readonly string[];
  /** Words to find it by, in the language of the window and in English. */
  readonly words: string;
  /** The view in which its key works. Absent means in all. */
  keyView?: View;
  /** Whether it can be done now. Absent means always. */
  enabled?: (app: App) => boolean;
  run: (app: App) => unknown;
}

/** A row of the table: an action with messages for its texts. */
export interface Row extends Omit<Action, "title" | "words"> {
  title: Message;
  /** More words to find it by. */
  words: readonly Message[] | Message;
}

/** The action of a row. Its texts follow the language, which changes after the table was made. */
export function actionOf(row: Row): Action {
  return {
    ...row,
    get title() {
      return row.title();
    },
    get words() {
      return searchWords(groupNames[row.group], row.title, ...[row.words].flat());
    },
  };
}

/**
 * Messages in the language of the window and in English: users may know the words of either
 * language.
 */
export function searchWords(...messages: Message[]): string {
  return [...new Set(messages.flatMap((message) => [message(), message({}, { locale: "en" })]))].join(" ");
}
