// Shared by all parts of the fake host: listeners, pace, ids.

import type { Announced, HostEvent } from "../host";

export class FakeBase {
  private milliseconds = 24;
  /** Ends the rests at the old pace. */
  private readonly resting = new Set<() => void>();
  private readonly listeners = new Set<(event: Announced) => void>();
  private nextId = 1_000_000;
  private lastRevision = 0;

  /**
   * Milliseconds between tokens, and between steps of a run. Tests set it, also during a rest;
   * `Infinity` holds all work.
   */
  get pace(): number {
    return this.milliseconds;
  }

  set pace(milliseconds: number) {
    this.milliseconds = milliseconds;
    for (const wake of this.resting) wake();
  }

  /** Waits for a number of paces. */
  protected async rest(paces = 1): Promise<void> {
    const start = performance.now();
    do {
      const remaining = Math.max(0, this.pace * paces - (performance.now() - start));
      await new Promise<void>((resolve) => {
        const wake = () => {
          clearTimeout(timer);
          this.resting.delete(wake);
          resolve();
        };
        const timer = remaining === Infinity ? undefined : setTimeout(wake, remaining);
        this.resting.add(wake);
      });
    } while (performance.now() - start < this.pace * paces);
  }

  async onEvent(listener: (event: Announced) => void): Promise<() => void> {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  async revision(): Promise<number> {
    return this.lastRevision;
  }

  protected emit(event: HostEvent): void {
    const numbered = { ...event, revision: ++this.lastRevision };
    for (const listener of this.listeners) listener(numbered);
  }

  protected newId(): number {
    return this.nextId++;
  }
}
