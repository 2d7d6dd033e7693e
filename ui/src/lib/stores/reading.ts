// Reads state from the host that events keep up to date. A reply may be older than an event that
// arrived before it.

import type { Announced, Host } from "../host";

export class Reading {
  private readonly missed = new Set<Announced[]>();

  constructor(private readonly apply: (event: Announced) => void) {}

  /** Applies an event now, and again after each pending reply, which may be older. */
  handle(event: Announced): void {
    for (const events of this.missed) events.push(event);
    this.apply(event);
  }

  /** Reads a reply, then reapplies the events that it may not include. */
  async read<T>(host: Host, request: (host: Host) => Promise<T>, fill: (reply: T) => void): Promise<T> {
    const events: Announced[] = [];
    this.missed.add(events);
    try {
      const included = await host.revision();
      const reply = await request(host);
      fill(reply);
      for (const event of events) if (event.revision > included) this.apply(event);
      return reply;
    } finally {
      this.missed.delete(events);
    }
  }
}
