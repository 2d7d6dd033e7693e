// Actions on presets.

import { m } from "$messages";
import type { App } from "../stores/app.svelte";
import type { Row } from "./action";

export const presetActions: readonly Row[] = [
  {
    id: "save-preset",
    title: m.action_save_preset,
    group: "chat",
    icon: "sliders",
    words: m.action_save_preset_words,
    run: (app) => inChat(app, () => app.presets.ask({ for: "new" })),
  },
  {
    id: "update-preset",
    title: m.action_update_preset,
    group: "chat",
    icon: "sliders",
    words: m.action_update_preset_words,
    enabled: (app) => app.presets.modified && app.presets.chosen?.isBuiltIn === false,
    run: async (app) => app.presets.chosen && (await app.presets.update(app.presets.chosen)),
  },
  {
    id: "revert-preset",
    title: m.action_revert_preset,
    group: "chat",
    icon: "again",
    words: m.action_revert_preset_words,
    enabled: (app) => app.presets.modified,
    run: async (app) => app.presets.chosen && (await app.presets.apply(app.presets.chosen.id)),
  },
  {
    id: "import-preset",
    title: m.action_import_preset,
    group: "chat",
    icon: "drop",
    words: m.action_import_preset_words,
    run: (app) => app.presets.import(),
  },
];

function inChat(app: App, run: () => void): void {
  app.view = "chat";
  run();
}
