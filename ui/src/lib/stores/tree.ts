// The message tree of a conversation; a leaf names a branch.

/** A message's place in the tree. */
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

  /** Adds a message after its siblings. */
  add({ id, parent }: Link): void {
    if (this.parents.has(id)) return;
    this.parents.set(id, parent);
    const siblings = this.children.get(parent);
    if (siblings) siblings.push(id);
    else this.children.set(parent, [id]);
  }

  /** The messages from the root to a leaf. A missing parent or a cycle ends the path. */
  path(leaf: number | null): number[] {
    const path: number[] = [];
    const seen = new Set<number>();
    for (let id = leaf; id !== null && this.parents.has(id) && !seen.has(id); id = this.parents.get(id) ?? null) {
      seen.add(id);
      path.push(id);
    }
    return path.reverse();
  }

  /** The message and its siblings, oldest first. */
  siblings(id: number): readonly number[] {
    return this.children.get(this.parents.get(id) ?? null) ?? [id];
  }

  /**
   * The siblings of a message, itself included, oldest first. The messages of a group are shown
   * together and are one version.
   */
  versions(id: number, group: (id: number) => readonly number[]): (readonly [number, ...number[]])[] {
    const versions: (readonly [number, ...number[]])[] = [];
    const seen = new Set<number>();
    for (const sibling of this.siblings(id)) {
      if (seen.has(sibling)) continue;
      const others = group(sibling).filter((other) => other !== sibling);
      for (const version of [sibling, ...others]) seen.add(version);
      versions.push([sibling, ...others]);
    }
    return versions;
  }

  /** A message and all messages below it. */
  subtree(id: number): ReadonlySet<number> {
    // A set, because of cycles; its iterator also visits ids that are added meanwhile.
    const ids = new Set([id]);
    for (const at of ids) for (const child of this.children.get(at) ?? []) ids.add(child);
    return ids;
  }

  /** The one of some messages that was replied to last, or else the last one. */
  continued(ids: readonly [number, ...number[]]): number {
    const reply = (id: number) => this.children.get(id)?.at(-1) ?? -Infinity;
    return ids.reduce((best, id) => (reply(id) >= reply(best) ? id : best));
  }
}
