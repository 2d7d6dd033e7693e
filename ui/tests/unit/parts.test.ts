import { expect, test } from "vitest";
import type { Part } from "../../src/lib/host";
import { beginning } from "../../src/lib/text/beginning";
import { cardText, folded, grown, lengthOf, plain, shownText, textOf, type CardPart } from "../../src/lib/text/parts";

test("generated text grows in its own part", () => {
  let parts: Part[] = [];
  for (const [kind, text] of [
    ["thinking", "Hm"],
    ["thinking", "m."],
    ["text", "Pa"],
    ["text", "ris."],
  ] as const)
    parts = grown(parts, kind, text);
  expect(parts).toEqual([
    { type: "thinking", text: "Hmm." },
    { type: "text", text: "Paris." },
  ]);
  expect([textOf(parts), lengthOf(parts)]).toEqual(["Paris.", 10]);
  expect(textOf(grown(grown(parts, "thinking", "Or?"), "text", "Yes."))).toBe("Paris.\n\nYes.");
  expect([plain(""), plain("x")]).toEqual([[], [{ type: "text", text: "x" }]]);
});

test.each<[string, Part[], Part[]]>([
  ["nothing", [], []],
  ["a text", plain("\n So. \n"), [{ type: "thinking", text: "So." }]],
  ["white space", plain(" "), []],
  ["a thought", [{ type: "thinking", text: "Hm." }], [{ type: "thinking", text: "Hm." }]],
  [
    "a thought and a text",
    [
      { type: "thinking", text: "Hm." },
      { type: "text", text: "So." },
    ],
    [{ type: "thinking", text: "Hm.\n\nSo." }],
  ],
])("the text at the end becomes a thought: %s", (_, parts, thought) => {
  expect(folded(parts)).toEqual(thought);
  expect(lengthOf(folded(parts))).toBe(lengthOf(parts));
});

test.each<[CardPart, string, string, string]>([
  [
    { type: "toolCall", id: "1", name: "sum", arguments: { of: [1] } },
    "sum",
    "Tool call",
    '{\n  "of": [\n    1\n  ]\n}',
  ],
  [{ type: "toolResult", id: "1", name: "sum", text: "3" }, "sum", "Tool result", "3"],
  [{ type: "file", name: "a.txt", mediaType: "text/plain", text: "four" }, "a.txt", "File, 4 B", "four"],
  [
    { type: "image", name: "a.png", mediaType: "image/png", path: "/a.png", bytes: 48_200 },
    "a.png",
    "Image, 48 kB",
    "",
  ],
])("a card names its part: %j", (part, title, detail, body) => {
  expect(cardText(part)).toEqual({ title, detail, body });
});

const words = "word ".repeat(20).trim();

test.each([
  ["all of a text that is no longer", `${words}\n\n${words}`, 200, `${words}\n\n${words}`],
  ["paragraphs", `${words}\n\n${words}\n${words}`, 250, words],
  ["lines", `${words}\n${words} ${words}`, 250, words],
  ["words", `${words} word`, 102, words],
  ["characters", "Ninety-nine", 4, "Nine"],
  ["whole characters", "🎂🎂🎂", 3, "🎂"],
  ["fewer of short lines", "- a\n".repeat(100), 240, "- a\n".repeat(10).trim()],
])("the beginning of a long text is %s", (_, text, maxLength, expected) => {
  expect(beginning(text, maxLength)).toBe(expected);
});

test("a long answer is shortened per text part, a long user message as one text", () => {
  const parts: Part[] = [...plain(words), { type: "thinking", text: "Hm." }, ...plain(`${words} more`)];
  expect(shownText({ role: "assistant", parts }, 100)).toBe(`${words}\n\n${words}`);
  expect(shownText({ role: "user", parts }, 100)).toBe(words);
  expect(shownText({ role: "user", parts }, 1_000)).toBe(textOf(parts));
});
