// Announces to screen readers that an answer starts and, once complete, its text; never token by
// token.

import { m } from "$messages";
import { isActive, type Message } from "../host";
import type { App } from "../stores/app.svelte";
import { textOf } from "../text/parts";
import { problemText } from "../text/problem";

export function announceAnswers(app: App): void {
  let writing: number | null = null;
  /** The last request that was announced. An answer that ends at once is never seen streaming. */
  let announcedRequest = app.thread.requested;

  $effect(() => {
    const message = app.thread.last?.message;
    if (!message || message.role !== "assistant") return;
    const compared = app.thread.compared(message).map((node) => node.message);
    const first = compared[0]?.id ?? message.id;
    const { requested } = app.thread;
    const isNew = requested !== announcedRequest && requested?.answer === first;
    announcedRequest = requested;
    if ([message, ...compared].some(isActive)) {
      if (writing !== first)
        app.announcements.say(
          compared.length > 1 ? m.chat_announce_several({ count: compared.length }) : m.chat_announce_one(),
        );
      writing = first;
    } else if (writing === first || isNew) {
      writing = null;
      app.announcements.say(compared.length > 1 ? m.chat_announce_all() : ended(message));
    }
  });
}

function ended(message: Message): string {
  return message.state.type === "failed"
    ? m.chat_announce_failed({ problem: problemText(message.state.problem) })
    : m.chat_announce_answer({ text: textOf(message.parts) });
}
