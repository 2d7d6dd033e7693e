// Announces to screen readers that an answer starts and, once complete, its text; never token by
// token.

import { m } from "$messages";
import { isActive, type Message } from "../host";
import type { App } from "../stores/app.svelte";
import { textOf } from "../text/parts";
import { problemText } from "../text/problem";

export function announceAnswers(app: App): void {
  let writing: number | null = null;
  /** The request whose answer was announced; one that ends at once is never seen growing. */
  let heard = app.thread.requested;

  $effect(() => {
    const message = app.thread.last?.message;
    if (!message || message.role !== "assistant") return;
    const other = app.thread.other(message)?.message ?? null;
    const pair = Math.min(message.id, other?.id ?? message.id);
    const { requested } = app.thread;
    const isNew = requested !== heard && requested?.answer === pair;
    heard = requested;
    if (isActive(message) || (other && isActive(other))) {
      if (writing !== pair) app.announcements.say(other ? m.chat_announce_two() : m.chat_announce_one());
      writing = pair;
    } else if (writing === pair || isNew) {
      writing = null;
      app.announcements.say(other ? m.chat_announce_both() : ended(message));
    }
  });
}

function ended(message: Message): string {
  return message.state.type === "failed" ? m.chat_announce_failed({ problem: problemText(message.state.problem) }) : m.chat_announce_answer({ text: textOf(message.parts) });
}
