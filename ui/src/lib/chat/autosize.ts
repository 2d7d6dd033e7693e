// A text area that grows with its text.

import type { Attachment } from "svelte/attachments";

/** `text` is read so that the height follows changes from outside. */
export function autosize(text: () => unknown): Attachment<HTMLTextAreaElement> {
  return (area) => {
    text();
    area.style.height = "auto";
    area.style.height = `${area.scrollHeight}px`;
  };
}
