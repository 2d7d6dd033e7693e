// Tells a screen reader how a run goes: its states, and each measurement with the held-out examples; never step by step.

import type { Run } from "../host";
import type { App } from "../stores/app.svelte";
import { loss } from "../text/format";
import { whyPaused } from "./says";
import { verdict } from "./verdict";

export function announceRuns(app: App): void {
  let told = "";

  $effect(() => {
    const { place } = app.tune;
    const run = app.view === "tune" && place.at === "run" ? app.runs.get(place.id) : app.runs.current;
    if (!run) return;
    const news = saying(run, app);
    // What a run was before it was first looked at is no news.
    const known = told.startsWith(`${run.id}:`);
    const now = `${run.id}:${news}`;
    if (now === told) return;
    told = now;
    if (known || run.state.type === "preparing") app.announcements.say(news);
  });
}

function saying(run: Run, app: App): string {
  const { state, name } = run;
  switch (state.type) {
    case "preparing":
      return `“${name}” is getting ready.`;
    case "planned":
      return `“${name}” begins.`;
    case "running": {
      const measured = app.runs.curve(run.id)?.evaluations.at(-1);
      return measured && measured.step > 0 ? `Step ${measured.step}: held-out loss ${loss(measured.loss)}${measured.best ? ", the best so far" : ""}.` : `“${name}” is learning.`;
    }
    case "paused":
      return whyPaused[state.why];
    case "finished":
      return `“${name}” has ended. ${run.outcome ? verdict(run.outcome).title : ""}`;
    case "stopped":
      return `“${name}” was stopped. ${run.outcome ? verdict(run.outcome).title : ""}`;
    case "failed":
    case "interrupted":
      return `“${name}” could not go on. ${state.problem.message}`;
  }
}
