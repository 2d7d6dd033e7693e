// What state a run is in, in a few words.

import type { PauseReason, Run } from "../host";
import { count } from "../text/format";
import { verdict, type Tone } from "./verdict";

export const whyPaused: Record<PauseReason, string> = {
  person: "Paused.",
  chat: "Paused while chat is answering. It goes on by itself after that.",
  battery: "Paused to spare the battery. It goes on by itself once the machine is plugged in.",
};

function step(run: Run): string {
  const at = run.last?.step ?? 0;
  return run.plan ? `step ${count(at)} of ${count(run.plan.steps)}` : `step ${count(at)}`;
}

/** One line for lists. */
export function says(run: Run): string {
  const { state, outcome } = run;
  switch (state.type) {
    case "preparing":
    case "planned":
      return "Getting ready";
    case "running":
      return `Learning, ${step(run)}`;
    case "paused":
      return `Paused at ${step(run)}`;
    case "finished":
    case "stopped":
      return outcome ? verdict(outcome).title : "Stopped before the first step";
    case "failed":
      return `Failed at ${step(run)}`;
    case "interrupted":
      return `Interrupted at ${step(run)}`;
  }
}

export function toneOf(run: Run): Tone {
  if (run.state.type === "failed" || run.state.type === "interrupted") return "bad";
  if ((run.state.type === "finished" || run.state.type === "stopped") && run.outcome) return verdict(run.outcome).tone;
  return "plain";
}
