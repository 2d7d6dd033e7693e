// Announces a run to screen readers: its states and evaluations, never every step.

import type { Run } from "../host";
import type { App } from "../stores/app.svelte";
import { loss } from "../text/format";
import { pausedText } from "./status";
import { verdict } from "./verdict";

export function announceRuns(app: App): void {
  let announced = "";

  $effect(() => {
    const { page } = app.tune;
    const run = app.view === "tune" && page.at === "run" ? app.runs.get(page.id) : app.runs.current;
    if (!run) return;
    const text = announcement(run, app);
    // The state that a run already had when it was opened is not announced.
    const known = announced.startsWith(`${run.id}:`);
    const now = `${run.id}:${text}`;
    if (now === announced) return;
    announced = now;
    if (known || run.state.type === "preparing") app.announcements.say(text);
  });
}

function announcement(run: Run, app: App): string {
  const { state, name } = run;
  switch (state.type) {
    case "preparing":
      return `Preparing “${name}”.`;
    case "planned":
      return `“${name}” starts.`;
    case "running": {
      const measured = app.runs.curve(run.id)?.evaluations.at(-1);
      return measured && measured.step > 0 ? `Step ${measured.step}: validation loss ${loss(measured.loss)}${measured.best ? ", the best so far" : ""}.` : `“${name}” is training.`;
    }
    case "paused":
      return pausedText[state.why];
    case "finished":
      return `“${name}” has ended. ${run.outcome ? verdict(run.outcome).title : ""}`;
    case "stopped":
      return `“${name}” was stopped. ${run.outcome ? verdict(run.outcome).title : ""}`;
    case "failed":
    case "interrupted":
      return `“${name}” failed. ${state.problem.message}`;
  }
}
