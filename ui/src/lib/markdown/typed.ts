// Blocks of a message of the user: code, tables and formulas. The rest of its text is shown as it
// was typed.

import { Lexer, Tokenizer, type Token, type Tokens } from "marked";
import type { MathsToken } from "./lexer";
import { displayAt, formulaAt, MAX_SOURCE, type Span } from "./maths/delimiters";

/** Parses the blocks of a text with normalized line endings. */
export function typedBlocks(text: string): Token[] {
  const blocks: Token[] = [];
  const tables = new Tables(text);
  let start = 0;
  for (let at = 0; at < text.length;) {
    const block = blockAt(text, at, tables);
    if (!block) {
      at = lineEnd(text, at);
      continue;
    }
    if (at > start) blocks.push(paragraph(text.slice(start, at), start > 0, true));
    blocks.push(block);
    start = at += block.raw.length;
  }
  if (text.length > start) blocks.push(paragraph(text.slice(start), start > 0, false));
  return blocks;
}

/** The index after the end of a line. */
function lineEnd(text: string, from: number): number {
  const end = text.indexOf("\n", from);
  return end < 0 ? text.length : end + 1;
}

const OPENER = / {0,3}(?:`{3}|~{3}|\$\$|\\\[)/y;

/** A fence with more than a language. The line is text, such as one that quotes a fence. */
const FENCE_WITH_TEXT = / {0,3}([`~])\1{2,}[ \t]*(?![ \t]|\1)\S+[ \t]+\S/y;

/** The code, display or table that starts at the line at an index. */
function blockAt(text: string, at: number, tables: Tables): Token | null {
  OPENER.lastIndex = FENCE_WITH_TEXT.lastIndex = at;
  if (!OPENER.test(text)) return tables.at(at);
  if (FENCE_WITH_TEXT.test(text)) return null;
  const rest = text.slice(at);
  const display = displayAt(rest);
  return display ? maths(rest, display) : (tokenizer().fences(rest) ?? null);
}

/** The tokenizer of marked, with the rules that its lexer gives it. */
function tokenizer(): Tokenizer {
  const tokenizer = new Tokenizer();
  new Lexer({ gfm: true, tokenizer });
  return tokenizer;
}

function maths(text: string, { length, source, display }: Span): MathsToken {
  return { type: "maths", raw: text.slice(0, length), text: source, display };
}

/** The tables of a text, in order. */
class Tables {
  /** The start of a row with more cells than the header above it: no table starts before it. */
  private wideRow = 0;

  constructor(private readonly text: string) {}

  /**
   * The table at an index. Every row has a bar, so that a question below the table is not a row. No
   * row has more cells than the header, because the table would not show them.
   */
  at(index: number): Token | null {
    const { text } = this;
    if (index < this.wideRow) return null;
    const head = lineEnd(text, index);
    let end = lineEnd(text, head);
    const delimiters = text.slice(head, end);
    if (!text.slice(index, head).includes("|") || !delimiters.includes("|") || /[^\s|:-]/.test(delimiters)) return null;
    const header = tokenizer().table(text.slice(index, end))?.header;
    if (!header) return null;
    for (let next = lineEnd(text, end); text.slice(end, next).includes("|"); next = lineEnd(text, end)) {
      if (cellCount(text.slice(end, next)) > header.length) {
        this.wideRow = end;
        return null;
      }
      end = next;
    }
    const table = tokenizer().table(text.slice(index, end));
    if (!table) return null;
    const typed = (cell: Tokens.TableCell) => ({ ...cell, tokens: typedInline(cell.text) });
    return { ...table, header: table.header.map(typed), rows: table.rows.map((row) => row.map(typed)) };
  }
}

/** The number of cells of a row. Bars at its ends and escaped bars separate no cells. */
function cellCount(row: string): number {
  const cells = row.replace(/\\./g, "x").split("|");
  if (cells[0]?.trim() === "") cells.shift();
  if (cells.at(-1)?.trim() === "") cells.pop();
  return cells.length;
}

/** A text without the blank lines between it and the blocks around it. */
function paragraph(raw: string, isAfterBlock: boolean, isBeforeBlock: boolean): Token {
  let text = raw;
  if (isAfterBlock) text = text.replace(/^(?:[ \t]*\n)+/, "");
  if (isBeforeBlock) text = text.trimEnd();
  return text.trim() === "" ? { type: "space", raw } : { type: "paragraph", raw, text, tokens: typedInline(text) };
}

/** Parses code and formulas in a text; the type of the rest is `typed`. */
function typedInline(text: string): Token[] {
  const tokens: Token[] = [];
  const spans = new CodeSpans(text);
  const formulas = new Formulas(text);
  const special = /[`$\\]/g;
  let start = 0;
  for (let match = special.exec(text); match; match = special.exec(text)) {
    const at = match.index;
    const token = match[0] === "`" ? spans.at(at) : formulas.at(at);
    if (token) {
      if (at > start) tokens.push({ type: "typed", raw: text.slice(start, at) });
      tokens.push(token);
      start = special.lastIndex = at + token.raw.length;
    } else special.lastIndex = at + (match[0] === "`" ? backtickRun(text, at) : match[0] === "\\" ? 2 : 1);
  }
  if (start < text.length) tokens.push({ type: "typed", raw: text.slice(start) });
  return tokens;
}

/** The formulas of a text, in order. */
class Formulas {
  /** The next index of each closing delimiter, so that none is searched for twice. */
  private readonly next = new Map<string, number>();

  constructor(private readonly text: string) {}

  /** The formula at an index. Amounts in two lines, such as `$5` and `$6`, are not a formula. */
  at(index: number): MathsToken | null {
    const { text } = this;
    const close = CLOSING[text.slice(index, index + 2)];
    if (close !== undefined && !this.isClosed(close, index + 2)) return null;
    const span = formulaAt(text, index);
    const isOne = span && (close !== undefined || !span.source.includes("\n"));
    return isOne ? maths(text.slice(index), span) : null;
  }

  /** Whether a closing delimiter follows within the longest formula. */
  private isClosed(close: string, from: number): boolean {
    let at = this.next.get(close) ?? -1;
    if (at < from) {
      at = this.text.indexOf(close, from);
      this.next.set(close, at < 0 ? Infinity : at);
    }
    return at >= 0 && at - from <= MAX_SOURCE;
  }
}

const CLOSING: Partial<Record<string, string>> = { $$: "$$", "\\(": "\\)", "\\[": "\\]" };

/** The length of a run of backticks. */
function backtickRun(text: string, at: number): number {
  let length = 1;
  while (text[at + length] === "`") length++;
  return length;
}

/** The code spans of a text, in order. A span is within a line. */
class CodeSpans {
  private end = 0;
  /** Lengths of runs of backticks that do not occur in the rest of the line. */
  private readonly missing = new Set<number>();

  constructor(private readonly text: string) {}

  /** The code span that starts at a run of backticks; `null` if the run is not closed. */
  at(index: number): Tokens.Codespan | null {
    const { text, missing } = this;
    if (index >= this.end) {
      this.end = lineEnd(text, index);
      missing.clear();
    }
    const fence = backtickRun(text, index);
    if (missing.has(fence)) return null;
    for (let at = text.indexOf("`", index + fence); at >= 0 && at < this.end;) {
      const length = backtickRun(text, at);
      if (length === fence)
        return { type: "codespan", raw: text.slice(index, at + length), text: code(text.slice(index + fence, at)) };
      at = text.indexOf("`", at + length);
    }
    missing.add(fence);
    return null;
  }
}

/** The code of a span: a space at both ends separates it from its backticks. */
function code(text: string): string {
  return text.startsWith(" ") && text.endsWith(" ") && text.trim() !== "" ? text.slice(1, -1) : text;
}
