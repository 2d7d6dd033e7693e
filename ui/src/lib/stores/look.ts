// Applies theme and contrast of the settings as attributes of the root element, which `src/styles`
// reads.

import type { Settings } from "../host";

// not text: a media query
const MORE_CONTRAST = "(prefers-contrast: more)";

export type Look = Pick<Settings, "theme" | "contrast" | "motion">;

export function showLook({ theme, contrast, motion }: Look): void {
  if (typeof document === "undefined") return;
  const root = document.documentElement;
  set(root, "theme", theme === "system" ? null : theme);
  set(root, "contrast", contrast === "more" || window.matchMedia(MORE_CONTRAST).matches ? "more" : null);
  set(root, "motion", motion === "reduce" ? "reduce" : null);
}

/** Calls a listener when the system's preferred contrast changes. */
export function onContrast(listener: () => void): void {
  if (typeof window !== "undefined") window.matchMedia(MORE_CONTRAST).addEventListener("change", listener);
}

function set(root: HTMLElement, name: string, value: string | null): void {
  if (value === null) delete root.dataset[name];
  else root.dataset[name] = value;
}
