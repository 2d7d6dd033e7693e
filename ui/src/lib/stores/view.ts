/** The views of the window. */
export type View = "chat" | "tune" | "models" | "settings";

/** The pages of Settings, in the order of their list. */
export const settingsPages = [
  { id: "general", label: "General" },
  { id: "chat", label: "Chat" },
  { id: "models", label: "Models" },
  { id: "hardware", label: "Hardware" },
  { id: "data", label: "Data" },
  { id: "shortcuts", label: "Shortcuts" },
  { id: "about", label: "About" },
] as const;

export type SettingsPage = (typeof settingsPages)[number]["id"];
