// Owns the cache of typeset formulas and the typesetting worker, which is started by the first
// formula.

import { Runner } from "../../workers/runner";
import { Shared } from "../../workers/shared";
import { MAX_SOURCE } from "./delimiters";
import { size, type MathsElement } from "./tree";

/** Time limits in milliseconds. A formula that exceeds both is shown as its source. */
const LIMITS = { first: 500, retry: 3_000 };
/**
 * Maximum nodes of cached formulas. A cached formula is shown at once when it is rendered again.
 */
const MAX_CACHED = 500_000;

export interface Formula {
  source: string;
  display: boolean;
}

type Start = ConstructorParameters<typeof Runner<Formula, MathsElement>>[0];

export class Formulas {
  private readonly cache = new Map<string, { tree: MathsElement | null; nodes: number }>();
  private cached = 0;
  private readonly pending: Shared<Formula, MathsElement | null>;
  private readonly runner: Runner<Formula, MathsElement>;
  private style: Promise<unknown> | null = null;

  constructor(
    start: Start,
    private readonly loadStyle: () => Promise<unknown>,
  ) {
    this.runner = new Runner(start, LIMITS);
    this.pending = new Shared(
      (formula, name) => this.begin(formula, name),
      (formula) => this.runner.withdraw(formula),
    );
  }

  /**
   * The cached tree of a formula; `null` if it is shown as its source, `undefined` if it is not
   * cached.
   */
  known({ source, display }: Formula): MathsElement | null | undefined {
    return source.length > MAX_SOURCE ? null : this.cache.get(key({ source, display }))?.tree;
  }

  /**
   * The tree of a formula; `null` if it is shown as its source. A waiting job is withdrawn once all
   * callers have `left`.
   */
  typeset(formula: Formula, left?: AbortSignal): Promise<MathsElement | null> {
    const cached = this.known(formula);
    return cached !== undefined ? Promise.resolve(cached) : this.pending.get(key(formula), formula, left);
  }

  private async begin(formula: Formula, name: string): Promise<MathsElement | null> {
    this.style ??= this.loadStyle();
    try {
      const [tree] = await Promise.all([this.runner.run(formula), this.style]);
      this.keep(name, tree);
      return tree;
    } catch {
      // The worker or the style sheet could not be loaded. The next request tries again.
      this.style = null;
      return null;
    }
  }

  private keep(name: string, tree: MathsElement | null): void {
    const nodes = tree ? size(tree) : 1;
    this.cache.set(name, { tree, nodes });
    this.cached += nodes;
    for (const [oldest, { nodes }] of this.cache) {
      if (this.cached <= MAX_CACHED || oldest === name) return;
      this.cache.delete(oldest);
      this.cached -= nodes;
    }
  }
}

function key({ source, display }: Formula): string {
  return `${display ? "d" : "i"}${source}`;
}

export const formulas = new Formulas(
  () => new Worker(new URL("./worker.ts", import.meta.url), { type: "module" }),
  () => import("./style"),
);
