// Estimated height of a message before it is rendered, close enough that the scroll bar does not
// jump.

import type { Message } from "../host";
import { FOLD_ABOVE, FOLDED_LINES } from "../markdown/fold";
import { shownText, textOf } from "../text/parts";

/** Characters per line, and line height in pixels. */
const ANSWER_LINE = 86;
const BUBBLE_LINE = 68;
const LINE = 24.3;
/** Height of a folded thought and of a folded card, with the gap below, in pixels. */
const THOUGHT = 38;
const CARD = 50;
/** Height of the line that says that there is more. */
const MORE = 47;

/**
 * Estimated height of a message in pixels. `maxLength` is the number of shown characters of each
 * part.
 */
export function estimateHeight(message: Message, maxLength: number): number {
  const width = message.role === "user" ? BUBBLE_LINE : ANSWER_LINE;
  let lines = 0;
  let gaps = 0;
  let start = 0;
  /** Lines of the piece of code that is being counted, which is folded if it is long. */
  let code = -1;
  const text = shownText(message, maxLength);
  while (start <= text.length) {
    const newline = text.indexOf("\n", start);
    const end = newline < 0 ? text.length : newline;
    if (message.role === "assistant" && text.startsWith("```", start)) {
      if (code > FOLD_ABOVE) lines -= code - FOLDED_LINES;
      code = code < 0 ? 0 : -1;
    } else if (code >= 0) code++;
    if (end === start && code < 0) gaps++;
    else lines += code >= 0 ? 1 : Math.ceil((end - start) / width);
    start = end + 1;
  }
  // Padding and tools of a bubble, or name and tools of an answer, plus the gap below.
  const frame = message.role === "user" ? 18 + 12 + 24 : 22 + 36 + 24;
  const folded = message.parts.reduce(
    (sum, { type }) => sum + (type === "text" ? 0 : type === "thinking" ? THOUGHT : CARD),
    0,
  );
  const more = text.length < textOf(message.parts).length ? MORE : 0;
  return frame + folded + more + lines * LINE + gaps * (message.role === "user" ? LINE : 11);
}
