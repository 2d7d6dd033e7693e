// Owns the shown length of each message: long messages are shown in steps.

/** Characters per part of a message that are shown at first, and that each step adds. */
export const STEP = 120_000;

export class Lengths {
  /** Shown characters by message, if more than the first step. */
  all: ReadonlyMap<number, number> = $state.raw(new Map());

  /** Number of shown characters of each part of a message. */
  of(message: number): number {
    return this.all.get(message) ?? STEP;
  }

  /** Shows one more step of a message. */
  extend(message: number): void {
    this.all = new Map(this.all).set(message, this.of(message) + STEP);
  }
}
