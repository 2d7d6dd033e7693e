// The numbers of an answer's footnotes.

import type { Token } from "../blocks";

/** Maximum numbered footnotes of an answer; further ones are shown as their source. */
export const MAX_NOTES = 1_000;

/** Numbers the footnotes of a growing text in their order. */
export class Numbering {
  private numbers: ReadonlyMap<string, number> = new Map();

  /**
   * The number of each label. Returns the same map if there is no new label, so that nothing is
   * rendered again.
   */
  read(blocks: Iterable<Token>): ReadonlyMap<string, number> {
    const numbers = new Map<string, number>();
    let isNew = false;
    for (const block of blocks) {
      if (block.type !== "note" || numbers.size === MAX_NOTES) continue;
      const label = String(block.label);
      if (numbers.has(label)) continue;
      numbers.set(label, numbers.size + 1);
      isNew ||= this.numbers.get(label) !== numbers.size;
    }
    if (isNew || numbers.size !== this.numbers.size) this.numbers = numbers;
    return this.numbers;
  }
}
