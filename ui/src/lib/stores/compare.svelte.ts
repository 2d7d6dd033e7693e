// Owns comparison and blind mode, and which pairs of answers are revealed.

import { SvelteSet } from "svelte/reactivity";
import type { Message } from "../host";

export class Compare {
  on = $state(false);
  /** Hides which answer is which until the vote. */
  blind = $state(true);
  /** Revealed pairs, by the first answer's id. */
  private readonly open = new SvelteSet<number>();

  hidden(first: Message, second: Message): boolean {
    return this.blind && !first.better && !second.better && !this.open.has(Math.min(first.id, second.id));
  }

  reveal(first: Message, second: Message): void {
    this.open.add(Math.min(first.id, second.id));
  }

  /** Whether the second answer of a pair is on the left: pseudo-random, and stable per pair. */
  static swapped(pair: number): boolean {
    let x = Math.imul(pair ^ 0x9e3779b9, 0x85ebca6b);
    x ^= x >>> 13;
    x = Math.imul(x, 0xc2b2ae35);
    return ((x ^ (x >>> 16)) & 1) === 1;
  }
}
