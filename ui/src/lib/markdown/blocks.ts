// Markdown to blocks, a bit at a time: what came before the last block is never read again while an answer grows.

import { Lexer, Tokenizer, type Token, type Tokens } from "marked";

export type { Token };

/** Blocks of one growing text. Feed it the whole text so far; blocks that did not change keep their identity. */
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

  /** Everything before the last block that holds text: that one may still grow, or swallow what follows it. */
  private settle(tail: Token[]): void {
    let last = tail.length - 1;
    while (last > 0 && tail[last]?.type === "space") last--;
    for (const token of tail.slice(0, Math.max(0, last))) {
      this.settled.push(token);
      this.settledLength += token.raw.length;
    }
  }
}

/** An HTML tag is shown as it was written, so it changes nothing behind it: marked would take an `<a>` for a link that is open, in later blocks too. */
class TagsAsWritten extends Tokenizer {
  override tag(src: string): Tokens.Tag | undefined {
    const { inLink, inRawBlock } = this.lexer.state;
    const tag = super.tag(src);
    Object.assign(this.lexer.state, { inLink, inRawBlock });
    return tag && { ...tag, inLink, inRawBlock };
  }
}

/** `raw` of the blocks is as long as the text, which {@link BlockReader} counts on: so no line ending is left to be normalised. */
function lex(text: string): Token[] {
  try {
    return new Lexer({ gfm: true, tokenizer: new TagsAsWritten() }).lex(text);
  } catch {
    // Nested beyond what the stack holds: shown as it was written.
    return [{ type: "html", raw: text, text, pre: false, block: true }];
  }
}

/** The text of an answer as {@link BlockReader} takes it. */
export function normalised(text: string): string {
  return text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
}
