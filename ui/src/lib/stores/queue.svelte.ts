// Owns the messages that are sent once the answer before them is complete, by conversation. They are saved. After a
// restart, or if an answer did not complete, they are held until a person sends the first.

import type { Message, TextFile } from "../host";
import { SvelteMap, SvelteSet } from "svelte/reactivity";
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
  /** Conversations whose messages are held. */
  private readonly held = new SvelteSet<number>();
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
        if (valid.length === 0) continue;
        this.queues.set(Number(conversation), valid);
        this.held.add(Number(conversation));
      }
    } catch {
      // Unreadable storage means no queued messages.
    }
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
    const message = this.of(conversation).find((one) => one.id === id) ?? null;
    if (message) this.set(conversation, this.of(conversation).filter((one) => one.id !== id));
    return message;
  }

  /** Sends the next message after an answer that has ended; holds it if the answer is not complete. */
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
    this.take(conversation, first.id);
    try {
      await this.send(conversation, parent, first);
    } catch (thrown) {
      this.set(conversation, [first, ...this.of(conversation)]);
      this.held.add(conversation);
      throw thrown;
    } finally {
      this.sending.delete(conversation);
    }
  }

  private set(conversation: number, messages: readonly Queued[]): void {
    if (messages.length === 0) {
      this.queues.delete(conversation);
      this.held.delete(conversation);
    } else this.queues.set(conversation, messages);
    // A storage that is too small for the files has the texts, or nothing: never a message that was sent.
    if (!this.save((message) => message) && !this.save((message) => ({ ...message, files: [] }))) this.save(() => null);
  }

  private save(saved: (message: Queued) => Queued | null): boolean {
    try {
      const entries = [...this.queues].map(([conversation, messages]) => [conversation, messages.flatMap((message) => saved(message) ?? [])]);
      this.storage?.setItem(KEY, JSON.stringify(Object.fromEntries(entries)));
      return true;
    } catch {
      return false;
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
