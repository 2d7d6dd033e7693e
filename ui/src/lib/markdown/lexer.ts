// The lexer of marked, extended by maths and footnotes.

import { Hooks, Lexer, type MarkedOptions, type Token, type Tokenizer, type TokensList } from "marked";
import { displayAt, displayIn, formulaAt, masked, type Span } from "./maths/delimiters";
import { noteAt, noteIn, referenceAt } from "./notes/syntax";

export interface MathsToken {
  type: "maths";
  raw: string;
  text: string;
  display: boolean;
}

/** A footnote's text. */
export interface NoteToken {
  type: "note";
  raw: string;
  label: string;
  tokens: Token[];
}

/** A reference to a footnote. */
export interface ReferenceToken {
  type: "reference";
  raw: string;
  label: string;
}

/**
 * Maximum characters of a paragraph or cell whose inline Markdown is parsed: marked takes quadratic
 * time.
 */
const MAX_INLINE = 20_000;

type Extensions = NonNullable<MarkedOptions["extensions"]>;

class MathsHooks extends Hooks {
  override emStrongMask(this: { lexer: AnswerLexer }, copy: string): string {
    return masked(this.lexer.line, copy);
  }
}

function maths(text: string, span: Span | null): MathsToken | undefined {
  return span
    ? { type: "maths", raw: text.slice(0, span.length), text: span.source, display: span.display }
    : undefined;
}

function note(lexer: AnswerLexer, text: string): NoteToken | undefined {
  // Footnotes, lists and quotes contain no footnotes.
  const note = lexer.depth === 1 ? noteAt(text) : null;
  return note
    ? { type: "note", raw: text.slice(0, note.length), label: note.label, tokens: lexer.blockTokens(note.text, []) }
    : undefined;
}

function reference(text: string): ReferenceToken | undefined {
  const label = referenceAt(text);
  return label === null ? undefined : { type: "reference", raw: `[^${label}]`, label };
}

/**
 * The lines of a text with line breaks between them. The option `breaks` of marked does the same in
 * quadratic time.
 */
function withBreaks(text: string): Token[] {
  return text
    .split("\n")
    .flatMap((line, i) => [
      ...(i === 0 ? [] : [{ type: "br", raw: "\n" } as const]),
      ...(line === "" ? [] : [{ type: "text", raw: line, text: line, escaped: false } as const]),
    ]);
}

const extensions: Extensions = {
  renderers: {},
  childTokens: {},
  block: [
    function (text) {
      return maths(text, displayAt(text)) ?? note(this.lexer as AnswerLexer, text);
    },
  ],
  startBlock: [displayIn, noteIn],
  inline: [
    (text, tokens) => {
      const first = text[0];
      if (first === "[") return reference(text);
      return first === "$" || first === "\\"
        ? maths(text, formulaAt(text, 0, tokens.at(-1)?.raw.at(-1) ?? ""))
        : undefined;
    },
  ],
  startInline: [
    (text) => {
      const at = text.search(/\$|\\[([]|\[\^/);
      return at < 0 ? undefined : at;
    },
  ],
};

export class AnswerLexer extends Lexer {
  /** The line being lexed, whose copies with masks have the same length. */
  line = "";
  /** Nesting depth of blocks; 1 is the top level of the answer. */
  depth = 0;

  constructor(tokenizer: Tokenizer) {
    super({ gfm: true, tokenizer, extensions, hooks: new MathsHooks() as Hooks });
  }

  override blockTokens(text: string, tokens?: Token[], clipped?: boolean): Token[];
  override blockTokens(text: string, tokens?: TokensList, clipped?: boolean): TokensList;
  override blockTokens(text: string, tokens: Token[] = [], clipped = false): Token[] {
    this.depth++;
    try {
      return super.blockTokens(text, tokens, clipped);
    } finally {
      this.depth--;
    }
  }

  override inlineTokens(line: string, tokens: Token[] = []): Token[] {
    const isLong = line.length > MAX_INLINE;
    const lexed = isLong ? [{ type: "text", raw: line, text: line } as const] : this.markup(line);
    for (const token of lexed) {
      if (token.type === "text" && token.text.includes("\n"))
        for (const piece of withBreaks(token.text)) tokens.push(piece);
      else tokens.push(token);
    }
    return tokens;
  }

  /** The inline Markdown of a line, whose texts may have line breaks. */
  private markup(line: string): Token[] {
    const outer = this.line;
    this.line = line;
    try {
      return super.inlineTokens(line);
    } finally {
      this.line = outer;
    }
  }
}
