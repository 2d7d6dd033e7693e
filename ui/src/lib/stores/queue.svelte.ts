// Owns the messages that are sent once the previous answer is complete, by conversation. The app
// saves them. After a restart, or if an answer did not complete, they wait until the user sends the
// first.

import type { Message, QueuedMessage, TextFile } from "../host";
import { SvelteMap, SvelteSet } from "svelte/reactivity";
import type { UnsentSaver } from "./unsent";

/** Most messages that wait in a conversation, in the app too. */
export const MAX_QUEUED = 100;

export interface Queued extends QueuedMessage {
  id: number;
}

/** Sends a message after the one with this id, or after the open branch of its conversation. */
type Send = (conversation: number, parent: number | null, message: Queued) => Promise<unknown>;

export class Queue {
  private readonly queues = new SvelteMap<number, readonly Queued[]>();
  /** Conversations whose messages are held. */
  private readonly held = new SvelteSet<number>();
  private lastId = 0;
  /** Conversations whose next message is on its way. */
  private readonly sending = new Set<number>();

  constructor(
    private readonly saver: UnsentSaver,
    private readonly send: Send,
  ) {}

  /** Takes messages that the app has saved. */
  fill(conversation: number, messages: readonly QueuedMessage[]): void {
    if (messages.length === 0) return;
    this.queues.set(
      conversation,
      messages.map((message) => ({ ...message, id: ++this.lastId })),
    );
    this.held.add(conversation);
  }

  of(conversation: number | null): readonly Queued[] {
    return conversation === null ? [] : (this.queues.get(conversation) ?? []);
  }

  /** Whether the next answer sends nothing. */
  isHeld(conversation: number | null): boolean {
    return conversation !== null && this.held.has(conversation);
  }

  add(conversation: number, text: string, files: TextFile[]): void {
    this.set(conversation, [...this.of(conversation), { id: ++this.lastId, text, files }]);
  }

  /** Takes a message out of the queue. */
  take(conversation: number, id: number): Queued | null {
    const message = this.of(conversation).find((queued) => queued.id === id) ?? null;
    if (message)
      this.set(
        conversation,
        this.of(conversation).filter((queued) => queued.id !== id),
      );
    return message;
  }

  /**
   * Sends the next message after an answer that has ended; holds it if the answer is not complete.
   */
  async ended({ id, conversation, comparison, state }: Message): Promise<void> {
    if (this.of(conversation).length === 0) return;
    if (state.type !== "complete") this.held.add(conversation);
    // After a comparison, the conversation continues from the answer that is selected.
    else if (!this.held.has(conversation)) await this.next(conversation, comparison === null ? id : null);
  }

  /** Sends the first message of a queue; if that fails, it is the first again, and held. */
  async next(conversation: number, parent: number | null = null): Promise<void> {
    const [first] = this.of(conversation);
    if (!first || this.sending.has(conversation)) return;
    this.held.delete(conversation);
    this.sending.add(conversation);
    try {
      const sent = this.send(conversation, parent, first);
      this.take(conversation, first.id);
      await sent;
    } catch (error) {
      this.set(conversation, [first, ...this.of(conversation)]);
      this.held.add(conversation);
      throw error;
    } finally {
      this.sending.delete(conversation);
    }
  }

  private set(conversation: number, messages: readonly Queued[]): void {
    if (messages.length === 0) {
      this.queues.delete(conversation);
      this.held.delete(conversation);
    } else this.queues.set(conversation, messages);
    this.saver.change(conversation, { queue: messages.map(({ text, files }) => ({ text, files })) });
  }
}
