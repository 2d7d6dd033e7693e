// Delimiters of maths: `$…$` and `\(…\)` inline, `$$…$$` and `\[…\]` as a display.

/** Maximum length of a formula. A longer one is shown as its source. */
export const MAX_SOURCE = 4_000;
/** Maximum lines of one paragraph that are tried as the start of a display. */
const MAX_OPENERS = 50;

export interface Span {
  /** Length including the delimiters. */
  length: number;
  source: string;
  display: boolean;
}

/**
 * Parses a display that occupies whole lines. `null` if a blank line precedes the closing
 * delimiter.
 */
export function displayAt(text: string): Span | null {
  const opener = /^ {0,3}(\$\$|\\\[)/.exec(text);
  if (!opener) return null;
  const from = opener[0].length;
  const to = closing(text, from, opener[1] === "$$" ? "$$" : "\\]");
  if (to < 0) return null;
  const rest = /^[ \t]*(?:\n|$)/.exec(text.slice(to + 2, to + 200));
  const source = text.slice(from, to).trim();
  return rest && source !== "" ? { length: to + 2 + rest[0].length, source, display: true } : null;
}

/** The index of the first display in a paragraph, after its first line; -1 if there is none. */
export function displayIn(paragraph: string): number {
  if (!paragraph.includes("$$") && !paragraph.includes("\\[")) return -1;
  const end = paragraph.indexOf("\n\n");
  const within = end < 0 ? paragraph : paragraph.slice(0, end);
  let tried = 0;
  for (const { index } of within.matchAll(/\n(?= {0,3}(?:\$\$|\\\[))/g)) {
    if (displayAt(paragraph.slice(index + 1, index + 2 * MAX_SOURCE))) return index + 1;
    if (++tried === MAX_OPENERS) break;
  }
  return -1;
}

/**
 * The index of an opening delimiter that may still become a display as the text grows; otherwise
 * the length of the text.
 */
export function undecided(text: string): number {
  const blank = text.lastIndexOf("\n\n");
  const from = blank < 0 ? 0 : blank + 1;
  const opener = /(?:^|\n) {0,3}(?:\$\$|\\\[)/.exec(text.slice(from));
  return opener ? from + opener.index : text.length;
}

/** The formula that starts at an index of a line. */
export function formulaAt(text: string, at: number, before = text[at - 1] ?? ""): Span | null {
  const delimiter = text.slice(at, at + 2);
  if (delimiter === "\\(" || delimiter === "\\[")
    return between(text, at, delimiter === "\\(" ? "\\)" : "\\]", delimiter === "\\[");
  if (delimiter[0] !== "$" || /[\w$\\]/.test(before)) return null;
  return delimiter === "$$" ? between(text, at, "$$", true) : dollars(text, at);
}

function between(text: string, at: number, close: string, display: boolean): Span | null {
  const to = closing(text, at + 2, close);
  const source = to < 0 ? "" : text.slice(at + 2, to).trim();
  return source === "" ? null : { length: to + 2 - at, source, display };
}

/** Parses `$…$`, unless it looks like prices or shell variables. */
function dollars(text: string, at: number): Span | null {
  let to = at + 1;
  while (to < text.length && to - at < MAX_SOURCE && text[to] !== "$" && text[to] !== "`")
    to += text[to] === "\\" ? 2 : 1;
  if (text[to] !== "$") return null;
  const source = text.slice(at + 1, to);
  const amount = /^[\d.,]+\s+\p{L}{2,}/u.test(source);
  if (source === "" || source !== source.trim() || amount || /[\p{L}\p{N}$]/u.test(text[to + 1] ?? "")) return null;
  return { length: to + 1 - at, source, display: false };
}

/** The index of the closing delimiter before the next blank line; -1 if there is none. */
function closing(text: string, from: number, close: string): number {
  const within = text.slice(from, from + MAX_SOURCE);
  const to = within.indexOf(close);
  return to < 0 || /\n[ \t]*\n/.test(within.slice(0, to)) ? -1 : from + to;
}

/**
 * Masks formulas in a copy of a line of the same length, so that they are not parsed as emphasis.
 */
export function masked(line: string, copy: string): string {
  if (!/[$]|\\[([]/.test(line)) return copy;
  let hidden = "";
  let copied = 0;
  for (let at = 0; at < line.length;) {
    const formula = line[at] === "$" || line[at] === "\\" ? formulaAt(line, at) : null;
    if (formula) {
      hidden += copy.slice(copied, at) + "a".repeat(formula.length);
      copied = at += formula.length;
    } else at = after(line, at);
  }
  return hidden + copy.slice(copied);
}

/** The next index after a code span, an escaped character, or a plain character. */
function after(line: string, at: number): number {
  if (line[at] === "\\") return at + 2;
  if (line[at] !== "`") return at + 1;
  let fence = 1;
  while (line[at + fence] === "`") fence++;
  const ticks = "`".repeat(fence);
  let end = line.indexOf(ticks, at + fence);
  while (end >= 0 && line[end + fence] === "`") {
    let runEnd = end;
    while (line[runEnd] === "`") runEnd++;
    end = line.indexOf(ticks, runEnd);
  }
  return end < 0 ? at + fence : end + fence;
}
