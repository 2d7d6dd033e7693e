// Owns whether the next message is answered twice, and which pairs of answers say whose they are.

import { SvelteSet } from "svelte/reactivity";
import type { Message } from "../host";

export class Compare {
  on = $state(false);
  /** Whether who answered what is hidden until there is a vote. */
  blind = $state(true);
  /** Pairs whose secret was asked for, by the first answer's id. */
  private readonly open = new SvelteSet<number>();

  hidden(first: Message, second: Message): boolean {
    return this.blind && !first.better && !second.better && !this.open.has(Math.min(first.id, second.id));
  }

  reveal(first: Message, second: Message): void {
    this.open.add(Math.min(first.id, second.id));
  }

  /** Whether the second of a pair stands on the left: as good as drawn by lot, and the same whenever it is shown. */
  static swapped(pair: number): boolean {
    let x = Math.imul(pair ^ 0x9e3779b9, 0x85ebca6b);
    x ^= x >>> 13;
    x = Math.imul(x, 0xc2b2ae35);
    return ((x ^ (x >>> 16)) & 1) === 1;
  }
}
