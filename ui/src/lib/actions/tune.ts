// Actions on data and runs of fine-tuning.

import type { Action } from "./action";

export const tuneActions: readonly Action[] = [
  {
    id: "tune-data",
    title: "Start tuning: choose a file of examples",
    group: "Tune",
    icon: "file",
    words: "train fine-tune dataset data run new",
    run: (app) => {
      app.view = "tune";
      return app.tune.chooseData();
    },
  },
  { id: "tune-ratings", title: "Start tuning: use my rated answers", group: "Tune", icon: "thumbUp", words: "train fine-tune dataset ratings corrections", run: (app) => app.tune.dataFromRatings() },
  { id: "open-run", title: "Show the active run", group: "Tune", icon: "tune", words: "training progress loss", enabled: (app) => app.runs.current !== null, run: (app) => app.runs.current && app.tune.openRun(app.runs.current.id) },
  { id: "pause-run", title: "Pause the run", group: "Tune", icon: "pause", words: "training", enabled: (app) => app.runs.current?.state.type === "running", run: (app) => app.runs.current && app.host.pauseRun(app.runs.current.id) },
  { id: "resume-run", title: "Resume the run", group: "Tune", icon: "play", words: "training continue", enabled: (app) => app.runs.current?.state.type === "paused", run: (app) => app.runs.current && app.host.resumeRun(app.runs.current.id) },
];
