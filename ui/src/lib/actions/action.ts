// An action: what a button, a key and the command palette do.

import type { IconName } from "../shell/icons";
import type { App } from "../stores/app.svelte";
import type { View } from "../stores/view";

export const groups = ["Chat", "Go to", "Models", "Tune", "Window"] as const;

export type Group = (typeof groups)[number];

export interface Action {
  /** Stable: changed keys are saved under it. */
  id: string;
  title: string;
  group: Group;
  icon: IconName;
  /** Default keys; the first one is shown. */
  keys?: readonly string[];
  /** Default keys on Apple's machines, if they differ. */
  appleKeys?: readonly string[];
  /** More words to find it by. */
  words?: string;
  /** The view in which its key works. Absent means in all. */
  keyView?: View;
  /** Whether it can be done now. Absent means always. */
  enabled?: (app: App) => boolean;
  run: (app: App) => unknown;
}
