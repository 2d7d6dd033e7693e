// Announces to screen readers that an answer starts and, once complete, its text; never token by
// token.

import { isActive, type Message } from "../host";
import type { App } from "../stores/app.svelte";
import { textOf } from "../text/parts";

export function announceAnswers(app: App): void {
  let writing: number | null = null;

  $effect(() => {
    const message = app.thread.last?.message;
    if (!message || message.role !== "assistant") return;
    const other = app.thread.other(message)?.message ?? null;
    const pair = Math.min(message.id, other?.id ?? message.id);
    if (isActive(message) || (other && isActive(other))) {
      if (writing !== pair) app.announcements.say(other ? "The model is generating two answers." : "The model is answering.");
      writing = pair;
    } else if (writing === pair) {
      writing = null;
      app.announcements.say(other ? "Both answers are complete." : ended(message));
    }
  });
}

function ended(message: Message): string {
  return message.state.type === "failed" ? `The answer failed. ${message.state.problem.message}` : `Answer: ${textOf(message.parts)}`;
}
