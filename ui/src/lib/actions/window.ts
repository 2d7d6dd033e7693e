// Actions on the window: the command palette and the look.

import { TEXT_SIZES } from "../stores/settings.svelte";
import type { App } from "../stores/app.svelte";
import type { Action } from "./action";

/** Whether the window is dark now, by choice or by the system. */
function isDark(app: App): boolean {
  const { theme } = app.settings.value;
  return theme === "dark" || (theme === "system" && window.matchMedia("(prefers-color-scheme: dark)").matches);
}

async function resize(app: App, by: 1 | -1): Promise<void> {
  const now = app.settings.value.textSize;
  const next = by > 0 ? TEXT_SIZES.find((size) => size > now) : TEXT_SIZES.findLast((size) => size < now);
  if (next !== undefined) await setSize(app, next);
}

async function setSize(app: App, textSize: number): Promise<void> {
  await app.settings.change({ textSize });
  app.announcements.say(`Text size ${textSize} percent.`);
}

export const windowActions: readonly Action[] = [
  { id: "palette", title: "Command palette", group: "Window", icon: "search", keys: ["Mod+K"], words: "commands actions", run: (app) => app.palette.toggle() },
  { id: "switch-theme", title: "Switch between light and dark", group: "Window", icon: "eye", words: "theme mode night", run: (app) => app.settings.change({ theme: isDark(app) ? "light" : "dark" }) },
  { id: "text-larger", title: "Larger text", group: "Window", icon: "add", keys: ["Mod+=", "Mod+Plus"], words: "zoom in size bigger", enabled: (app) => app.settings.value.textSize < (TEXT_SIZES.at(-1) ?? 100), run: (app) => resize(app, 1) },
  { id: "text-smaller", title: "Smaller text", group: "Window", icon: "down", keys: ["Mod+-"], words: "zoom out size", enabled: (app) => app.settings.value.textSize > (TEXT_SIZES[0] ?? 100), run: (app) => resize(app, -1) },
  { id: "text-normal", title: "Normal text size", group: "Window", icon: "again", keys: ["Mod+0"], words: "zoom reset 100", enabled: (app) => app.settings.value.textSize !== 100, run: (app) => setSize(app, 100) },
  {
    id: "copy-report",
    title: "Copy the report for a bug",
    group: "Window",
    icon: "copy",
    words: "problem debug information",
    run: async (app) => {
      await navigator.clipboard.writeText(await app.host.report());
      app.toasts.show({ kind: "note", text: "The report was copied. Read it before you send it." });
    },
  },
  { id: "switch-contrast", title: "Switch high contrast", group: "Window", icon: "eye", words: "accessibility colours", run: (app) => app.settings.change({ contrast: app.settings.value.contrast === "more" ? "system" : "more" }) },
  { id: "switch-motion", title: "Switch reduced motion", group: "Window", icon: "eye", words: "accessibility animations", run: (app) => app.settings.change({ motion: app.settings.value.motion === "reduce" ? "system" : "reduce" }) },
];
