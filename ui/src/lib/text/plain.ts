// The text of an answer without markup, for copying, reading aloud and searching.

import type { Tokens } from "marked";
import { m } from "$messages";
import { BlockReader, normalized, type Token } from "../markdown/blocks";
import { entities } from "../markdown/entities";
import type { MathsToken, NoteToken } from "../markdown/lexer";
import { typedBlocks } from "../markdown/typed";

interface PlainOptions {
  code: (text: string) => string;
  maths: (token: MathsToken) => string;
  /** Marks of items, footnotes and references. */
  bullets: boolean;
}

/** Options for the visible text of the page. */
const READ: PlainOptions = { code: (text) => text, maths: ({ raw }) => raw.trim(), bullets: true };
/** Options for searchable text. Formulas are drawn, so they have no text. */
const FOUND: PlainOptions = { code: (text) => text, maths: () => "", bullets: false };
/** Options for the spoken text. */
const SPOKEN: PlainOptions = { code: () => "", maths: () => "", bullets: false };

export function plainText(markdown: string): string {
  return written(markdown, READ);
}

export function foundText(markdown: string): string {
  return written(markdown, FOUND);
}

/** The searchable text of a message that the user typed. */
export function foundInTyped(text: string): string {
  return blocks(typedBlocks(normalized(text)), FOUND, 0).trim();
}

export function spokenText(markdown: string): string {
  return written(markdown, SPOKEN).replace(/https?:\/\/\S+/g, "");
}

/** The code blocks, separated by blank lines; or the whole text, if it is a JSON object or array. */
export function codeOf(markdown: string): string {
  if (isJson(markdown)) return markdown.trim();
  const pieces: string[] = [];
  const visit = (tokens: readonly Token[]) => {
    for (const token of tokens) {
      if (token.type === "code") pieces.push(token.text);
      else if (token.type === "list") for (const item of (token as Tokens.List).items) visit(item.tokens);
      else if (token.type === "blockquote") visit(token.tokens ?? []);
    }
  };
  visit(new BlockReader().read(normalized(markdown)));
  return pieces.join("\n\n");
}

/** Whether a text is a JSON object or array, as an answer that follows a schema is. */
function isJson(text: string): boolean {
  if (!/^\s*[{[]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function written(markdown: string, options: PlainOptions): string {
  return blocks(new BlockReader().read(normalized(markdown)), options, 0).trim();
}

/** Deeper nesting is written as raw text, as the page shows it. */
const MAX_DEPTH = 12;

function blocks(tokens: readonly Token[], options: PlainOptions, depth: number): string {
  return tokens
    .map((token) => block(token, options, depth))
    .filter((text) => text.trim() !== "")
    .join("\n\n");
}

function block(token: Token, options: PlainOptions, depth: number): string {
  if (depth > MAX_DEPTH) return token.raw;
  switch (token.type) {
    case "paragraph":
    case "heading":
      return inline(token.tokens ?? [], options, 0);
    case "text":
      return token.tokens ? inline(token.tokens, options, 0) : entities(token.text);
    case "code":
      return options.code(token.text);
    case "maths":
      return options.maths(token as MathsToken);
    case "list":
      return list(token as Tokens.List, options, depth);
    case "blockquote":
      return blocks(token.tokens ?? [], options, depth + 1);
    case "note":
      return `${options.bullets ? `[${(token as NoteToken).label}] ` : ""}${blocks((token as NoteToken).tokens, options, depth + 1)}`;
    case "table": {
      const table = token as Tokens.Table;
      return [table.header, ...table.rows]
        .map((row) => row.map((cell) => inline(cell.tokens, options, 0)).join("\t"))
        .join("\n");
    }
    case "hr":
    case "space":
    case "def":
      return "";
    default:
      return token.raw.trim();
  }
}

function list(token: Tokens.List, options: PlainOptions, depth: number): string {
  const first = typeof token.start === "number" ? token.start : 1;
  return token.items
    .map((item, i) => {
      const mark = !options.bullets
        ? ""
        : item.task
          ? item.checked
            ? "[x] "
            : "[ ] "
          : token.ordered
            ? `${first + i}. `
            : "- ";
      const text = blocks(
        item.tokens.filter(({ type }) => type !== "checkbox"),
        options,
        depth + 1,
      );
      const indent = options.bullets ? "  " : "";
      return mark + text.replace(/\n{2,}/g, "\n").replace(/\n/g, `\n${indent}`);
    })
    .join("\n");
}

function inline(tokens: readonly Token[], options: PlainOptions, depth: number): string {
  return tokens.map((token) => piece(token, options, depth)).join("");
}

function piece(token: Token, options: PlainOptions, depth: number): string {
  if (depth > MAX_DEPTH) return token.raw;
  switch (token.type) {
    case "maths":
      return options.maths(token as MathsToken);
    case "codespan":
      return token.text;
    case "br":
      return "\n";
    case "image":
      return token.text ? m.text_image({ description: token.text }) : m.text_image_without();
    case "reference":
      return options.bullets ? `[${String(token.label)}]` : "";
    case "text":
    case "escape":
    case "strong":
    case "em":
    case "del":
    case "link":
      return "tokens" in token && token.tokens ? inline(token.tokens, options, depth + 1) : entities(token.text);
    default:
      return token.raw;
  }
}
