// Owns the caches on disk: path and size of each.

import type { Cache, CacheUsage, Host } from "../host";

export class Caches {
  all: readonly CacheUsage[] = $state.raw([]);
  /** The last cleared cache, until the next reload of the list. */
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
