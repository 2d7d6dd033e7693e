// The state of a run as text.

import { m } from "$messages";
import type { PauseReason, PendingChange, Run } from "../host";
import { count } from "../text/format";
import { verdict, type Tone } from "./verdict";

export function pausedText(reason: PauseReason): string {
  switch (reason) {
    case "person":
      return m.tune_paused_person();
    case "chat":
      return m.tune_paused_chat();
    case "battery":
      return m.tune_paused_battery();
  }
}

export function pendingText(pending: PendingChange): string {
  return pending === "pause" ? m.tune_pending_pause() : m.tune_pending_stop();
}

/** Whether a run was interrupted because the app was closed, and not by a failure. */
export function isInterruptedByClosing({ state }: Run): boolean {
  return state.type === "interrupted" && state.problem.reason.area === "tune" && state.problem.reason.type === "closed";
}

/** One line for lists. */
export function statusLine(run: Run): string {
  if (run.pending) return pendingText(run.pending);
  const { state, outcome } = run;
  const step = count(run.last?.step ?? 0);
  const steps = run.plan && count(run.plan.steps);
  switch (state.type) {
    case "preparing":
    case "planned":
      return m.tune_status_preparing();
    case "running":
      return steps === null ? m.tune_status_training({ step }) : m.tune_status_training_of({ step, steps });
    case "paused":
      return steps === null ? m.tune_status_paused({ step }) : m.tune_status_paused_of({ step, steps });
    case "finished":
    case "stopped":
      return outcome ? verdict(outcome).title : m.tune_status_stopped();
    case "failed":
      return steps === null ? m.tune_status_failed({ step }) : m.tune_status_failed_of({ step, steps });
    case "interrupted":
      return steps === null ? m.tune_status_interrupted({ step }) : m.tune_status_interrupted_of({ step, steps });
  }
}

export function statusTone(run: Run): Tone {
  if (run.state.type === "failed") return "bad";
  if (run.state.type === "interrupted") return isInterruptedByClosing(run) ? "plain" : "warn";
  if ((run.state.type === "finished" || run.state.type === "stopped") && run.outcome) return verdict(run.outcome).tone;
  return "plain";
}
