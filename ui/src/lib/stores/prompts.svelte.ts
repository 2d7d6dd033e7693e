// Owns the saved prompts, sorted by name.

import type { Host, Announced, SavedPrompt } from "../host";
import { Reading } from "./reading";

/** A draft that selects a prompt: a slash and the start of a name. */
const COMMAND = /^\/([\p{L}\p{N}_-]*)$/u;

/** Maximum characters of a name. */
export const MAX_NAME = 40;

export class Prompts {
  all: readonly SavedPrompt[] = $state.raw([]);
  private readonly reading = new Reading((event) => {
    if (event.type === "promptsChanged") this.all = event.prompts;
  });

  constructor(private readonly host: Host) {}

  async load(): Promise<void> {
    await this.reading.read(
      this.host,
      (host) => host.savedPrompts(),
      (prompts) => (this.all = prompts),
    );
  }

  handle(event: Announced): void {
    this.reading.handle(event);
  }

  /** Prompts whose name contains the query; names that start with it come first. */
  find(name: string): readonly SavedPrompt[] {
    const typed = name.toLowerCase();
    const place = (prompt: SavedPrompt): number => prompt.name.toLowerCase().indexOf(typed);
    return this.all.filter((prompt) => place(prompt) >= 0).sort((a, b) => Math.sign(place(a)) - Math.sign(place(b)));
  }

  /** Saves a new or changed prompt. */
  async save(id: number | null, name: string, text: string): Promise<SavedPrompt> {
    return this.host.savePrompt(id, nameOf(name), text);
  }

  async remove({ id }: SavedPrompt): Promise<void> {
    await this.host.deletePrompt(id);
  }
}

/** The start of a name that is typed after a slash; `null` if the draft is a message. */
export function commandIn(draft: string): string | null {
  return COMMAND.exec(draft)?.[1] ?? null;
}

/** The saved form of a name: without a leading slash and without spaces. */
export function nameOf(typed: string): string {
  return typed.trim().replace(/^\//, "").replace(/\s+/g, "-");
}

/** A name for a text: its first words. */
export function suggestedName(text: string): string {
  const words = text.replace(/\{\{[^{}]*\}\}/g, " ").match(/[\p{L}\p{N}]+/gu) ?? [];
  return words.slice(0, 3).join("-").toLowerCase().slice(0, MAX_NAME);
}
