// Owns the text of answers while they are being written, in every conversation, and which conversations are busy.

import { SvelteMap } from "svelte/reactivity";
import { isActive, type Message } from "../host";

export interface Stream {
  conversation: number;
  text: string;
  tokens: number;
  tokensPerSecond: number;
}

/** Runs a callback before the next frame, or soon where no frames are drawn. */
export type Schedule = (callback: () => void) => void;

export const nextFrame: Schedule = (callback) => {
  if (typeof document !== "undefined" && !document.hidden) requestAnimationFrame(callback);
  else setTimeout(callback, 100);
};

/** An answer that takes longer than this (in milliseconds) to draw is drawn less often: one long list, say. */
const CHEAP = 8;
/** So many times its cost is then left to everything else: scrolling, typing. */
const REST = 5;

export class Live {
  /** The answer that is being made in a conversation; of two that are compared, one of them. */
  readonly busy = new SvelteMap<number, number>();
  /** Every answer that is being made, and its conversation. */
  private readonly active = new Map<number, number>();
  private readonly streams = new Map<number, Stream>();
  private readonly touched = new Set<number>();
  /** The next showing is arranged. */
  private waiting = false;
  /** Milliseconds to wait before what grows is shown again. */
  private rest = 0;

  /** `show` is called at most once a frame for each answer that grew. */
  constructor(
    private readonly show: (message: number, stream: Stream) => void,
    private readonly schedule: Schedule = nextFrame,
  ) {}

  grow(message: number, known: string, delta: { conversation: number; text: string; tokens: number; tokensPerSecond: number }): void {
    const text = (this.streams.get(message)?.text ?? known) + delta.text;
    this.streams.set(message, { ...delta, text });
    this.begin(message, delta.conversation);
    this.touched.add(message);
    if (this.waiting) return;
    this.waiting = true;
    if (this.rest > 0) setTimeout(() => this.schedule(() => this.flush()), this.rest);
    else this.schedule(() => this.flush());
  }

  /** The speed of an answer that is being written. */
  speed(message: number): number | null {
    return this.streams.get(message)?.tokensPerSecond ?? null;
  }

  /** What is known of a message when the host tells it: an answer that still grows keeps the longer text. */
  merge(message: Message): Message {
    if (!isActive(message)) {
      this.streams.delete(message.id);
      this.touched.delete(message.id);
      this.end(message.id, message.conversation);
      return message;
    }
    this.begin(message.id, message.conversation);
    const stream = this.streams.get(message.id);
    return stream && stream.text.length > message.content.length ? { ...message, content: stream.text, state: { type: "streaming" } } : message;
  }

  /** The conversation is gone, and with it whatever was being written there. */
  drop(conversation: number): void {
    for (const [message, home] of this.active) if (home === conversation) this.active.delete(message);
    this.busy.delete(conversation);
  }

  private begin(message: number, conversation: number): void {
    this.active.set(message, conversation);
    this.busy.set(conversation, message);
  }

  private end(message: number, conversation: number): void {
    this.active.delete(message);
    if (this.busy.get(conversation) !== message) return;
    const other = [...this.active].find(([, home]) => home === conversation)?.[0];
    if (other === undefined) this.busy.delete(conversation);
    else this.busy.set(conversation, other);
  }

  private flush(): void {
    const begun = performance.now();
    // Runs after what was shown has been drawn, which also waits as a microtask.
    queueMicrotask(() =>
      queueMicrotask(() => {
        const cost = performance.now() - begun;
        this.rest = cost > CHEAP ? cost * REST : 0;
      }),
    );
    this.waiting = false;
    const touched = [...this.touched];
    this.touched.clear();
    for (const message of touched) {
      const stream = this.streams.get(message);
      if (stream) this.show(message, stream);
    }
  }
}
