// Owns how much of each message is shown, so that a long one is read in steps.

/** Most characters of a part of a message that are shown at first, and that each step adds. */
export const STEP = 120_000;

export class Lengths {
  /** By message, if more than the first step is shown. */
  all: ReadonlyMap<number, number> = $state.raw(new Map());

  /** Number of shown characters of each part of a message. */
  of(message: number): number {
    return this.all.get(message) ?? STEP;
  }

  /** Shows a step more of a message. */
  extend(message: number): void {
    this.all = new Map(this.all).set(message, this.of(message) + STEP);
  }
}
