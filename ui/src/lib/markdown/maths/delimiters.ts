// Where maths is in a text: `$…$`, `\(…\)` in a line; `$$…$$`, `\[…\]` as a display.

/** A longer formula is shown as its source. */
export const MAX_SOURCE = 4_000;
/** Lines of one paragraph that are tried as the beginning of a display. */
const MAX_OPENERS = 50;

export interface Span {
  /** Characters with the delimiters. */
  length: number;
  source: string;
  display: boolean;
}

/** A display that takes whole lines. A blank line ends it unclosed. */
export function displayAt(text: string): Span | null {
  const begin = /^ {0,3}(\$\$|\\\[)/.exec(text);
  if (!begin) return null;
  const from = begin[0].length;
  const to = closing(text, from, begin[1] === "$$" ? "$$" : "\\]");
  if (to < 0) return null;
  const rest = /^[ \t]*(?:\n|$)/.exec(text.slice(to + 2, to + 200));
  const source = text.slice(from, to).trim();
  return rest && source !== "" ? { length: to + 2 + rest[0].length, source, display: true } : null;
}

/** The index of the first display in a paragraph, after its first line; -1: none. */
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

/** The index from which a growing text may still become a display; the length of the text if nowhere. */
export function undecided(text: string): number {
  const blank = text.lastIndexOf("\n\n");
  const from = blank < 0 ? 0 : blank + 1;
  const opener = /(?:^|\n) {0,3}(?:\$\$|\\\[)/.exec(text.slice(from));
  return opener ? from + opener.index : text.length;
}

/** The formula that begins at an index of a line. */
export function formulaAt(text: string, at: number, before = text[at - 1] ?? ""): Span | null {
  const two = text.slice(at, at + 2);
  if (two === "\\(" || two === "\\[") return between(text, at, two === "\\(" ? "\\)" : "\\]", two === "\\[");
  if (two[0] !== "$" || /[\w$\\]/.test(before)) return null;
  return two === "$$" ? between(text, at, "$$", true) : dollars(text, at);
}

function between(text: string, at: number, close: string, display: boolean): Span | null {
  const to = closing(text, at + 2, close);
  const source = to < 0 ? "" : text.slice(at + 2, to).trim();
  return source === "" ? null : { length: to + 2 - at, source, display };
}

/** `$…$`, unless it looks like prices or variables of a shell. */
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

/** The index of a closing delimiter, before any blank line; -1: none. */
function closing(text: string, from: number, close: string): number {
  const within = text.slice(from, from + MAX_SOURCE);
  const to = within.indexOf(close);
  return to < 0 || /\n[ \t]*\n/.test(within.slice(0, to)) ? -1 : from + to;
}

/** Hides the formulas of a line from the search for emphasis, in a copy of it of the same length. */
export function masked(line: string, copy: string): string {
  if (!/[$]|\\[([]/.test(line)) return copy;
  let hidden = "";
  let done = 0;
  for (let at = 0; at < line.length;) {
    const formula = line[at] === "$" || line[at] === "\\" ? formulaAt(line, at) : null;
    if (formula) {
      hidden += copy.slice(done, at) + "a".repeat(formula.length);
      done = at += formula.length;
    } else at = after(line, at);
  }
  return hidden + copy.slice(done);
}

/** The next index after a piece of code, an escaped or another character. */
function after(line: string, at: number): number {
  if (line[at] === "\\") return at + 2;
  if (line[at] !== "`") return at + 1;
  let fence = 1;
  while (line[at + fence] === "`") fence++;
  const ticks = "`".repeat(fence);
  let end = line.indexOf(ticks, at + fence);
  while (end >= 0 && line[end + fence] === "`") {
    let past = end;
    while (line[past] === "`") past++;
    end = line.indexOf(ticks, past);
  }
  return end < 0 ? at + fence : end + fence;
}
