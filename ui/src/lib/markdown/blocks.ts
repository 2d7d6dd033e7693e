// Incremental Markdown parser: while an answer grows, only its last block is parsed again.

import { Lexer, Tokenizer, type Token, type Tokens } from "marked";

export type { Token };

/** Blocks of a growing text. Takes the whole text so far; unchanged blocks keep their identity. */
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
    const tail = lex(text.slice(this.settledLength));
    const blocks = [...this.settled, ...tail];
    this.settle(tail);
    return blocks;
  }

  /** Settles every block before the last one with text, which may still grow or absorb what follows. */
  private settle(tail: Token[]): void {
    let last = tail.length - 1;
    while (last > 0 && tail[last]?.type === "space") last--;
    for (const token of tail.slice(0, Math.max(0, last))) {
      this.settled.push(token);
      this.settledLength += token.raw.length;
    }
  }
}

/** An HTML tag is shown as text and must not change the lexer's state: marked would treat `<a>` as an open link, in later blocks too. */
class TagsAsWritten extends Tokenizer {
  override tag(src: string): Tokens.Tag | undefined {
    const { inLink, inRawBlock } = this.lexer.state;
    const tag = super.tag(src);
    Object.assign(this.lexer.state, { inLink, inRawBlock });
    return tag && { ...tag, inLink, inRawBlock };
  }
}

/** {@link BlockReader} relies on the `raw` of all blocks being as long as the text, so line endings must be normalised before. */
function lex(text: string): Token[] {
  try {
    return new Lexer({ gfm: true, tokenizer: new TagsAsWritten() }).lex(text);
  } catch {
    // Nested too deep for the stack: shown as raw text.
    return [{ type: "html", raw: text, text, pre: false, block: true }];
  }
}

/** The text with line endings normalised for {@link BlockReader}. */
export function normalised(text: string): string {
  return text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
}
