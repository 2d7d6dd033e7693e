import { describe, expect, test } from "vitest";
import type { Message } from "../../src/lib/host";
import { lecture, tour } from "../../src/lib/host/fake/answers";
import { BlockReader, type Token } from "../../src/lib/markdown/blocks";
import { firstLines, lineCount } from "../../src/lib/markdown/fold";
import { MAX_NOTES, Numbering } from "../../src/lib/markdown/notes/numbering";
import { Find } from "../../src/lib/stores/find.svelte";
import { utterances } from "../../src/lib/stores/speech.svelte";
import { fold, occurrences } from "../../src/lib/text/fold";
import { codeOf, foundText, plainText, spokenText } from "../../src/lib/text/plain";
import { plain } from "../../src/lib/text/parts";

describe("footnotes", () => {
  const notes = (text: string) =>
    new BlockReader()
      .read(text)
      .flatMap((block) =>
        block.type === "note" ? [[block.label, (block.tokens ?? []).map(({ type }) => type).join(" ")]] : [],
      );

  test.each<[string, string[][]]>([
    ["[^1]: one", [["1", "paragraph"]]],
    [
      "text[^a]\n[^a]: one\n[^b]: two",
      [
        ["a", "paragraph"],
        ["b", "paragraph"],
      ],
    ],
    ["[^1]: one\n\n    two\n\nnot", [["1", "paragraph space paragraph"]]],
    ["[^1]: one\n\nnot", [["1", "paragraph"]]],
    ["[^1]:\n    - a\n    - b", [["1", "list"]]],
    ["- [^1]: no", []],
    ["[^1]: [^2]: inner", [["1", "paragraph"]]],
    ["[^ ]: no\n\n[^]: no\n\n[1]: https://example.com", []],
    ["```\n[^1]: code\n```", []],
  ])("of %j are %j", (text, expected) => {
    expect(notes(text)).toEqual(expected);
  });

  describe("have numbers", () => {
    /** A block whose label counts how often it is read. */
    let reads = 0;
    const note = (label: string): Token =>
      Object.defineProperty({ type: "note", raw: "" }, "label", {
        get: () => {
          reads++;
          return label;
        },
      });

    test("in their order, a repeated label only once", () => {
      const numbers = new Numbering().read([note("b"), { type: "hr", raw: "---" }, note("a"), note("b"), note("c")]);
      expect([...numbers]).toEqual([
        ["b", 1],
        ["a", 2],
        ["c", 3],
      ]);
    });

    test("that read each block once, and are limited", () => {
      const blocks = Array.from({ length: 8_000 }, (_, i) => note(String(i)));
      reads = 0;
      const numbers = new Numbering().read(blocks);
      expect(reads).toBeLessThanOrEqual(blocks.length);
      expect(numbers.size).toBe(MAX_NOTES);
      expect(numbers.get("7999")).toBeUndefined();
      expect(numbers.get(String(MAX_NOTES - 1))).toBe(MAX_NOTES);
    });

    test("that stay the same object while no label is added", () => {
      const numbering = new Numbering();
      const first = numbering.read([note("a"), note("b")]);
      expect(numbering.read([note("a"), note("b"), note("a")])).toBe(first);
      const more = numbering.read([note("a"), note("b"), note("c")]);
      expect(more).not.toBe(first);
      expect(numbering.read([note("b"), note("a"), note("c")])).not.toBe(more);
      expect(numbering.read([note("b")]).get("b")).toBe(1);
    });
  });
});

describe("an answer without markup", () => {
  test("is its text", () => {
    expect(plainText(tour)).toMatchInlineSnapshot(`
      "What Hearth can show

      A list, nested:

      1. Put the kettle on
      2. Choose a tea
        - green, at 80 °C
        - black, at 100 °C
      3. Wait three minutes

      Model	Quant	Size
      SmolLM2 135M	Q4_1	98 MB
      Qwen3 0.6B	Q8_0	639 MB

      The cat, having eaten, considered the matter closed.

      Inline code, a mistake, and a link to the Rust book.

      def greet(name: str) -> str:
          """Say hello."""
          return f"Hello, {name}!"  # warm

      [x] Streams
      [ ] Sings"
    `);
  });

  test("has formulas and footnotes as they were written", () => {
    const text = plainText(lecture);
    expect(text).toContain("is $\\sqrt{\\pi}$, a fact[gauss] that costs $5 in some books");
    expect(text).toContain("[gauss] Named after Gauss, found by Laplace.");
  });

  test("keeps its line breaks, also spoken and searched", () => {
    for (const write of [plainText, foundText, spokenText])
      expect(write("Roses are **red**,\nviolets are\nblue.")).toBe("Roses are red,\nviolets are\nblue.");
    expect(plainText("- one\n  two\n\n> three\n> four")).toBe("- one\n  two\n\nthree\nfour");
  });

  test("is only its code", () => {
    expect(codeOf("a\n```js\none\n```\nb `no`\n> ```\n> two\n> ```\n\n1. x\n   ```\n   three\n   ```")).toBe(
      "one\n\ntwo\n\nthree",
    );
    expect(codeOf("no code")).toBe("");
    // As an answer that follows a schema.
    expect(codeOf('\n{"name": "Ada"}\n')).toBe('{"name": "Ada"}');
    expect(codeOf("[1, 2]")).toBe("[1, 2]");
    for (const text of ["12", '"a"', "{a}", "[a](b)"]) expect(codeOf(text)).toBe("");
  });

  test("is spoken without code, formulas and addresses", () => {
    const spoken = spokenText(
      "See **this** https://example.com/x and $x$:\n\n```js\nlet no;\n```\n\n- one[^1]\n- two\n\n[^1]: note",
    );
    expect(spoken).toBe("See this  and :\n\none\ntwo\n\nnote");
  });

  test("is searched as it is shown", () => {
    expect(foundText("A **bo**ld [link](https://example.com) &amp; `code` $x$")).toBe("A bold link & code");
  });
});

describe("pieces to speak", () => {
  test("are short, whole sentences where possible, and lose nothing", () => {
    const text = `${"A sentence of some length, not too long. ".repeat(20)}\n\n${"word ".repeat(200)}\n${"x".repeat(1000)} End!`;
    const pieces = utterances(text);
    for (const piece of pieces) expect(piece.length).toBeLessThanOrEqual(221);
    expect(pieces.join("").replace(/\s/g, "")).toBe(text.replace(/\s/g, ""));
    expect(pieces[0]).toMatch(/long\.$/);
    expect(utterances("  \n ")).toEqual([]);
  });
});

test("long code is folded to its first lines", () => {
  const code = Array.from({ length: 40 }, (_, i) => `line ${i + 1}`).join("\n");
  expect(lineCount(code)).toBe(40);
  expect(firstLines(code, 20).split("\n").at(-1)).toBe("line 20");
  expect(firstLines("a\nb", 20)).toBe("a\nb");
  expect(lineCount("")).toBe(1);
});

describe("folded text", () => {
  test.each([
    ["Déjà VU", "deja vu"],
    ["e\u0301 ÅÖ", "e ao"],
    ["a\nb\tc\u00a0d", "a b c d"],
    ["İstanbul", "istanbul"],
    ["日本 😀 한", `日本 😀 ${"한".normalize("NFD")}`],
  ])("of %j is %j, with the place of each character", (text, folded) => {
    const made = fold(text);
    expect(made.text).toBe(folded);
    expect(made.origin(0)).toBe(0);
    expect(made.origin(made.text.length)).toBe(text.length);
    for (let i = 1; i <= made.text.length; i++) expect(made.origin(i)).toBeGreaterThanOrEqual(made.origin(i - 1));
  });

  test("has occurrences without overlap", () => {
    expect(occurrences("aaaa", "aa")).toEqual([0, 2]);
    expect(occurrences("abc", "")).toEqual([]);
    expect(occurrences("aaaa", "a", 2)).toEqual([0, 1]);
  });
});

describe("a search in a conversation", () => {
  const message = (id: number, role: Message["role"], text: string) =>
    ({ id, role, parts: plain(text) }) as unknown as Message;
  const thread = [
    message(1, "user", "Wo ist der Käse?"),
    message(2, "assistant", "The **cheese** is in the *pantry*; kase is German."),
    message(3, "user", "`x` *cheese*"),
    message(4, "assistant", "[a](https://cheese.example) cheese, cheese"),
  ];

  function search(query: string, from = 0): Find {
    const find = new Find((callback) => callback());
    find.query = query;
    find.run(thread, from);
    return find;
  }

  test.each<[string, [number, number][]]>([
    [
      "KASE",
      [
        [1, 1],
        [2, 1],
      ],
    ],
    [
      "käse",
      [
        [1, 1],
        [2, 1],
      ],
    ],
    ["is in the pantry", [[2, 1]]],
    [
      "cheese",
      [
        [2, 1],
        [3, 1],
        [4, 2],
      ],
    ],
    ["*cheese*", [[3, 1]]],
    ["https", []],
    ["  ", []],
  ])("for %j finds %j", (query, hits) => {
    const find = search(query);
    expect(find.hits.map(({ message: id, count }) => [id, count])).toEqual(hits);
    expect(find.searching).toBe(false);
  });

  test("begins where one reads, goes around, and keeps its place", () => {
    const find = search("cheese", 2);
    expect(find.current).toEqual({ row: 2, message: 3, index: 0 });
    find.step(1);
    find.step(1);
    expect(find.current).toEqual({ row: 3, message: 4, index: 1 });
    find.step(1);
    const first = find.current;
    find.step(-1);
    expect(find.current).toEqual({ row: 3, message: 4, index: 1 });
    find.step(1);
    expect(find.current).toEqual(first);
    find.run(thread, 3);
    expect(find.current).toEqual(first);
    find.stop();
    expect([find.current, find.total, find.number]).toEqual([null, 0, 0]);
    find.step(1);
    expect(find.current).toBeNull();
  });

  test("is of what is shown of long messages, and says so", () => {
    const find = new Find((callback) => callback());
    const long = [
      message(1, "user", `Where? ${"word ".repeat(100)}here`),
      message(2, "assistant", `*Here* ${"word ".repeat(100)}and here`),
    ];
    const counts = (maxLength: number) => {
      find.run(long, 0, () => maxLength);
      return [find.hits.map(({ count }) => count), find.partial];
    };
    find.query = "here";
    expect(counts(300)).toEqual([[1, 1], true]);
    expect(counts(1_000)).toEqual([[2, 2], false]);
  });

  test("of 10,000 messages is done in slices, and a new query ends it", () => {
    const frames: (() => void)[] = [];
    const find = new Find((callback) => frames.push(callback));
    const many = Array.from({ length: 10_000 }, (_, i) =>
      message(
        i,
        i % 2 === 0 ? "user" : "assistant",
        `Message ${i} says something about **bread** and *butter*, with \`code\`.`,
      ),
    );
    const start = performance.now();
    find.query = "bread and butter";
    find.run(many, 0);
    let longest = 0;
    while (frames.length > 0) {
      const at = performance.now();
      frames.shift()?.();
      longest = Math.max(longest, performance.now() - at);
    }
    expect(find.total).toBe(5_000);
    expect(performance.now() - start).toBeLessThan(20_000);
    expect(longest).toBeLessThan(200);
    find.query = "other";
    find.run(many, 0);
    find.query = "bread";
    find.run(many, 0);
    while (frames.length > 0) frames.shift()?.();
    expect(find.total).toBe(10_000);
  });
});
