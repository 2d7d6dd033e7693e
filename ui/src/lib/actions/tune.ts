// Actions on data and runs of fine-tuning.

import { m } from "$messages";
import type { Row } from "./action";

export const tuneActions: readonly Row[] = [
  {
    id: "tune-data",
    title: m.action_tune_data,
    group: "tune",
    icon: "file",
    words: m.action_tune_data_words,
    run: (app) => {
      app.view = "tune";
      return app.tune.chooseData();
    },
  },
  {
    id: "tune-ratings",
    title: m.action_tune_ratings,
    group: "tune",
    icon: "thumbUp",
    words: m.action_tune_ratings_words,
    run: (app) => app.tune.dataFromRatings(),
  },
  {
    id: "open-run",
    title: m.action_open_run,
    group: "tune",
    icon: "tune",
    words: m.action_open_run_words,
    enabled: (app) => app.runs.current !== null,
    run: (app) => app.runs.current && app.tune.openRun(app.runs.current.id),
  },
  {
    id: "pause-run",
    title: m.action_pause_run,
    group: "tune",
    icon: "pause",
    words: m.action_pause_run_words,
    enabled: (app) => app.runs.current?.state.type === "running",
    run: (app) => app.runs.current && app.host.pauseRun(app.runs.current.id),
  },
  {
    id: "resume-run",
    title: m.action_resume_run,
    group: "tune",
    icon: "play",
    words: m.action_resume_run_words,
    enabled: (app) => app.runs.current?.state.type === "paused",
    run: (app) => app.runs.current && app.host.resumeRun(app.runs.current.id),
  },
];
