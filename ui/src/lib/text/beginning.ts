// The start of a text that is too long to be shown at once.

/** Characters that each line counts as at least, since a short line may be a list item. */
const LINE = 24;
/** Characters before the cut that are searched for a paragraph, line or word boundary. */
const BACK = 2_000;

/**
 * The first characters of a text, at most `maxLength`, fewer if its lines are short, cut at the end
 * of a paragraph, line or word. A text within the limit is returned whole.
 */
export function beginning(text: string, maxLength: number): string {
  const limit = Math.min(maxLength, endOfLines(text, maxLength / LINE));
  if (text.length <= limit) return text;
  for (const gap of ["\n\n", "\n", " "]) {
    const at = text.lastIndexOf(gap, limit);
    if (at > Math.max(0, limit - BACK)) return text.slice(0, at);
  }
  // Not between the halves of a surrogate pair.
  return text.slice(0, /[\ud800-\udbff]/.test(text[limit - 1] ?? "") ? limit - 1 : limit);
}

/** The index of the end of line number `lines`. `Infinity` means that there are fewer lines. */
function endOfLines(text: string, lines: number): number {
  let at = -1;
  for (let line = 0; line < lines; line++) {
    at = text.indexOf("\n", at + 1);
    if (at < 0) return Infinity;
  }
  return at;
}
