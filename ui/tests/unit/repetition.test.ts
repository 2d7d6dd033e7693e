import { expect, test } from "vitest";
import { endsRepeating } from "../../src/lib/text/repetition";
import { randomSource } from "./random";

test("a sentence that is said again and again is noticed, behind any text", () => {
  const sentence = "The answer is the answer, and so on. ";
  const varied = Array.from({ length: 300 }, (_, i) => `Line ${i} says something else.`).join("\n");
  for (const before of ["", "Well. ", varied]) {
    expect(endsRepeating(before + sentence.repeat(20))).toBe(true);
    // Also in the middle of a period.
    expect(endsRepeating(before + sentence.repeat(20) + sentence.slice(0, 9))).toBe(true);
    expect(endsRepeating(before + sentence.repeat(7))).toBe(false);
    expect(endsRepeating(`${before}${sentence.repeat(20)}But that is over now.`)).toBe(false);
  }
  expect(endsRepeating("ha".repeat(300))).toBe(true);
  expect(endsRepeating("🙂".repeat(300))).toBe(true);
});

test("what only looks alike is not", () => {
  expect(endsRepeating("")).toBe(false);
  expect(
    endsRepeating(
      Array.from({ length: 200 }, (_, i) => `${i}. The fire burned low, and the clock went on.`).join("\n"),
    ),
  ).toBe(false);
  expect(endsRepeating(`| a | b |\n|${"-".repeat(80)}|`)).toBe(false);
  const next = randomSource(7);
  expect(endsRepeating(Array.from({ length: 5000 }, () => "ab"[next(2)]).join(""))).toBe(false);
});

test("only the end of a long text is looked at, so that a check is cheap", () => {
  const paragraph = Array.from({ length: 120 }, (_, i) => `Line ${i} says something else.`).join("\n");
  expect(paragraph.length).toBeGreaterThan(3000);
  expect(endsRepeating(paragraph.repeat(50))).toBe(false);
  expect(endsRepeating("x".repeat(1_000_000))).toBe(true);
});
