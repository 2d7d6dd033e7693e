// Announces a run to screen readers: its states and evaluations, never every step.

import { m } from "$messages";
import type { Run } from "../host";
import type { App } from "../stores/app.svelte";
import { count, loss, sentences } from "../text/format";
import { pausedText, pendingText } from "./status";
import { verdict } from "./verdict";
import { problemText } from "../text/problem";

export function announceRuns(app: App): void {
  let announced = "";

  $effect(() => {
    const { page } = app.tune;
    const run = app.view === "tune" && page.at === "run" ? app.runs.get(page.id) : app.runs.current;
    if (!run) return;
    const text = announcement(run, app);
    // The state that a run already had when it was opened is not announced.
    const isSameRun = announced.startsWith(`${run.id}:`);
    const now = `${run.id}:${text}`;
    if (now === announced) return;
    announced = now;
    if (isSameRun || run.state.type === "preparing") app.announcements.say(text);
  });
}

function withVerdict(text: string, { outcome }: Run): string {
  return outcome ? sentences([text, verdict(outcome).title]) : text;
}

function announcement(run: Run, app: App): string {
  const { state, name } = run;
  if (run.pending) return pendingText(run.pending);
  switch (state.type) {
    case "preparing":
      return m.tune_say_preparing({ name });
    case "planned":
      return m.tune_say_starts({ name });
    case "running": {
      const measured = app.runs.curve(run.id)?.evaluations.at(-1);
      if (!measured || measured.step === 0) return m.tune_say_training({ name });
      const inputs = { step: count(measured.step), loss: loss(measured.loss) };
      return measured.best ? m.tune_say_measured_best(inputs) : m.tune_say_measured(inputs);
    }
    case "paused":
      return pausedText(state.reason);
    case "finished":
      return withVerdict(m.tune_say_ended({ name }), run);
    case "stopped":
      return withVerdict(m.tune_say_stopped({ name }), run);
    case "failed":
    case "interrupted":
      return sentences([m.tune_say_failed({ name }), problemText(state.problem)]);
  }
}
