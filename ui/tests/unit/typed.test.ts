import { describe, expect, test } from "vitest";
import type { Token } from "../../src/lib/markdown/blocks";
import { typedBlocks } from "../../src/lib/markdown/typed";
import { foundInTyped } from "../../src/lib/text/plain";
import { randomSource } from "./random";

/** The pieces of a text: `code:`, `maths:`, `codespan:`, `table:` with its cells, or typed text. */
function pieces(text: string): string[] {
  const shown = (token: Token): string[] => {
    if (token.type === "space") return [];
    if (token.type === "paragraph") return (token.tokens ?? []).flatMap(shown);
    if (token.type === "typed") return [token.raw];
    if (token.type !== "table") return [`${token.type}:${"text" in token ? token.text : ""}`];
    const cells = (row: { tokens: Token[] }[]) => row.map((cell) => cell.tokens.flatMap(shown).join("")).join("|");
    return [`table:${[token.header, ...token.rows].map(cells).join("/")}`];
  };
  return typedBlocks(text).flatMap(shown);
}

describe("a message of the user", () => {
  test.each<[name: string, text: string, expected: string[]]>([
    ["no headings, lists or quotes", "# a\n- b *c*\n> d", ["# a\n- b *c*\n> d"]],
    ["white space", "  two  spaces\n\n\n\ttab", ["  two  spaces\n\n\n\ttab"]],
    ["no HTML or links", "&amp; <b> [a](https://example.com)", ["&amp; <b> [a](https://example.com)"]],
    ["fenced code", "fix:\n\n```py\n  x = 1\n```\n\n  why?", ["fix:", "code:  x = 1", "  why?"]],
    ["a fence with text after it", "``` is a fence\nhere", ["``` is a fence\nhere"]],
    ["code that is left open", "a\n~~~\nb", ["a", "code:b"]],
    ["empty code", "```\n```\n```", ["code:", "code:"]],
    ["code spans", "run `ls -l` and ``a ` b``", ["run ", "codespan:ls -l", " and ", "codespan:a ` b"]],
    ["spaces in code spans", "` x ` `  ` `a", ["codespan:x", " ", "codespan:  ", " `a"]],
    ["code spans within a line", "`no\ncode`", ["`no\ncode`"]],
    ["a table", "a | b\n--|--\n`1` | $x$\nSum?", ["table:a|b/codespan:1|maths:x", "Sum?"]],
    ["escaped bars in a table", "a | b\n--|--\n1 | 2 \\| 3", ["table:a|b/1|2 | 3"]],
    ["a row with more cells than the header", "a | b\n--|--\n1 | 2 | 3", ["a | b\n--|--\n1 | 2 | 3"]],
    ["bars that are no table", "ls | wc\n-- no table", ["ls | wc\n-- no table"]],
    ["formulas", "solve $x^2 = 4$ and \\(y\\)", ["solve ", "maths:x^2 = 4", " and ", "maths:y"]],
    ["displays", "why?\n$$\nx\n$$\nso\n\\[\ny\n\\]", ["why?", "maths:x", "so", "maths:y"]],
    ["a display in a line", "it is $$\nx\n$$ here", ["it is ", "maths:x", " here"]],
    ["amounts and variables", "from $5 to $10 in $HOME/bin:$PATH", ["from $5 to $10 in $HOME/bin:$PATH"]],
    ["escaped dollars", "\\$x$ is no $ formula", ["\\$x$ is no $ formula"]],
    ["dollars in two lines", "a=$b\nc=$, d", ["a=$b\nc=$, d"]],
    ["nothing", "\n \n", []],
  ])("has %s", (_, text, expected) => {
    expect(pieces(text)).toEqual(expected);
  });

  test("keeps each character that is no markup", () => {
    const parts = [
      "a",
      " ",
      "\n",
      "\n\n",
      "`",
      "``",
      "```\n",
      "~~~\n",
      "| a | b |\n",
      "|---|---|\n",
      "$",
      "$$",
      "$$\n",
      "\\",
      "\\(",
      "\\)",
      "\\[",
      "\\]",
      "# ",
      "- ",
      "日",
    ];
    for (let seed = 1; seed <= 2000; seed++) {
      const random = randomSource(seed);
      const text = Array.from({ length: 1 + random(40) }, () => parts[random(parts.length)]).join("");
      const blocks = typedBlocks(text);
      expect(blocks.map(({ raw }) => raw).join(""), JSON.stringify(text)).toBe(text);
      for (const block of blocks)
        if (block.type === "paragraph")
          expect((block.tokens ?? []).map(({ raw }) => raw).join(""), JSON.stringify(text)).toBe(block.text);
    }
  });

  test("takes linear time", () => {
    const runs = Array.from({ length: 400 }, (_, i) => "`".repeat(i + 1)).join(" ");
    for (const piece of [
      "`",
      "` ",
      "$",
      "$a ",
      "$$\n",
      "\\(",
      "\\[\n",
      "|\n",
      "| a |\n|---|\n",
      "| a |\n",
      "```\n",
      "```a b\n",
      "~~~~",
      " ",
      "\n",
      runs,
    ]) {
      const time = (length: number) => {
        const text = `${piece.repeat(Math.ceil(length / piece.length))}| a | b |`;
        const start = performance.now();
        typedBlocks(text);
        return performance.now() - start;
      };
      const short = time(15_000);
      // Quadratic time would be 16 times as long.
      expect(time(60_000), JSON.stringify(piece.slice(0, 20))).toBeLessThan(8 * short + 200);
    }
  });

  test("is searched as it is shown", () => {
    expect(foundInTyped("Why is `a` *so*?\n\n```js\nlet b;\n```\n$x$ & &amp;")).toBe(
      "Why is a *so*?\n\nlet b;\n\n & &amp;",
    );
  });
});
