// Actions on presets.

import type { App } from "../stores/app.svelte";
import type { Action } from "./action";

export const presetActions: readonly Action[] = [
  { id: "save-preset", title: "Save the conversation's settings as a preset", group: "Chat", icon: "sliders", words: "sampling new name", run: (app) => inChat(app, () => app.presets.ask({ for: "new" })) },
  {
    id: "update-preset",
    title: "Update the preset with the conversation's settings",
    group: "Chat",
    icon: "sliders",
    words: "sampling change save",
    enabled: (app) => app.presets.modified && app.presets.chosen?.isBuiltIn === false,
    run: async (app) => app.presets.chosen && (await app.presets.update(app.presets.chosen)),
  },
  { id: "revert-preset", title: "Revert the conversation's settings to the preset", group: "Chat", icon: "again", words: "sampling undo", enabled: (app) => app.presets.modified, run: async (app) => app.presets.chosen && (await app.presets.apply(app.presets.chosen.id)) },
  { id: "import-preset", title: "Import a preset", group: "Chat", icon: "drop", words: "sampling file", run: (app) => app.presets.import() },
];

function inChat(app: App, run: () => void): void {
  app.view = "chat";
  run();
}
