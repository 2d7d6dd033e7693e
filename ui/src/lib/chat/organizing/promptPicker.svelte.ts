// Selects a saved prompt by typing `/` and its name in the composer.

import type { SavedPrompt } from "../../host";
import type { App } from "../../stores/app.svelte";
import { commandIn } from "../../stores/prompts.svelte";

export class PromptPicker {
  /** For the ids of the list and its options. */
  readonly id: string;
  /** The option that Enter takes; the last one opens the saved prompts. */
  private at = $state(0);
  /** Whether Escape has closed the list for the current draft. */
  private dismissed = $state(false);

  private readonly command: string | null = $derived.by(() => commandIn(this.app.drafts.get(this.app.thread.id)));
  readonly found: readonly SavedPrompt[] = $derived.by(() =>
    this.command === null ? [] : this.app.prompts.find(this.command),
  );
  /** The list is shown for a slash alone, even without prompts, with a hint on creating them. */
  readonly open: boolean = $derived(
    this.command !== null && !this.dismissed && (this.found.length > 0 || this.command === ""),
  );
  /** Options of the list: the prompts, and their page. */
  private readonly count: number = $derived(this.found.length + 1);
  readonly current: number = $derived(Math.min(this.at, this.count - 1));

  constructor(
    private readonly app: App,
    id: string,
  ) {
    this.id = id;
    $effect(() => {
      if (this.command === null) this.dismissed = false;
      // A changed name selects its best match.
      this.at = 0;
    });
  }

  /**
   * The attributes of the field that has the list. A text area is no combobox, but has its
   * relations.
   */
  get aria(): {
    "aria-autocomplete": "list";
    "aria-haspopup": "listbox";
    "aria-controls": string | undefined;
    "aria-activedescendant": string | undefined;
  } {
    return {
      "aria-autocomplete": "list",
      "aria-haspopup": "listbox",
      "aria-controls": this.open ? this.id : undefined,
      "aria-activedescendant": this.open ? this.optionId(this.current) : undefined,
    };
  }

  optionId(at: number): string {
    return `${this.id}-${at}`;
  }

  point(at: number): void {
    this.at = at;
  }

  /** Handles a key of the composer. Returns `true` if the list used it. */
  keys(event: KeyboardEvent): boolean {
    if (!this.open || event.isComposing || event.altKey || event.ctrlKey || event.metaKey) return false;
    const to = { ArrowDown: this.current + 1, ArrowUp: this.current - 1 }[event.key];
    if (to !== undefined) this.at = (to + this.count) % this.count;
    else if (event.key === "Escape") this.dismissed = true;
    else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey) this.take(this.current);
    else return false;
    event.preventDefault();
    // Escape would also stop an answer.
    event.stopPropagation();
    return true;
  }

  take(at: number): void {
    const prompt = this.found[at];
    if (prompt) void this.app.insertPrompt(prompt);
    else this.app.dialog = { for: "prompts" };
  }
}
