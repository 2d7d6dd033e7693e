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

export class Live {
  /** The answer that is being made in a conversation. */
  readonly busy = new SvelteMap<number, number>();
  private readonly streams = new Map<number, Stream>();
  private readonly touched = new Set<number>();

  /** `show` is called at most once a frame for each answer that grew. */
  constructor(
    private readonly show: (message: number, stream: Stream) => void,
    private readonly schedule: Schedule = nextFrame,
  ) {}

  grow(message: number, known: string, delta: { conversation: number; text: string; tokens: number; tokensPerSecond: number }): void {
    const text = (this.streams.get(message)?.text ?? known) + delta.text;
    this.streams.set(message, { ...delta, text });
    this.busy.set(delta.conversation, message);
    if (this.touched.size === 0) this.schedule(() => this.flush());
    this.touched.add(message);
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
      if (this.busy.get(message.conversation) === message.id) this.busy.delete(message.conversation);
      return message;
    }
    this.busy.set(message.conversation, message.id);
    const stream = this.streams.get(message.id);
    return stream && stream.text.length > message.content.length ? { ...message, content: stream.text, state: { type: "streaming" } } : message;
  }

  private flush(): void {
    const touched = [...this.touched];
    this.touched.clear();
    for (const message of touched) {
      const stream = this.streams.get(message);
      if (stream) this.show(message, stream);
    }
  }
}
