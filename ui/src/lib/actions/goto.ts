// Actions that open a view, or a page of Settings.

import { m } from "$messages";
import { pageNames, settingsPages, type SettingsPage, type View } from "../stores/view";
import type { IconName } from "../shell/icons";
import type { Message, Row } from "./action";

const views: { view: View; title: Message; icon: IconName; key: string }[] = [
  { view: "chat", title: m.action_view_chat, icon: "chat", key: "Mod+1" },
  { view: "tune", title: m.action_view_tune, icon: "tune", key: "Mod+2" },
  { view: "models", title: m.action_view_models, icon: "models", key: "Mod+3" },
  { view: "settings", title: m.action_view_settings, icon: "settings", key: "Mod+," },
];

/** Search words for the contents of each page of Settings. */
const words: Record<SettingsPage, Message> = {
  general: m.action_page_general_words,
  chat: m.action_page_chat_words,
  models: m.action_page_models_words,
  hardware: m.action_page_hardware_words,
  data: m.action_page_data_words,
  shortcuts: m.action_page_shortcuts_words,
  about: m.action_page_about_words,
};

export const goToActions: readonly Row[] = [
  ...views.map(({ view, title, icon, key }): Row => ({
    id: `view-${view}`,
    title,
    group: "goto",
    icon,
    keys: [key],
    words: m.action_view_words,
    run: (app) => (app.view = view),
  })),
  ...settingsPages.map(({ id }): Row => ({
    id: `settings-${id}`,
    title: (_, options) => m.action_settings_page({ page: pageNames[id]({}, options) }, options),
    group: "goto",
    icon: "settings",
    words: [m.action_settings_page_words, words[id]],
    run: (app) => app.openSettings(id),
  })),
];
