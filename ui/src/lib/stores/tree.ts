// A conversation's messages as the tree they form: who follows whom, and which branch a leaf names.

/** What a tree knows of a message. */
export interface Link {
  id: number;
  parent: number | null;
}

export class Tree {
  private readonly parents = new Map<number, number | null>();
  private readonly children = new Map<number | null, number[]>();

  constructor(links: Iterable<Link> = []) {
    for (const link of links) this.add(link);
  }

  has(id: number): boolean {
    return this.parents.has(id);
  }

  /** Siblings keep the order in which they were added. */
  add({ id, parent }: Link): void {
    if (this.parents.has(id)) return;
    this.parents.set(id, parent);
    const siblings = this.children.get(parent);
    if (siblings) siblings.push(id);
    else this.children.set(parent, [id]);
  }

  /** From the first message to the leaf. A parent that is missing, or a circle, ends it. */
  path(leaf: number | null): number[] {
    const path: number[] = [];
    const seen = new Set<number>();
    for (let id = leaf; id !== null && this.parents.has(id) && !seen.has(id); id = this.parents.get(id) ?? null) {
      seen.add(id);
      path.push(id);
    }
    return path.reverse();
  }

  /** The message itself and those beside it, oldest first. */
  siblings(id: number): readonly number[] {
    return this.children.get(this.parents.get(id) ?? null) ?? [id];
  }
}
