// Actions that open a view, or a page of Settings.

import { settingsPages, type View } from "../stores/view";
import type { IconName } from "../shell/icons";
import type { Action } from "./action";

const views: { view: View; title: string; icon: IconName; key: string }[] = [
  { view: "chat", title: "Chat", icon: "chat", key: "Mod+1" },
  { view: "tune", title: "Tune", icon: "tune", key: "Mod+2" },
  { view: "models", title: "Models", icon: "models", key: "Mod+3" },
  { view: "settings", title: "Settings", icon: "settings", key: "Mod+," },
];

/** What is on a page of Settings. */
const words: Record<(typeof settingsPages)[number]["id"], string> = {
  general: "theme dark light text size contrast motion appearance",
  chat: "enter send",
  models: "context length threads gpu layers kv cache draft speculative decoding speed measure memory plan",
  hardware: "devices gpu cpu backend cuda vulkan check",
  data: "caches storage disk",
  shortcuts: "keyboard keys hotkeys",
  about: "version licence license privacy report",
};

export const goToActions: readonly Action[] = [
  ...views.map(({ view, title, icon, key }): Action => ({ id: `view-${view}`, title, group: "Go to", icon, keys: [key], words: "view open", run: (app) => (app.view = view) })),
  ...settingsPages.map(({ id, label }): Action => ({ id: `settings-${id}`, title: `Settings: ${label}`, group: "Go to", icon: "settings", words: `preferences ${words[id]}`, run: (app) => app.openSettings(id) })),
];
