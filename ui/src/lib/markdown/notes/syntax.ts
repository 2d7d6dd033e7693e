// The syntax of footnotes: `[^label]` in the text, `[^label]: …` for the note, continued by
// indented lines.

const LABEL = /\[\^([^\s[\]^]{1,60})\]/y;
const BEGIN = / {0,3}\[\^([^\s[\]^]{1,60})\]:[ \t]*/y;
const NEXT = /\n {0,3}\[\^[^\s[\]^]{1,60}\]:/;

export interface Note {
  /** Length of the definition. */
  length: number;
  label: string;
  text: string;
}

/** The label of a reference at the start of a text. */
export function referenceAt(text: string): string | null {
  LABEL.lastIndex = 0;
  return LABEL.exec(text)?.[1] ?? null;
}

/** A definition at the start of a text. */
export function noteAt(text: string): Note | null {
  BEGIN.lastIndex = 0;
  const opener = BEGIN.exec(text);
  if (!opener) return null;
  let end = lineEnd(text, opener[0].length);
  const lines = [text.slice(opener[0].length, end)];
  while (end < text.length) {
    const next = continued(text, end);
    if (next < 0) break;
    lines.push(text.slice(end, next).replace(/^( {4}|\t| {2,3})/gm, ""));
    end = next;
  }
  return { length: end, label: opener[1] ?? "", text: lines.join("").replace(/^\n+/, "") };
}

/** The index of the first definition in a paragraph, after its first line; -1 if there is none. */
export function noteIn(paragraph: string): number {
  if (!paragraph.includes("[^")) return -1;
  const blank = paragraph.indexOf("\n\n");
  const match = NEXT.exec(blank < 0 ? paragraph : paragraph.slice(0, blank));
  return match ? match.index + 1 : -1;
}

/**
 * The end of the indented line at an index, with the blank lines before it; -1 if the note ends.
 */
function continued(text: string, at: number): number {
  let start = at;
  for (;;) {
    const end = lineEnd(text, start);
    const line = text.slice(start, Math.min(end, start + 200));
    if (line.trim() !== "") return /^(?: {2}|\t)/.test(line) ? end : -1;
    if (end === text.length) return -1;
    start = end;
  }
}

/** The index after the end of a line. */
function lineEnd(text: string, from: number): number {
  const end = text.indexOf("\n", from);
  return end < 0 ? text.length : end + 1;
}
