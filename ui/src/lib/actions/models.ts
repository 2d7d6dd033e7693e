// Actions on models.

import type { Action } from "./action";

export const modelActions: readonly Action[] = [
  {
    id: "add-model",
    title: "Add a GGUF file",
    group: "Models",
    icon: "add",
    words: "model open import",
    run: async (app) => {
      const model = await app.models.addFile();
      if (model && model.problem === null) await app.models.load(model.id);
    },
  },
  { id: "unload-model", title: "Unload the model to free memory", group: "Models", icon: "eject", words: "eject", enabled: (app) => app.models.state.type === "ready", run: (app) => app.models.unload() },
  {
    id: "measure",
    title: "Measure the model's speed",
    group: "Models",
    icon: "models",
    words: "benchmark prefill decode tokens",
    enabled: (app) => app.models.state.type === "ready" && app.machine.measuring === null,
    run: (app) => {
      app.openSettings("models");
      return app.machine.measure();
    },
  },
];
