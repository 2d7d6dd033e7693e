// Incremental Markdown parser: while an answer grows, only its last block is parsed again.

import { Tokenizer, type Token, type Tokens } from "marked";
import { AnswerLexer } from "./lexer";
import { displayIn, undecided } from "./maths/delimiters";
import { noteIn } from "./notes/syntax";

export type { Token };

/**
 * Parses the blocks of a growing text. Takes the full text so far; unchanged blocks keep their
 * identity.
 */
export class BlockReader {
  private text = "";
  private settled: Token[] = [];
  private settledLength = 0;

  read(text: string): Token[] {
    if (!text.startsWith(this.text)) {
      this.settled = [];
      this.settledLength = 0;
    }
    this.text = text;
    const rest = text.slice(this.settledLength);
    const tail = lex(rest);
    const blocks = [...this.settled, ...tail];
    this.settle(tail, undecided(rest));
    return blocks;
  }

  /**
   * Settles every block before the last one with text, which may still grow or absorb what follows,
   * within `decided` characters. A block whose first line is not complete may still become part of
   * the block before it, unless that is a paragraph that a blank line ends.
   */
  private settle(tail: Token[], decided: number): void {
    let last = lastWithText(tail, tail.length - 1);
    const isBegun = last === tail.length - 1 && !tail[last]?.raw.includes("\n");
    const isAlone = tail[last - 1]?.type === "space" && tail[last - 2]?.type === "paragraph";
    if (isBegun && !isAlone) last = lastWithText(tail, last - 1);
    let end = 0;
    for (const token of tail.slice(0, Math.max(0, last))) {
      end += token.raw.length;
      if (end > decided) return;
      this.settled.push(token);
      this.settledLength += token.raw.length;
    }
  }
}

/** The index of the last block with text, at most `index`. */
function lastWithText(blocks: readonly Token[], index: number): number {
  while (index > 0 && blocks[index]?.type === "space") index--;
  return index;
}

/**
 * An HTML tag is shown as text and must not change the lexer's state: marked would treat `<a>` as
 * an open link, in later blocks too.
 */
class AnswerTokenizer extends Tokenizer {
  override tag(src: string): Tokens.Tag | undefined {
    const { inLink, inRawBlock } = this.lexer.state;
    const tag = super.tag(src);
    Object.assign(this.lexer.state, { inLink, inRawBlock });
    return tag && { ...tag, inLink, inRawBlock };
  }

  /**
   * An underlined heading begins after a display or a footnote, which may have been parsed before
   * its underline arrived.
   */
  override lheading(src: string): Tokens.Heading | undefined {
    const ends = [displayIn(src), noteIn(src)].filter((end) => end >= 0);
    return super.lheading(ends.length > 0 ? src.slice(0, Math.min(...ends)) : src);
  }

  /** The text of a footnote is not the address of a link, and is shown in place. */
  override def(src: string): Tokens.Def | undefined {
    return /^ {0,3}\[\^/.test(src) ? undefined : super.def(src);
  }
}

/**
 * {@link BlockReader} relies on the `raw` of all blocks being as long as the text, so line endings
 * must be normalized before.
 */
function lex(text: string): Token[] {
  try {
    return new AnswerLexer(new AnswerTokenizer()).lex(text);
  } catch {
    // Nested too deep for the stack: shown as raw text.
    return [{ type: "html", raw: text, text, pre: false, block: true }];
  }
}

/** The text with line endings normalized for {@link BlockReader}. */
export function normalized(text: string): string {
  return text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
}
