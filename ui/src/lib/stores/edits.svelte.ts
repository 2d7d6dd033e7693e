// Owns texts that are being edited in place. They outlive their fields: a list renders only the rows near its viewport, and a
// view is gone while another one is open.

import { SvelteMap } from "svelte/reactivity";

/** An edited text, such as `answer:7`. */
export type Edited = `${"message" | "answer" | "conversation" | "folder" | "run"}:${number}` | "folder:new";

export class Edits {
  private readonly texts = new SvelteMap<Edited, string>();
  /** The texts before they were edited. */
  private readonly originals = new Map<Edited, string>();
  /**
   * The edit that began last, until its field has the focus. A field that is shown again does not
   * take the focus.
   */
  private begun: Edited | null = $state(null);

  /** Whether there is a text that was changed. */
  get changed(): boolean {
    return [...this.texts].some(([what, text]) => text !== this.originals.get(what));
  }

  /** The text; `null`: it is not being edited. */
  get(what: Edited): string | null {
    return this.texts.get(what) ?? null;
  }

  /** Begins with a text, or goes on with what is being edited already. */
  begin(what: Edited, text: string): void {
    this.begun = what;
    if (this.texts.has(what)) return;
    this.originals.set(what, text);
    this.texts.set(what, text);
  }

  set(what: Edited, text: string): void {
    if (this.texts.has(what)) this.texts.set(what, text);
  }

  end(what: Edited): void {
    this.texts.delete(what);
    this.originals.delete(what);
  }

  /** Whether the field of what was begun should take the focus: once. */
  takesFocus(what: Edited): boolean {
    const takes = this.begun === what;
    if (takes) this.begun = null;
    return takes;
  }
}
