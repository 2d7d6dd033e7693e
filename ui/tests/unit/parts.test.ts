import { expect, test } from "vitest";
import type { Part } from "../../src/lib/host";
import { cardText, grown, lengthOf, plain, textOf, type CardPart } from "../../src/lib/text/parts";

test("generated text grows in its own part", () => {
  let parts: Part[] = [];
  for (const [kind, text] of [["thinking", "Hm"], ["thinking", "m."], ["text", "Pa"], ["text", "ris."]] as const) parts = grown(parts, kind, text);
  expect(parts).toEqual([{ type: "thinking", text: "Hmm." }, { type: "text", text: "Paris." }]);
  expect([textOf(parts), lengthOf(parts)]).toEqual(["Paris.", 10]);
  expect(textOf(grown(grown(parts, "thinking", "Or?"), "text", "Yes."))).toBe("Paris.\n\nYes.");
  expect([plain(""), plain("x")]).toEqual([[], [{ type: "text", text: "x" }]]);
});

test.each<[CardPart, string, string, string]>([
  [{ type: "toolCall", id: "1", name: "sum", arguments: { of: [1] } }, "sum", "Tool call", '{\n  "of": [\n    1\n  ]\n}'],
  [{ type: "toolResult", id: "1", name: "sum", text: "3" }, "sum", "Tool result", "3"],
  [{ type: "file", name: "a.txt", mediaType: "text/plain", text: "four" }, "a.txt", "File, 4 B", "four"],
  [{ type: "image", name: "a.png", mediaType: "image/png", path: "/a.png", bytes: 48_200 }, "a.png", "Image, 48 kB", ""],
])("a card names its part: %j", (part, title, detail, body) => {
  expect(cardText(part)).toEqual({ title, detail, body });
});
