// Deletes messages, and restores them. Owns the question before messages below are deleted, too.

import { m } from "$messages";
import type { App } from "./app.svelte";

export interface Question {
  readonly message: number;
  /** Number of messages below it, in all versions. */
  readonly below: number;
}

export class Deletion {
  /** The open question. */
  question: Question | null = $state.raw(null);

  constructor(private readonly app: App) {}

  /** Deletes a message of the open conversation, after a question if others are below it. */
  async begin(message: number): Promise<void> {
    const below = this.app.thread.below(message);
    if (below > 0) this.question = { message, below };
    else await this.delete(message);
  }

  cancel(): void {
    this.question = null;
  }

  async confirm(): Promise<void> {
    const { question } = this;
    this.question = null;
    if (question) await this.delete(question.message);
  }

  private async delete(message: number): Promise<void> {
    const { app } = this;
    const { thread, speech } = app;
    await app.try(async () => {
      const { conversation, count } = await thread.delete(message);
      app.search.refresh();
      if (!thread.path.some((node) => node.message.id === speech.reading)) speech.stop();
      app.toasts.show({
        kind: "note",
        text: m.chat_messages_deleted({ count }),
        action: { label: m.store_undo(), run: () => void this.restore(conversation.id, message) },
      });
      // The button that had the focus may be gone.
      if (app.view === "chat" && thread.id === conversation.id) await app.focusComposer();
    });
  }

  private async restore(conversation: number, message: number): Promise<void> {
    const { app } = this;
    await app.try(async () => {
      await app.thread.restore(conversation, message);
      app.search.refresh();
      await app.open(conversation);
    });
  }
}
