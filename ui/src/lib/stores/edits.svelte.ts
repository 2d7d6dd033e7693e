// Owns texts that are being edited in place. They outlive their fields: a list renders only the
// rows near its viewport, and only the open view is mounted.

import { SvelteMap } from "svelte/reactivity";

/** An edited text, such as `answer:7`. */
export type Edited = `${"message" | "answer" | "conversation" | "folder" | "run"}:${number}` | "folder:new";

export class Edits {
  private readonly texts = new SvelteMap<Edited, string>();
  /** The original texts. */
  private readonly originals = new Map<Edited, string>();
  /**
   * The edit that began last, until its field has the focus. A field that is shown again does not
   * take the focus.
   */
  private awaitingFocus: Edited | null = $state(null);

  /** Whether any text was changed. */
  get changed(): boolean {
    return [...this.texts.keys()].some((editKey) => this.isChanged(editKey));
  }

  /** Whether a text is being edited and differs from its original. */
  isChanged(editKey: Edited): boolean {
    return this.texts.has(editKey) && this.texts.get(editKey) !== this.originals.get(editKey);
  }

  /** The edited text; `null` if there is no edit. */
  get(editKey: Edited): string | null {
    return this.texts.get(editKey) ?? null;
  }

  /** Starts an edit with a text, or continues an existing edit. */
  begin(editKey: Edited, text: string): void {
    this.awaitingFocus = editKey;
    if (this.texts.has(editKey)) return;
    this.originals.set(editKey, text);
    this.texts.set(editKey, text);
  }

  set(editKey: Edited, text: string): void {
    if (this.texts.has(editKey)) this.texts.set(editKey, text);
  }

  end(editKey: Edited): void {
    this.texts.delete(editKey);
    this.originals.delete(editKey);
  }

  /** Whether the field should take the focus. Returns `true` once per started edit. */
  takesFocus(editKey: Edited): boolean {
    const takes = this.awaitingFocus === editKey;
    if (takes) this.awaitingFocus = null;
    return takes;
  }
}
