// Actions on models.

import { m } from "$messages";
import type { Row } from "./action";

export const modelActions: readonly Row[] = [
  {
    id: "add-model",
    title: m.action_add_model,
    group: "models",
    icon: "add",
    words: m.action_add_model_words,
    run: async (app) => {
      const model = await app.modelsPage.chooseFile();
      if (model && model.problem === null) await app.chooseModel(model.id);
    },
  },
  {
    id: "unload-model",
    title: m.action_unload_model,
    group: "models",
    icon: "eject",
    words: m.action_unload_model_words,
    enabled: (app) => app.models.isAnyLoaded,
    run: (app) => app.models.unload(),
  },
  {
    id: "measure",
    title: m.action_measure,
    group: "models",
    icon: "models",
    words: m.action_measure_words,
    enabled: (app) => app.models.state.type === "ready" && app.machine.measuring === null,
    run: (app) => {
      app.openSettings("models");
      return app.machine.measure();
    },
  },
];
