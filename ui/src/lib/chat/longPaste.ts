// Adds a long pasted text to the message as a file. A toast offers to insert it as text instead.

import { m } from "$messages";
import type { TextFile } from "../host";
import { lineCount } from "../markdown/fold";
import type { App } from "../stores/app.svelte";

/** A pasted text with more characters or lines becomes a file. */
const MAX_CHARACTERS = 8_000;
const MAX_LINES = 200;

export function isLongPaste(text: string): boolean {
  return text.length > MAX_CHARACTERS || lineCount(text) > MAX_LINES;
}

/** Adds a text to the message as a file. Returns `false` if the limits of files do not allow it. */
export function pasteAsFile(app: App, text: string): boolean {
  const file = app.attachments.addText(app.thread.id, text);
  if (!file) return false;
  app.toasts.show({
    kind: "note",
    text: m.chat_pasted_as_file({ name: file.name }),
    action: { label: m.chat_paste_as_text(), run: () => void pasteAsText(app, file) },
  });
  return true;
}

/**
 * Moves the text of a pasted file to the caret of the composer, or to the end of the draft that the
 * file belongs to if another conversation is open.
 */
async function pasteAsText(app: App, file: TextFile): Promise<void> {
  const home = app.attachments.homeOf(file);
  // The message was sent, or the file removed.
  if (!home) return;
  if (home.conversation !== app.thread.id) {
    app.attachments.take(file);
    const draft = app.drafts.get(home.conversation);
    app.drafts.set(home.conversation, draft === "" ? file.text : `${draft}\n${file.text}`);
    return;
  }
  await app.focusComposer();
  const { composer } = app.fields;
  if (!composer || !app.attachments.take(file)) return;
  composer.setRangeText(file.text, composer.selectionStart, composer.selectionEnd, "end");
  app.drafts.set(app.thread.id, composer.value);
}
