// The syntax of footnotes: `[^label]` in the text, `[^label]: …` for the note, continued by indented lines.

const LABEL = /\[\^([^\s[\]^]{1,60})\]/y;
const BEGIN = / {0,3}\[\^([^\s[\]^]{1,60})\]:[ \t]*/y;
const NEXT = /\n {0,3}\[\^[^\s[\]^]{1,60}\]:/;

export interface Note {
  /** Characters of the definition. */
  length: number;
  label: string;
  text: string;
}

/** The label of a reference at the beginning of a text. */
export function referenceAt(text: string): string | null {
  LABEL.lastIndex = 0;
  return LABEL.exec(text)?.[1] ?? null;
}

/** A definition at the beginning of a text. */
export function noteAt(text: string): Note | null {
  BEGIN.lastIndex = 0;
  const begin = BEGIN.exec(text);
  if (!begin) return null;
  let end = lineEnd(text, begin[0].length);
  const lines = [text.slice(begin[0].length, end)];
  while (end < text.length) {
    const next = continued(text, end);
    if (next < 0) break;
    lines.push(text.slice(end, next).replace(/^( {4}|\t| {2,3})/gm, ""));
    end = next;
  }
  return { length: end, label: begin[1] ?? "", text: lines.join("").replace(/^\n+/, "") };
}

/** The index of the first definition in a paragraph, after its first line; -1: none. */
export function noteIn(paragraph: string): number {
  if (!paragraph.includes("[^")) return -1;
  const blank = paragraph.indexOf("\n\n");
  const found = NEXT.exec(blank < 0 ? paragraph : paragraph.slice(0, blank));
  return found ? found.index + 1 : -1;
}

/** The end of the indented line at an index, with the blank lines before it; -1: the note ends. */
function continued(text: string, at: number): number {
  let begin = at;
  for (;;) {
    const end = lineEnd(text, begin);
    const line = text.slice(begin, Math.min(end, begin + 200));
    if (line.trim() !== "") return /^(?: {2}|\t)/.test(line) ? end : -1;
    if (end === text.length) return -1;
    begin = end;
  }
}

/** The index after the end of a line. */
function lineEnd(text: string, from: number): number {
  const end = text.indexOf("\n", from);
  return end < 0 ? text.length : end + 1;
}
