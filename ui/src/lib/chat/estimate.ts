// Estimated height of a message before it is rendered, close enough that the scroll bar does not
// jump.

import type { Message } from "../host";
import { textOf } from "../text/parts";

/** Characters per line, and line height in pixels. */
const ANSWER_LINE = 86;
const BUBBLE_LINE = 68;
const LINE = 24.3;
/** Height of a folded thought and of a folded card, with the gap below, in pixels. */
const THOUGHT = 38;
const CARD = 50;

export function estimateHeight(message: Message): number {
  const width = message.role === "user" ? BUBBLE_LINE : ANSWER_LINE;
  let lines = 0;
  let gaps = 0;
  let begin = 0;
  const text = textOf(message.parts);
  while (begin <= text.length) {
    const newline = text.indexOf("\n", begin);
    const end = newline < 0 ? text.length : newline;
    if (end === begin) gaps++;
    else lines += Math.ceil((end - begin) / width);
    begin = end + 1;
  }
  // Padding and tools of a bubble, or name and tools of an answer, plus the gap below.
  const frame = message.role === "user" ? 18 + 12 + 24 : 22 + 36 + 24;
  const folded = message.parts.reduce((sum, { type }) => sum + (type === "text" ? 0 : type === "thinking" ? THOUGHT : CARD), 0);
  return frame + folded + lines * LINE + gaps * (message.role === "user" ? LINE : 11);
}
