// A text area that grows with its text.

import type { Attachment } from "svelte/attachments";

/** Characters from which on the height is not measured: the layout of a long text takes long. */
const TALL = 50_000;

/** `text` is read so that the height follows changes from outside. */
export function autosize(text: () => string | undefined): Attachment<HTMLTextAreaElement> {
  return (area) => {
    if ((text()?.length ?? 0) > TALL) {
      area.style.height = "100vh";
      return;
    }
    area.style.height = "auto";
    area.style.height = `${area.scrollHeight}px`;
  };
}
