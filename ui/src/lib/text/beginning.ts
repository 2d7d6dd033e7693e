// The beginning of a text that is too long to be shown at once.

/** Characters of a line for which a long text has room: of shorter ones there are fewer, since each may be an item of a list. */
const LINE = 24;
/** Characters before a cut that are searched for a better place. */
const BACK = 2_000;

/**
 * The first characters of a text, at most `most`, and fewer if its lines are short: up to an end of a paragraph, else of a
 * line or word. All of it if it is no longer.
 */
export function beginning(text: string, most: number): string {
  const limit = Math.min(most, endOfLines(text, most / LINE));
  if (text.length <= limit) return text;
  for (const gap of ["\n\n", "\n", " "]) {
    const at = text.lastIndexOf(gap, limit);
    if (at > Math.max(0, limit - BACK)) return text.slice(0, at);
  }
  // Not between the halves of a character.
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
