// Selects the parts of large test products that a run executes, like crates/test-parts for Rust.
// The index of a case determines its part. `HEARTH_PART_AXE=2,4/4` selects parts 2 and 4 of four of
// the product axe; unset, all cases run. `HEARTH_CASES` names a folder in which each process lists
// the cases that it ran and left out.

import { appendFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";

interface Selection {
  /** Numbers from 1; empty for all. */
  selected: number[];
  /** Number of parts. */
  of: number;
}

/** Parses `2,4/4`; undefined if it is malformed. */
export function parse(value: string): Selection | undefined {
  const match = /^(\d+(?:,\d+)*)\/(\d+)$/.exec(value);
  if (!match) return undefined;
  const of = Number(match[2]);
  const selected = match[1]!.split(",").map(Number);
  return selected.every((part) => part >= 1 && part <= of) ? { selected, of } : undefined;
}

export class Parts {
  constructor(
    private readonly product: string,
    private readonly selection: Selection,
    private readonly folder?: string,
  ) {}

  /**
   * The parts of a product (lower-case letters) that the environment selects. A malformed variable
   * is an error: a test must not pass by running nothing.
   */
  static of(product: string): Parts {
    const name = `HEARTH_PART_${product.toUpperCase()}`;
    const value = process.env[name];
    const selection = value === undefined ? { selected: [], of: 1 } : parse(value);
    if (!selection) throw new Error(`${name}=${value}: expected parts such as 2,4/4`);
    return new Parts(product, selection, process.env.HEARTH_CASES);
  }

  /** Whether this run includes the case with this index, which is listed as run or left out. */
  includes(index: number, name: string): boolean {
    const { selected, of } = this.selection;
    const part = (index % of) + 1;
    const included = selected.length === 0 || selected.includes(part);
    if (this.folder !== undefined) {
      mkdirSync(this.folder, { recursive: true });
      // One write, so that lines of threads are not mixed.
      appendFileSync(
        join(this.folder, `${this.product}-${process.pid}.txt`),
        `${included ? "ran" : "left"} ${part}/${of} ${this.product} ${name}\n`,
      );
    }
    return included;
  }
}
