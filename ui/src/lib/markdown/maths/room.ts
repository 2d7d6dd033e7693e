// Limits how much the formulas of one answer draw together, so that a page of them stays fast.

import { getContext, setContext } from "svelte";

/** Nodes of all formulas of an answer. Those beyond are shown as their source. */
const MAX_DRAWN = 50_000;

export class Room {
  private readonly shares = new Map<object, number>();
  private used = 0;

  /** Gives a formula room for its nodes, instead of the room that it had; `false`: there is not enough. */
  take(formula: object, nodes: number): boolean {
    this.release(formula);
    if (this.used + nodes > MAX_DRAWN) return false;
    this.used += nodes;
    this.shares.set(formula, nodes);
    return true;
  }

  /** Takes back a formula's room. */
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
