// Owns the parts of streaming answers in every conversation, and which conversations are busy.

import { SvelteMap } from "svelte/reactivity";
import { isActive, type HostEvent, type Message, type Part } from "../host";
import { grown, joined, lengthOf } from "../text/parts";

export interface Stream {
  conversation: number;
  parts: Part[];
  tokens: number;
  tokensPerSecond: number;
  /** Tokens of the context in use; 0 until they are known. */
  contextUsed: number;
  /** Whether the start of the text is missing: the page was loaded during generation. */
  isTail: boolean;
}

type Delta = Pick<
  Extract<HostEvent, { type: "messageDelta" }>,
  "conversation" | "kind" | "text" | "tokens" | "tokensPerSecond" | "contextUsed"
>;

/** Runs a callback before the next frame, or soon if the page is hidden. */
export type Schedule = (callback: () => void) => void;

export const nextFrame: Schedule = (callback) => {
  if (typeof document !== "undefined" && !document.hidden) requestAnimationFrame(callback);
  else setTimeout(callback, 100);
};

/** Time of a render, in milliseconds, above which an answer is rendered less often. */
const SLOW_RENDER_MS = 8;
/**
 * Idle time between such renders, as a multiple of the render time. It keeps scrolling and typing
 * responsive.
 */
const REST_FACTOR = 5;

export class Live {
  /** The answer being generated in each conversation; one of them if several are compared. */
  readonly busy = new SvelteMap<number, number>();
  /** Every answer being generated, and its conversation. */
  private readonly active = new Map<number, number>();
  private readonly streams = new Map<number, Stream>();
  private readonly touched = new Set<number>();
  /** Whether a flush is scheduled. */
  private waiting = false;
  /** Milliseconds to wait before the next flush. */
  private rest = 0;

  /** Calls `show` at most once per frame for each answer that grew. */
  constructor(
    private readonly show: (message: number, stream: Stream) => void,
    private readonly schedule: Schedule = nextFrame,
  ) {}

  grow(message: number, stored: readonly Part[], delta: Delta): void {
    const { conversation, tokens, tokensPerSecond, contextUsed } = delta;
    const before = this.streams.get(message);
    const parts = grown(before?.parts ?? stored, delta.kind, delta.text);
    // The start of an answer is announced before its text.
    const isTail = before?.isTail ?? (stored.length === 0 && !this.active.has(message));
    this.streams.set(message, { conversation, parts, tokens, tokensPerSecond, contextUsed, isTail });
    this.touch(message, conversation);
  }

  /**
   * Replaces the parts of an answer whose text was reclassified as thinking. The message is
   * complete.
   */
  fold({ id, conversation, parts }: Message): void {
    this.streams.set(id, {
      tokens: 0,
      tokensPerSecond: 0,
      contextUsed: 0,
      ...this.streams.get(id),
      conversation,
      parts,
      isTail: false,
    });
    this.touch(id, conversation);
  }

  private touch(message: number, conversation: number): void {
    this.begin(message, conversation);
    this.touched.add(message);
    if (this.waiting) return;
    this.waiting = true;
    if (this.rest > 0) setTimeout(() => this.schedule(() => this.flush()), this.rest);
    else this.schedule(() => this.flush());
  }

  /** Whether an answer is being generated. */
  isActive(message: number): boolean {
    return this.active.has(message);
  }

  /** Tokens per second of a streaming answer. */
  speed(message: number): number | null {
    return this.streams.get(message)?.tokensPerSecond ?? null;
  }

  /** Tokens of the context that a streaming answer uses; `null` if they are not known. */
  contextUsed(message: number): number | null {
    return this.streams.get(message)?.contextUsed || null;
  }

  /** Merges a message from the host with the stream: a streaming answer retains the longer text. */
  merge(message: Message): Message {
    if (!isActive(message)) {
      this.streams.delete(message.id);
      this.touched.delete(message.id);
      this.end(message.id, message.conversation);
      return message;
    }
    this.begin(message.id, message.conversation);
    const stream = this.streams.get(message.id);
    const knownLength = stream ? lengthOf(stream.parts) : 0;
    const parts = stream?.isTail
      ? joined(message.parts, stream.parts)
      : stream && knownLength > 0 && knownLength >= lengthOf(message.parts)
        ? stream.parts
        : message.parts;
    // Further text is appended to the longer text. A continued answer has a known beginning, also
    // while another conversation is open.
    if (stream || message.state.type === "streaming")
      this.streams.set(message.id, {
        tokens: 0,
        tokensPerSecond: 0,
        contextUsed: 0,
        ...stream,
        conversation: message.conversation,
        parts,
        isTail: false,
      });
    return parts === message.parts ? message : { ...message, parts, state: { type: "streaming" } };
  }

  /** Drops the streams of a conversation that was removed. */
  drop(conversation: number): void {
    for (const [message, home] of this.active) if (home === conversation) this.active.delete(message);
    for (const [message, stream] of this.streams)
      if (stream.conversation === conversation) this.streams.delete(message);
    this.busy.delete(conversation);
  }

  /** Registers an answer as being generated. */
  begin(message: number, conversation: number): void {
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
    const start = performance.now();
    // Runs after Svelte has rendered the shown parts, which it does in an earlier microtask.
    queueMicrotask(() =>
      queueMicrotask(() => {
        const cost = performance.now() - start;
        this.rest = cost > SLOW_RENDER_MS ? cost * REST_FACTOR : 0;
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
