// Deletes messages, and restores them. Owns the question before messages below are deleted, too, or
// an unfinished edit is lost.

import { m } from "$messages";
import type { App } from "./app.svelte";
import type { Edited } from "./edits.svelte";

export interface Question {
  readonly message: number;
  /** Number of messages below it, in all versions. */
  readonly below: number;
  /** Whether one of them has an unfinished edit. */
  readonly losesEdit: boolean;
}

export class Deletion {
  /** The open question. */
  question: Question | null = $state.raw(null);

  constructor(private readonly app: App) {}

  /**
   * Deletes a message of the open conversation, after a question if others are below it or an edit
   * would be lost.
   */
  async begin(message: number): Promise<void> {
    const below = this.app.thread.subtree(message).size - 1;
    const losesEdit = this.edits(message).some((edit) => this.app.edits.isChanged(edit));
    if (below > 0 || losesEdit) this.question = { message, below, losesEdit };
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

  /** The edits of a message and of all messages below it. */
  private edits(message: number): Edited[] {
    return [...this.app.thread.subtree(message)].flatMap((id): Edited[] => [`message:${id}`, `answer:${id}`]);
  }

  private async delete(message: number): Promise<void> {
    const { app } = this;
    const { thread, speech } = app;
    const edits = this.edits(message);
    await app.try(async () => {
      const { conversation, count } = await thread.delete(message);
      // Without their messages they could not be found.
      for (const edit of edits) app.edits.end(edit);
      app.search.refresh();
      if (!thread.path.some((node) => node.message.id === speech.reading)) speech.stop();
      app.toasts.show({
        kind: "note",
        text: m.chat_messages_deleted({ count }),
        action: { label: m.store_undo(), run: () => void app.try(() => this.restore(conversation.id, message)) },
      });
      // The button that had the focus may be gone.
      if (app.view === "chat" && thread.id === conversation.id) await app.focusComposer();
    });
  }

  /** Restores a message with those deleted with it, and opens the conversation. */
  async restore(conversation: number, message: number): Promise<void> {
    const { app } = this;
    await app.thread.restore(conversation, message);
    app.search.refresh();
    await app.open(conversation);
    // The button that had the focus is gone.
    await app.focusComposer();
  }
}
