// Owns the command palette: whether it is open, and the items used last.

import type { PageStorage } from "./storage";

const KEY = "hearth.palette";

/** Number of items remembered. */
const REMEMBERED = 12;

export class Palette {
  open = $state(false);
  /** Ids of the items used last, newest first. */
  recent: readonly string[] = $state.raw([]);

  constructor(private readonly storage: PageStorage | null) {
    try {
      const saved: unknown = JSON.parse(storage?.getItem(KEY) ?? "[]");
      if (Array.isArray(saved))
        this.recent = saved.filter((id): id is string => typeof id === "string").slice(0, REMEMBERED);
    } catch {
      // Unreadable storage means that nothing was used.
    }
  }

  toggle(): void {
    this.open = !this.open;
  }

  used(id: string): void {
    this.recent = [id, ...this.recent.filter((other) => other !== id)].slice(0, REMEMBERED);
    try {
      this.storage?.setItem(KEY, JSON.stringify(this.recent));
    } catch {
      // With a full storage the order is lost at a restart, not before.
    }
  }
}
