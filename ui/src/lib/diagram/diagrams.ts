// Owns the diagrams that were drawn and the worker that draws them, which is started with the first one.

import { Runner } from "../workers/runner";
import type { Drawing } from "./drawing";

/** A diagram that takes longer (in ms) is shown as its source. */
const TIMEOUT_MS = 4_000;
const MAX_CACHED = 60;

type Start = ConstructorParameters<typeof Runner<string, Drawing>>[0];

export class Diagrams {
  private readonly cache = new Map<string, Promise<Drawing | null>>();
  private readonly runner: Runner<string, Drawing>;

  constructor(start: Start) {
    this.runner = new Runner(start, { first: TIMEOUT_MS, again: 0 });
  }

  /** The drawing of a source; `null`: it is shown as its source. */
  draw(source: string): Promise<Drawing | null> {
    const known = this.cache.get(source);
    if (known) return known;
    const drawing = this.runner.run(source).catch(() => {
      this.cache.delete(source);
      return null;
    });
    const oldest = this.cache.size >= MAX_CACHED ? this.cache.keys().next().value : undefined;
    if (oldest !== undefined) this.cache.delete(oldest);
    this.cache.set(source, drawing);
    return drawing;
  }
}

export const diagrams = new Diagrams(() => new Worker(new URL("./worker.ts", import.meta.url), { type: "module" }));
