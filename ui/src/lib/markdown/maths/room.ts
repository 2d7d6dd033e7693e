// Limits the total number of nodes of the formulas of one answer, so that rendering stays fast.

import { getContext, setContext } from "svelte";

/** Maximum nodes of all formulas of an answer. Further formulas are shown as their source. */
const MAX_DRAWN = 50_000;

export class Room {
  private readonly shares = new Map<object, number>();
  private used = 0;

  /**
   * Reserves nodes for a formula, replacing its earlier reservation; `false` if there are not
   * enough.
   */
  take(formula: object, nodes: number): boolean {
    this.release(formula);
    if (this.used + nodes > MAX_DRAWN) return false;
    this.used += nodes;
    this.shares.set(formula, nodes);
    return true;
  }

  /** Releases the reservation of a formula. */
  release(formula: object): void {
    this.used -= this.shares.get(formula) ?? 0;
    this.shares.delete(formula);
  }
}

const KEY = Symbol("room");

export function provideRoom(): void {
  setContext(KEY, new Room());
}

export function useRoom(): Room {
  return getContext<Room>(KEY);
}
