// A text area that grows with its text.

import type { Attachment } from "svelte/attachments";

/** Longest text, in characters, whose height is measured: the layout of a longer one takes long. */
const MAX_MEASURED = 50_000;

/** `text` is read so that the height follows changes from outside. */
export function autosize(text: () => string | undefined): Attachment<HTMLTextAreaElement> {
  return (area) => {
    if ((text()?.length ?? 0) > MAX_MEASURED) {
      area.style.height = "100vh";
      return;
    }
    area.style.height = "auto";
    area.style.height = `${area.scrollHeight}px`;
  };
}
