// Owns the drafts: one unsent text per conversation, saved across restarts.

import { SvelteMap } from "svelte/reactivity";

const KEY = "hearth.drafts";

/** The part of the browser's storage that drafts need. */
export type DraftStorage = Pick<Storage, "getItem" | "setItem">;

export class Drafts {
  private readonly texts = new SvelteMap<string, string>();

  constructor(private readonly storage: DraftStorage | null) {
    try {
      const saved: unknown = JSON.parse(storage?.getItem(KEY) ?? "{}");
      if (typeof saved !== "object" || saved === null) return;
      for (const [id, text] of Object.entries(saved)) if (typeof text === "string") this.texts.set(id, text);
    } catch {
      // Unreadable storage means no drafts.
    }
  }

  get(conversation: number | null): string {
    return this.texts.get(String(conversation)) ?? "";
  }

  set(conversation: number | null, text: string): void {
    if (text === "") this.texts.delete(String(conversation));
    else this.texts.set(String(conversation), text);
    try {
      this.storage?.setItem(KEY, JSON.stringify(Object.fromEntries(this.texts)));
    } catch {
      // With a full storage the draft is lost at a restart, not before.
    }
  }
}
