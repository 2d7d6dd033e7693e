// Actions on the window: the command palette and the look.

import { m } from "$messages";
import { TEXT_SIZES } from "../stores/settings.svelte";
import type { App } from "../stores/app.svelte";
import { count } from "../text/format";
import type { Row } from "./action";

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
  app.announcements.say(m.action_text_size_is({ n: count(textSize) }));
}

export const windowActions: readonly Row[] = [
  {
    id: "palette",
    title: m.action_palette,
    group: "window",
    icon: "search",
    keys: ["Mod+K"],
    words: m.action_palette_words,
    run: (app) => app.palette.toggle(),
  },
  {
    id: "switch-theme",
    title: m.action_switch_theme,
    group: "window",
    icon: "eye",
    words: m.action_switch_theme_words,
    run: (app) => app.settings.change({ theme: isDark(app) ? "light" : "dark" }),
  },
  {
    id: "text-larger",
    title: m.action_text_larger,
    group: "window",
    icon: "add",
    keys: ["Mod+=", "Mod+Plus"],
    words: m.action_text_larger_words,
    enabled: (app) => app.settings.value.textSize < (TEXT_SIZES.at(-1) ?? 100),
    run: (app) => resize(app, 1),
  },
  {
    id: "text-smaller",
    title: m.action_text_smaller,
    group: "window",
    icon: "down",
    keys: ["Mod+-"],
    words: m.action_text_smaller_words,
    enabled: (app) => app.settings.value.textSize > (TEXT_SIZES[0] ?? 100),
    run: (app) => resize(app, -1),
  },
  {
    id: "text-normal",
    title: m.action_text_normal,
    group: "window",
    icon: "again",
    keys: ["Mod+0"],
    words: m.action_text_normal_words,
    enabled: (app) => app.settings.value.textSize !== 100,
    run: (app) => setSize(app, 100),
  },
  {
    id: "copy-report",
    title: m.action_copy_report,
    group: "window",
    icon: "copy",
    words: m.action_copy_report_words,
    run: async (app) => {
      await navigator.clipboard.writeText(await app.host.report());
      app.toasts.show({ kind: "note", text: m.action_report_copied() });
    },
  },
  {
    id: "switch-contrast",
    title: m.action_switch_contrast,
    group: "window",
    icon: "eye",
    words: m.action_switch_contrast_words,
    run: (app) => app.settings.change({ contrast: app.settings.value.contrast === "more" ? "system" : "more" }),
  },
  {
    id: "switch-motion",
    title: m.action_switch_motion,
    group: "window",
    icon: "eye",
    words: m.action_switch_motion_words,
    run: (app) => app.settings.change({ motion: app.settings.value.motion === "reduce" ? "system" : "reduce" }),
  },
];
