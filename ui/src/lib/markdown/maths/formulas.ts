// Owns the formulas that were typeset and the worker that does it, which is started with the first one.

import { Runner } from "../../workers/runner";
import { Shared } from "../../workers/shared";
import { MAX_SOURCE } from "./delimiters";
import { size, type MathsElement } from "./tree";

/** Milliseconds for a formula, and for one that took longer, once no other waits. Then it is shown as its source. */
const LIMITS = { first: 500, again: 3_000 };
/** Nodes of the formulas that are kept, to be shown at once when they are seen again. */
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

  /** The tree of a formula that was typeset; `null`: it is shown as its source; `undefined`: it was not typeset yet. */
  known({ source, display }: Formula): MathsElement | null | undefined {
    return source.length > MAX_SOURCE ? null : this.cache.get(key({ source, display }))?.tree;
  }

  /** The tree of a formula; `null`: it is shown as its source. One that waits when all who asked for it have `left` is not typeset. */
  typeset(formula: Formula, left?: AbortSignal): Promise<MathsElement | null> {
    const known = this.known(formula);
    return known !== undefined ? Promise.resolve(known) : this.pending.get(key(formula), formula, left);
  }

  private async begin(formula: Formula, name: string): Promise<MathsElement | null> {
    this.style ??= this.loadStyle();
    try {
      const [tree] = await Promise.all([this.runner.run(formula), this.style]);
      this.keep(name, tree);
      return tree;
    } catch {
      // Without a worker there is no tree, and without its style a tree cannot be read. The next time there may be both.
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
