// The state of a run as text.

import type { PauseReason, Run } from "../host";
import { count } from "../text/format";
import { verdict, type Tone } from "./verdict";

export const pausedText: Record<PauseReason, string> = {
  person: "Paused.",
  chat: "Paused while chat is answering. Resumes automatically.",
  battery: "Paused because the battery is low. Resumes automatically when the machine is plugged in.",
};

function step(run: Run): string {
  const at = run.last?.step ?? 0;
  return run.plan ? `step ${count(at)} of ${count(run.plan.steps)}` : `step ${count(at)}`;
}

/** One line for lists. */
export function statusLine(run: Run): string {
  const { state, outcome } = run;
  switch (state.type) {
    case "preparing":
    case "planned":
      return "Preparing";
    case "running":
      return `Training, ${step(run)}`;
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

export function statusTone(run: Run): Tone {
  if (run.state.type === "failed" || run.state.type === "interrupted") return "bad";
  if ((run.state.type === "finished" || run.state.type === "stopped") && run.outcome) return verdict(run.outcome).tone;
  return "plain";
}
