// How tall a message will be, before it was ever drawn: near enough that the scroll bar does not jump.

import type { Message } from "../host";

/** Characters on a line of the column, and the height of a line, in the type the window uses. */
const ANSWER_LINE = 86;
const BUBBLE_LINE = 68;
const LINE = 24.3;

export function estimateHeight(message: Message): number {
  const width = message.role === "user" ? BUBBLE_LINE : ANSWER_LINE;
  let lines = 0;
  let gaps = 0;
  let begin = 0;
  while (begin <= message.content.length) {
    const newline = message.content.indexOf("\n", begin);
    const end = newline < 0 ? message.content.length : newline;
    if (end === begin) gaps++;
    else lines += Math.ceil((end - begin) / width);
    begin = end + 1;
  }
  // A bubble's padding and tools, or an answer's name and tools; then the space below.
  const frame = message.role === "user" ? 18 + 12 + 24 : 22 + 36 + 24;
  return frame + lines * LINE + gaps * (message.role === "user" ? LINE : 11);
}
