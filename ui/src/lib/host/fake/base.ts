// Shared by all parts of the fake host: listeners, pace, ids.

import type { HostEvent } from "../host";

export class FakeBase {
  /** Milliseconds between tokens, and between steps of a run; tests set it. */
  pace = 24;
  private readonly listeners = new Set<(event: HostEvent) => void>();
  private nextId = 1_000_000;

  async onEvent(listener: (event: HostEvent) => void): Promise<() => void> {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  protected emit(event: HostEvent): void {
    for (const listener of this.listeners) listener(event);
  }

  protected newId(): number {
    return this.nextId++;
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
