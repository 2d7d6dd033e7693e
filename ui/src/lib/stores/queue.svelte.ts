// Owns the messages that are sent once the answer before them is complete, by conversation. They are saved. After a
// restart, or if the answer did not complete, they wait to be sent by hand.

import type { Message, TextFile } from "../host";
import { SvelteMap } from "svelte/reactivity";
import type { DraftStorage } from "./drafts.svelte";

const KEY = "hearth.queue";

export interface Queued {
  id: number;
  text: string;
  files: TextFile[];
}

/** Sends a message after the one with this id, or after the open branch of its conversation. */
type Send = (conversation: number, parent: number | null, message: Queued) => Promise<unknown>;

export class Queue {
  private readonly queues = new SvelteMap<number, readonly Queued[]>();
  private lastId = 0;
  /** Conversations whose next message is on its way. */
  private readonly sending = new Set<number>();

  constructor(
    private readonly storage: DraftStorage | null,
    private readonly send: Send,
  ) {
    try {
      const saved: unknown = JSON.parse(storage?.getItem(KEY) ?? "{}");
      if (typeof saved !== "object" || saved === null) return;
      for (const [conversation, messages] of Object.entries(saved)) {
        const valid = Array.isArray(messages) ? messages.flatMap((message: unknown) => this.restored(message) ?? []) : [];
        if (valid.length > 0) this.queues.set(Number(conversation), valid);
      }
    } catch {
      // Unreadable storage means no queued messages.
    }
  }

  of(conversation: number | null): readonly Queued[] {
    return conversation === null ? [] : (this.queues.get(conversation) ?? []);
  }

  add(conversation: number, text: string, files: TextFile[]): void {
    this.set(conversation, [...this.of(conversation), { id: ++this.lastId, text, files }]);
  }

  /** Takes a message out of the queue. */
  take(conversation: number, id: number): Queued | null {
    const message = this.of(conversation).find((one) => one.id === id) ?? null;
    if (message) this.set(conversation, this.of(conversation).filter((one) => one.id !== id));
    return message;
  }

  /** Sends the next message after an answer that has ended, if it is complete. */
  async ended({ id, conversation, comparison, state }: Message): Promise<void> {
    // After a comparison, the conversation continues from the answer that is selected.
    if (state.type === "complete") await this.next(conversation, comparison === null ? id : null);
  }

  /** Sends the first message of a queue; if that fails, it is the first again. */
  async next(conversation: number, parent: number | null = null): Promise<void> {
    const [first] = this.of(conversation);
    if (!first || this.sending.has(conversation)) return;
    this.sending.add(conversation);
    this.take(conversation, first.id);
    try {
      await this.send(conversation, parent, first);
    } catch (thrown) {
      this.set(conversation, [first, ...this.of(conversation)]);
      throw thrown;
    } finally {
      this.sending.delete(conversation);
    }
  }

  private set(conversation: number, messages: readonly Queued[]): void {
    if (messages.length === 0) this.queues.delete(conversation);
    else this.queues.set(conversation, messages);
    try {
      this.storage?.setItem(KEY, JSON.stringify(Object.fromEntries(this.queues)));
    } catch {
      // With a full storage they are lost at a restart, not before.
    }
  }

  private restored(message: unknown): Queued | null {
    if (typeof message !== "object" || message === null || !("text" in message) || !("files" in message)) return null;
    const { text, files } = message;
    const isFile = (file: unknown): file is TextFile => typeof file === "object" && file !== null && "name" in file && typeof file.name === "string" && "text" in file && typeof file.text === "string";
    if (typeof text !== "string" || !Array.isArray(files) || !files.every(isFile)) return null;
    return { id: ++this.lastId, text, files };
  }
}
