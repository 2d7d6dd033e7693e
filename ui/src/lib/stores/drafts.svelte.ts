// Owns the text of each draft: one per conversation. The app saves it.

import { SvelteMap } from "svelte/reactivity";
import type { UnsentSaver } from "./unsent";

export class Drafts {
  private readonly texts = new SvelteMap<number | null, string>();

  constructor(private readonly saver: UnsentSaver) {}

  get(conversation: number | null): string {
    return this.texts.get(conversation) ?? "";
  }

  /** Restores the text that the app has saved. */
  fill(conversation: number | null, text: string): void {
    this.texts.set(conversation, text);
  }

  set(conversation: number | null, text: string): void {
    if (text === "") this.texts.delete(conversation);
    else this.texts.set(conversation, text);
    this.saver.change(conversation, { text });
  }
}
