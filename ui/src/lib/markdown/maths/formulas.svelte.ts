// Owns the formulas that were rendered, and the time that rendering may take of each frame.

import type { formula } from "./katex";
import { MAX_SOURCE } from "./delimiters";
import type { MathsElement } from "./tree";

/** Milliseconds of a frame for formulas; the others wait for the next one. */
const BUDGET_MS = 8;
const MAX_CACHED = 400;

type Render = typeof formula;

export class Formulas {
  private render: Render | null = $state.raw(null);
  /** Counts the frames in which waiting formulas are tried again. */
  private frame = $state(0);
  private loading = false;
  private spent = 0;
  private waiting = false;
  private readonly cache = new Map<string, MathsElement | null>();

  constructor(
    private readonly load: () => Promise<Render>,
    private readonly nextFrame: (callback: () => void) => void = (callback) => requestAnimationFrame(callback),
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** The tree of a formula. `null`: its source is shown, for ever or until it is its turn. */
  tree(source: string, display: boolean): MathsElement | null {
    if (typeof document === "undefined" || source.length > MAX_SOURCE) return null;
    if (!this.render) return this.begin();
    const key = `${display ? "d" : "i"}${source}`;
    const known = this.cache.get(key);
    if (known !== undefined) return known;
    this.wake();
    if (this.spent > BUDGET_MS) {
      void this.frame;
      return null;
    }
    const begun = this.now();
    const tree = this.render(source, display);
    this.spent += this.now() - begun;
    this.keep(key, tree);
    return tree;
  }

  private keep(key: string, tree: MathsElement | null): void {
    const oldest = this.cache.size >= MAX_CACHED ? this.cache.keys().next().value : undefined;
    if (oldest !== undefined) this.cache.delete(oldest);
    this.cache.set(key, tree);
  }

  private begin(): null {
    if (this.loading) return null;
    this.loading = true;
    // A formula whose renderer could not be loaded stays its source.
    this.load().then((render) => (this.render = render), () => {});
    return null;
  }

  private wake(): void {
    if (this.waiting) return;
    this.waiting = true;
    this.nextFrame(() => {
      this.waiting = false;
      this.spent = 0;
      this.frame++;
    });
  }
}

export const formulas = new Formulas(async () => (await import("./katex")).formula);
