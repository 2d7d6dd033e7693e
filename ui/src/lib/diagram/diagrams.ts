// Owns the cache of drawings and the worker that draws them, which is started by the first diagram.

import { Runner } from "../workers/runner";
import { Shared } from "../workers/shared";
import type { Drawing } from "./drawing";

/** Time limit in milliseconds. A diagram that takes longer is shown as its source. */
const TIMEOUT_MS = 4_000;
const MAX_CACHED = 60;

type Start = ConstructorParameters<typeof Runner<string, Drawing>>[0];

export class Diagrams {
  private readonly cache = new Map<string, Drawing | null>();
  private readonly pending: Shared<string, Drawing | null>;
  private readonly runner: Runner<string, Drawing>;

  constructor(start: Start) {
    this.runner = new Runner(start, { first: TIMEOUT_MS, retry: 0 });
    this.pending = new Shared(
      (source) => this.begin(source),
      (source) => this.runner.withdraw(source),
    );
  }

  /**
   * The drawing of a source; `null` if it is shown as its source. A waiting job is withdrawn once
   * all callers have `left`.
   */
  draw(source: string, left?: AbortSignal): Promise<Drawing | null> {
    const cached = this.cache.get(source);
    return cached !== undefined ? Promise.resolve(cached) : this.pending.get(source, source, left);
  }

  private async begin(source: string): Promise<Drawing | null> {
    try {
      const drawing = await this.runner.run(source);
      const oldest = this.cache.size >= MAX_CACHED ? this.cache.keys().next().value : undefined;
      if (oldest !== undefined) this.cache.delete(oldest);
      this.cache.set(source, drawing);
      return drawing;
    } catch {
      // No worker could be started. The next request tries again.
      return null;
    }
  }
}

export const diagrams = new Diagrams(() => new Worker(new URL("./worker.ts", import.meta.url), { type: "module" }));
