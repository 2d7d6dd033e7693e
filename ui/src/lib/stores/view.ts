import { m } from "$messages";

/** The views of the window. */
export type View = "chat" | "tune" | "models" | "settings";

/** The names of the pages of Settings, in the order of their list. */
export const pageNames = {
  general: m.store_page_general,
  chat: m.store_page_chat,
  models: m.store_page_models,
  hardware: m.store_page_hardware,
  data: m.store_page_data,
  shortcuts: m.store_page_shortcuts,
  about: m.store_page_about,
};

export type SettingsPage = keyof typeof pageNames;

/** The pages of Settings; a label follows the language. */
export const settingsPages = (Object.keys(pageNames) as SettingsPage[]).map((id) => ({
  id,
  get label(): string {
    return pageNames[id]();
  },
}));
