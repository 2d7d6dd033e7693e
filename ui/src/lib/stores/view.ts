/** The views of the window. */
export type View = "chat" | "tune" | "models" | "settings";
