// Owns the shown length of each message. Long messages are shown in steps; the user's are folded at
// first.

import { SvelteSet } from "svelte/reactivity";

/** Characters per part of a message that are shown at first, and that each step adds. */
export const STEP = 120_000;

export class Lengths {
  /** Shown characters by message, if more than the first step. */
  all: ReadonlyMap<number, number> = $state.raw(new Map());

  private readonly unfolded = new SvelteSet<number>();

  /** Whether the user unfolded a message. */
  isUnfolded(message: number): boolean {
    return this.unfolded.has(message);
  }

  /** Unfolds a message, or folds it. */
  unfold(message: number, open: boolean): void {
    if (open) this.unfolded.add(message);
    else this.unfolded.delete(message);
  }

  /** Number of shown characters of each part of a message. */
  of(message: number): number {
    return this.all.get(message) ?? STEP;
  }

  /** Shows one more step of a message. */
  extend(message: number): void {
    this.all = new Map(this.all).set(message, this.of(message) + STEP);
  }
}
