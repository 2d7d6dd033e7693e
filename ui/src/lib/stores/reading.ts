// Reads from the host what events keep up to date. Its reply may be older than an event that arrives before it.

import type { HostEvent } from "../host";

export class Reading {
  private readonly missed = new Set<HostEvent[]>();

  constructor(private readonly apply: (event: HostEvent) => void) {}

  /** Applies an event, and once more after each reply that is awaited. */
  handle(event: HostEvent): void {
    for (const events of this.missed) events.push(event);
    this.apply(event);
  }

  /** Fills with a reply, and then applies the events that arrived since it was requested: each is at least as new. */
  async read<T>(request: () => Promise<T>, fill: (reply: T) => void): Promise<T> {
    const events: HostEvent[] = [];
    this.missed.add(events);
    try {
      const reply = await request();
      fill(reply);
      for (const event of events) this.apply(event);
      return reply;
    } finally {
      this.missed.delete(events);
    }
  }
}
