// Owns what is typed and not yet sent, one text a conversation; kept over a restart.

import { SvelteMap } from "svelte/reactivity";

const KEY = "hearth.drafts";

/** The part of the browser's storage that drafts need. */
export type Shelf = Pick<Storage, "getItem" | "setItem">;

export class Drafts {
  private readonly texts = new SvelteMap<string, string>();

  constructor(private readonly shelf: Shelf | null) {
    try {
      const kept: unknown = JSON.parse(shelf?.getItem(KEY) ?? "{}");
      if (typeof kept !== "object" || kept === null) return;
      for (const [id, text] of Object.entries(kept)) if (typeof text === "string") this.texts.set(id, text);
    } catch {
      // What cannot be read is no draft.
    }
  }

  get(conversation: number | null): string {
    return this.texts.get(String(conversation)) ?? "";
  }

  set(conversation: number | null, text: string): void {
    if (text === "") this.texts.delete(String(conversation));
    else this.texts.set(String(conversation), text);
    try {
      this.shelf?.setItem(KEY, JSON.stringify(Object.fromEntries(this.texts)));
    } catch {
      // A full shelf costs the draft after a restart, not now.
    }
  }
}
