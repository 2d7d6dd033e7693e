// Fuzz tests: any answer renders, and only as our own elements.

import { render } from "svelte/server";
import { describe, expect, test } from "vitest";
import { BlockReader, normalized, type Token } from "../../src/lib/markdown/blocks";
import Markdown from "../../src/lib/markdown/Markdown.svelte";
import { codeOf, foundText, plainText, spokenText } from "../../src/lib/text/plain";
import { randomSource } from "./random";

/** Pieces of Markdown, and of attempts to break out of it. */
const PIECES = [
  "a",
  "word ",
  " ",
  "  ",
  "    ",
  "\t",
  "\n",
  "\n\n",
  "\r\n",
  "\\",
  "\u0000",
  "\u00a0",
  "\u2028",
  "é",
  "😀",
  "\ud800",
  "日本",
  "*",
  "**",
  "_",
  "__",
  "~~",
  "`",
  "``",
  "```",
  "```rust\n",
  "```\n",
  "~~~\n",
  "# ",
  "###### ",
  "===\n",
  "---\n",
  "> ",
  ">",
  "- ",
  "* ",
  "1. ",
  "999999999. ",
  "- [ ] ",
  "- [x] ",
  "| ",
  "|---|---|\n",
  "|:-:|\n",
  "[",
  "]",
  "](",
  ")",
  "![",
  "[a]: ",
  "[a]",
  "[^1]",
  "<",
  ">",
  "</",
  "/>",
  "<!--",
  "-->",
  "<![CDATA[",
  "<?",
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "<a href='javascript:alert(1)'>",
  "<svg onload=alert(1)>",
  '" onmouseover="alert(1)',
  "javascript:alert(1)",
  "https://example.com/",
  "http://",
  "www.example.com",
  "a@example.com",
  "data:text/html,x",
  "file:///etc/passwd",
  "&",
  "&lt;",
  "&#60;",
  "&#x3c;",
  "&#xd800;",
  "&#0;",
  "&amp;lt;",
  "&quot;",
  "'",
  '"',
  "{",
  "}",
  "{@html x}",
  "${x}",
  "$$",
  "$",
  "$$\n",
  "\n$$\n",
  "\\(",
  "\\)",
  "\\[",
  "\\]\n",
  "x^2",
  "\\frac{",
  "\\href{javascript:alert(1)}{x}",
  "[^1]: ",
  "\n[^1]: ",
  "[^<b>]",
  "```mermaid\n",
  "graph TD\nA-->B\n",
];

function drawn(seed: number, maxLength: number): string {
  const random = randomSource(seed);
  // Few kinds of pieces a text, so that they meet more often.
  const kinds = Array.from({ length: 2 + random(12) }, () => PIECES[random(PIECES.length)] ?? "");
  return Array.from({ length: 1 + random(maxLength) }, () => kinds[random(kinds.length)]).join("");
}

const ELEMENTS =
  "div sup p h[1-6] span strong em del code pre br hr a ul ol li blockquote table thead tbody tr th td button svg path g rect circle line polyline";
const ATTRIBUTES =
  "class id dir title rel target start role aria-[a-z]+ tabindex style width height viewBox fill stroke stroke-[a-z]+ d data-[a-z]+ cx cy r x y x1 x2 y1 y2 rx points";
const names = (list: string) => `(?:${list.split(" ").join("|")})`;
const ATTRIBUTE = `(?: ${names(ATTRIBUTES)}(?:="[^"<>]*")?| href="(?:https?|mailto):[^"<>]*")`;
const TAG = new RegExp(`<!--[^<>]*-->|</${names(ELEMENTS)}>|<${names(ELEMENTS)}${ATTRIBUTE}*\\s*/?>`, "g");

/**
 * The rest of a page without our own tags. It has no `<`, since `<` in a text is written as `&lt;`.
 */
function beside(html: string): string {
  return html.replace(TAG, "");
}

/** The page's text for an answer. */
function shown(text: string): string {
  return render(Markdown, { props: { text } }).body;
}

describe("a random answer", () => {
  test("becomes only our own elements", () => {
    for (let seed = 1; seed <= 1000; seed++) {
      const text = drawn(seed, 40);
      expect(beside(shown(text)), `seed ${seed}: ${JSON.stringify(text)}`).not.toContain("<");
    }
  });

  test("has a block for each of its characters, also while it grows", () => {
    for (let seed = 1; seed <= 1000; seed++) {
      const text = normalized(drawn(seed, 30));
      const random = randomSource(seed);
      const reader = new BlockReader();
      for (let at = 0; at < text.length;) {
        at = Math.min(text.length, at + 1 + random(9));
        // Not the text itself: marked writes a line's end for a space behind a task.
        const characters = reader.read(text.slice(0, at)).reduce((sum, block) => sum + block.raw.length, 0);
        expect(characters, `seed ${seed}: ${JSON.stringify(text)}`).toBe(at);
      }
    }
  });

  test("has the same formulas and footnotes however it was streamed", () => {
    for (let seed = 1; seed <= 1000; seed++) {
      const text = normalized(drawn(seed, 30));
      const random = randomSource(seed);
      const reader = new BlockReader();
      let blocks = reader.read("");
      for (let at = 0; at < text.length;)
        blocks = reader.read(text.slice(0, (at = Math.min(text.length, at + 1 + random(9)))));
      const complete = new BlockReader().read(text);
      // A link's definition counts only in the blocks that are read with it, so that their contents
      // may differ.
      const own = (all: readonly Token[]) =>
        all.flatMap(({ type, raw }) => (type === "maths" || type === "note" ? raw : []));
      expect(own(blocks), `seed ${seed}: ${JSON.stringify(text)}`).toEqual(own(complete));
    }
  });

  test("has the same blocks and lines however it was streamed", () => {
    const pieces = ["a", "word ", " ", "  ", "\n", "\n\n", "\\", "*", "**", "`", "# ", "> ", "- ", "$", "日"];
    for (let seed = 1; seed <= 1000; seed++) {
      const random = randomSource(seed);
      const text = Array.from({ length: 1 + random(30) }, () => pieces[random(pieces.length)]).join("");
      const reader = new BlockReader();
      let blocks = reader.read("");
      for (let at = 0; at < text.length;)
        blocks = reader.read(text.slice(0, (at = Math.min(text.length, at + 1 + random(9)))));
      expect(blocks, `seed ${seed}: ${JSON.stringify(text)}`).toEqual(new BlockReader().read(text));
    }
  });

  test("is copied, spoken and searched", () => {
    for (let seed = 1; seed <= 500; seed++) {
      const text = drawn(seed, 40);
      for (const write of [plainText, foundText, spokenText, codeOf])
        expect(typeof write(text), `seed ${seed}: ${JSON.stringify(text)}`).toBe("string");
    }
  });

  test("renders with one piece repeated thousands of times", () => {
    for (const piece of PIECES) {
      const text = piece.repeat(Math.ceil(10_000 / piece.length));
      expect(beside(shown(text)), JSON.stringify(piece)).not.toContain("<");
    }
  });
});

test.each([
  ["<script>x</script>", "<script>x</script>"],
  ['<a href="javascript:x">', '<a href="javascript:x">'],
  ['<p onclick="x">y</p>', '<p onclick="x">y'],
  ['<p class="x">y</p><!--[-->', "y"],
])("a page with %j has %j beside elements of ours", (html, left) => {
  expect(beside(html)).toBe(left);
});
