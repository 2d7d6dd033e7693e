// The footnotes of an answer, for its references.

import { getContext, setContext } from "svelte";

export interface Notes {
  /** The number of a footnote; 0 if there is none with this label, or too many footnotes. */
  number(label: string): number;
  /** Shows and focuses a footnote. */
  toNote(label: string): void;
  /** Shows and focuses the first reference to a footnote. */
  toReference(label: string): void;
}

const KEY = Symbol("notes");

export function provideNotes(notes: Notes): void {
  setContext(KEY, notes);
}

export function useNotes(): Notes {
  return getContext<Notes>(KEY);
}
