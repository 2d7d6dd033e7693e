// Owns what is known of the caches on the disk: where each is, and what it takes.

import type { Cache, Cached, Host } from "../host";

export class Caches {
  all: readonly Cached[] = $state.raw([]);
  /** The cache that was cleared last, as long as nothing was looked at since. */
  cleared: Cache | null = $state(null);

  constructor(private readonly host: Host) {}

  async look(): Promise<void> {
    this.all = await this.host.caches();
    this.cleared = null;
  }

  async clear(cache: Cache): Promise<void> {
    this.all = await this.host.clearCache(cache);
    this.cleared = cache;
  }
}
