import { describe, expect, test } from "vitest";
import { BlockReader, normalized } from "../../src/lib/markdown/blocks";
import { entities } from "../../src/lib/markdown/entities";
import { highlight } from "../../src/lib/markdown/highlight";
import { destination, safeAddress } from "../../src/lib/markdown/link";
import { hostile, lecture, tour } from "../../src/lib/host/fake/answers";
import { randomSource } from "./random";

const texts: Record<string, string> = {
  tour,
  hostile,
  lecture,
  "display after text": "text\n$$\nx\n$$\nmore\n\\[ y \\]\n",
  "display around a heading": "text\n$$\nx\n# title\n- a\n+ b\n$$\n\nend",
  "display with a list and a quote in it": "$$\na\n- b\n+ c\n> d\n===\n$$\n\nend",
  "displays left open": "$$\nx\n\n\\[\n# title\n\ntext $$ y\n$$ z",
  "display in a list": "- a\n  $$\n  x\n  $$\n- b\n\n  \\[ y \\]\n\nend",
  notes: "a[^1] b[^2]\n[^1]: one\n  more\n\n    still one\n[^2]: two\nlazy\n\n[^3]:\n- no\n",
  "a heading's underline after notes": "a\n[^1]: b\nc\n===\n",
  "a note in a list and in a note": "- [^1]: no\n\n[^2]: [^3]: no\n\n> [^4]: no",
  "list that loosens": "- a\n- b\n\n  still b\n- c\n\nafter\n",
  "setext heading": "Title\n===\ntext\n\nOther\n---\n",
  "open fence": "before\n\n```rust\nfn main() {\n\n\n}\n",
  "quote and lazy line": "> one\ntwo\n\n> three\n\n\n> four",
  "table after text": "text\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nend",
  "lines of a poem": "one\ntwo  \n  three *four\nfive* `six\nseven`\n\n- eight\n  nine\n> ten\neleven\n",
  "windows lines": "one\r\n\r\ntwo\r\n- three\r\n",
  "indented code": "para\n\n    code\n\n    more\n\npara",
  "tags of a link and of code that are left open": "see <a href=x> and <pre>\n\nhttps://example.com *x*",
  html: "<div>\n\n*x*\n\n</div>\n\ntext",
};

describe("blocks of a growing text", () => {
  test.each(Object.entries(texts))("equal those of the whole text: %s", (_, raw) => {
    const text = normalized(raw);
    const complete = new BlockReader().read(text);
    for (let seed = 1; seed <= 12; seed++) {
      const random = randomSource(seed);
      const reader = new BlockReader();
      let blocks = reader.read("");
      for (let at = 0; at < text.length;) {
        at = Math.min(text.length, at + 1 + random(9));
        blocks = reader.read(text.slice(0, at));
      }
      expect(blocks).toEqual(complete);
    }
  });

  test("keep their identity once another block follows", () => {
    const reader = new BlockReader();
    const [first] = reader.read("one\n\ntwo");
    expect(reader.read("one\n\ntwo and more")[0]).toBe(first);
  });

  test("start over when the text is replaced", () => {
    const reader = new BlockReader();
    reader.read("one\n\ntwo\n\nthree");
    expect(reader.read("other")).toEqual(new BlockReader().read("other"));
  });

  test("have no inline Markdown in very long paragraphs, which would take quadratic time", () => {
    const read = (times: number) => new BlockReader().read("*a* [b](c) ".repeat(times));
    expect(read(1_000).map((block) => block.type === "paragraph" && (block.tokens?.length ?? 0) > 1_000)).toEqual([
      true,
    ]);
    const [block] = read(100_000);
    expect([block?.raw.length, block?.type === "paragraph" && block.tokens?.map(({ type }) => type)]).toEqual([
      1_100_000,
      ["text"],
    ]);
  });

  test("have line breaks, in long paragraphs too", () => {
    const kinds = (text: string) =>
      new BlockReader().read(text).flatMap((block) => (block.type === "paragraph" ? block.tokens : []));
    const types = (text: string) => kinds(text).map((token) => token?.type);
    expect(types("a\nb")).toEqual(["text", "br", "text"]);
    expect(types("$a\nb$ `c\nd` *e*\nf")).toEqual(["maths", "text", "codespan", "text", "em", "br", "text"]);
    const long = types("line\n".repeat(10_000));
    expect([long.length, long.filter((type) => type === "br").length]).toEqual([19_999, 9_999]);
  });

  test("with line breaks take linear time", () => {
    for (const piece of ["a\n", "  ", " \n"]) {
      const text = `x${piece.repeat(Math.floor(19_000 / piece.length))}x`;
      const start = performance.now();
      new BlockReader().read(text);
      expect(performance.now() - start, JSON.stringify(piece)).toBeLessThan(500);
    }
  });

  test("survive very deep nesting", () => {
    for (const text of [">".repeat(20_000) + " deep", "[".repeat(5_000), "*a ".repeat(2_000), "- ".repeat(3_000)]) {
      expect(new BlockReader().read(text).length).toBeGreaterThan(0);
    }
  });
});

test.each([
  ["https://example.com/a?b=c", "https://example.com/a?b=c"],
  ["http://example.com", "http://example.com/"],
  ["mailto:a@example.com", "mailto:a@example.com"],
  ["javascript:alert(1)", null],
  ["JaVaScRiPt:alert(1)", null],
  [" javascript:alert(1)", null],
  ["java\nscript:alert(1)", null],
  ["data:text/html,x", null],
  ["vbscript:x", null],
  ["file:///etc/passwd", null],
  ["tauri://localhost", null],
  ["//example.com", null],
  ["/relative", null],
  ["", null],
])("the address %j is opened as %j", (href, address) => {
  expect(safeAddress(href)).toBe(address);
});

test.each([
  ["https://www.example.com/page", "here", "example.com"],
  ["https://example.com/", "https://example.com", null],
  ["https://example.com/", "example.com", null],
  ["https://evil.example/", "https://bank.example", "evil.example"],
  ["mailto:a@example.com", "write", "a@example.com"],
])("a link to %s that reads %j shows %j", (address, text, place) => {
  expect(destination(address, text)).toBe(place);
});

test.each([
  ["a &amp; b &lt;c&gt; &#65;&#x42; &nope; &#0; &#99999999;", "a & b <c> AB &nope; &#0; &#99999999;"],
  ["plain", "plain"],
])("character references in %j", (text, shown) => {
  expect(entities(text)).toBe(shown);
});

test.each([
  ["rust", 'fn main() { println!("<b>{}</b>", 1); } // &amp;'],
  ["html", "<script>alert('x')</script>"],
  ["nonsense", "<b>x</b>"],
  ["", "x"],
])("colored %s is the same code", (language, code) => {
  const spans = highlight(code, language);
  expect(spans.map((span) => span.text).join("")).toBe(code);
  for (const { kind } of spans) expect(kind ?? "").toMatch(/^[a-z_-]*$/);
});
