// Owns the state of the command palette: open or closed, and recently used items.

import type { PageStorage } from "./storage";

const KEY = "hearth.palette";

/** Maximum number of recent items. */
const REMEMBERED = 12;

export class Palette {
  open = $state(false);
  /** Ids of recently used items, newest first. */
  recent: readonly string[] = $state.raw([]);

  constructor(private readonly storage: PageStorage | null) {
    try {
      const saved: unknown = JSON.parse(storage?.getItem(KEY) ?? "[]");
      if (Array.isArray(saved))
        this.recent = saved.filter((id): id is string => typeof id === "string").slice(0, REMEMBERED);
    } catch {
      // Unreadable storage means no recent items.
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
      // If the storage is full, recent items are lost at the next start.
    }
  }
}
