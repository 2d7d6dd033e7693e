// Estimated height of a message before it is rendered, close enough that the scroll bar does not
// jump.

import type { Message } from "../host";
import { firstLines, FOLD_ABOVE, FOLDED_LINES, lineCount } from "../markdown/fold";
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
/** Height of the button that folds and unfolds a message of the user. */
const FOLD = 29;

/**
 * Estimated height of a message in pixels. `maxLength` is the number of shown characters of each
 * part, `isUnfolded` whether the user unfolded a long message.
 */
export function estimateHeight(message: Message, maxLength: number, isUnfolded: boolean): number {
  const isTyped = message.role === "user";
  const width = isTyped ? BUBBLE_LINE : ANSWER_LINE;
  let lines = 0;
  let gaps = 0;
  let start = 0;
  /** Lines of the piece of code that is being counted, which is folded if it is long. */
  let code = -1;
  const whole = shownText(message, maxLength);
  const isFoldable = isTyped && lineCount(whole) > FOLD_ABOVE;
  const isFolded = isFoldable && !isUnfolded;
  const text = isFolded ? firstLines(whole, FOLDED_LINES) : whole;
  while (start <= text.length) {
    const newline = text.indexOf("\n", start);
    const end = newline < 0 ? text.length : newline;
    if (text.startsWith("```", start)) {
      if (code > FOLD_ABOVE && !isTyped) lines -= code - FOLDED_LINES;
      code = code < 0 ? 0 : -1;
    } else if (code >= 0) code++;
    if (end === start && code < 0) gaps++;
    else lines += code >= 0 ? 1 : Math.ceil((end - start) / width);
    start = end + 1;
  }
  // Padding and tools of a bubble, or name and tools of an answer, plus the gap below.
  const frame = isTyped ? 18 + 12 + 24 : 22 + 36 + 24;
  const parts = message.parts.reduce(
    (sum, { type }) => sum + (type === "text" ? 0 : type === "thinking" ? THOUGHT : CARD),
    0,
  );
  const more = !isFolded && text.length < textOf(message.parts).length ? MORE : 0;
  return frame + parts + more + (isFoldable ? FOLD : 0) + lines * LINE + gaps * (isTyped ? LINE : 11);
}
