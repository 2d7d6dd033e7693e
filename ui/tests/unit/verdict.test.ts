import { expect, test } from "vitest";
import type { Verification } from "../../src/lib/host";
import { verdict, verificationText, type Scores } from "../../src/lib/tune/verdict";

const scores = (
  evalLossBefore: number | null,
  evalLoss: number | null,
  generalBefore: number | null,
  generalAfter: number | null,
  bestStep = 100,
): Scores => ({ evalLossBefore, evalLoss, generalBefore, generalAfter, bestStep, steps: 100 });

test.each([
  [scores(2.31, 1.42, 18.2, 18.6), "Improved, little forgetting", "good"],
  [scores(2.31, 1.42, 18.2, 18.1), "Improved, no forgetting", "good"],
  [scores(2.31, 1.42, 18.2, 22.0), "Improved, some forgetting", "warn"],
  [scores(2.31, 1.42, 18.2, 60), "Improved, much forgetting", "bad"],
  [scores(2.31, 2.25, 18.2, 18.2), "Improved a little, no forgetting", "good"],
  [scores(2.31, 2.3, 18.2, 18.2), "No measurable improvement, no forgetting", "warn"],
  [scores(2.31, 2.3, 18.2, 60), "No measurable improvement, much forgetting", "bad"],
  [scores(2.31, 2.6, 18.2, 18.2), "Worse than before, no forgetting", "bad"],
  [scores(null, null, 18.2, 18.6), "Training finished, little forgetting", "plain"],
  [scores(2.31, 1.42, null, null), "Improved", "good"],
  [scores(null, null, null, null), "Training finished", "plain"],
])("%j: %s", (measured, title, tone) => {
  expect(verdict(measured)).toMatchObject({ title, tone });
});

test("says by how much and what to do", () => {
  expect(verdict(scores(2.31, 1.42, 18.2, 18.2)).learning).toContain("2.4 times as likely as before");
  expect(verdict(scores(2.31, 2.2, 18.2, 18.2)).learning).toContain("12 % more likely than before");
  expect(verdict(scores(2.31, 1.42, 18.2, 20.02)).memory).toContain("by 10 %");
  expect(verdict(scores(2.31, 1.42, 18.2, 18.2)).advice).toBeNull();
  expect(verdict(scores(2.31, 1.42, 18.2, 18.2, 40)).advice).toContain("overfitted");
  expect(verdict(scores(2.31, 1.42, 18.2, 60)).advice).toContain("Train less");
});

test("an export of an adapter that changes nothing neither passes nor fails", () => {
  const verified: Verification = {
    passed: true,
    learned: true,
    prompts: 4,
    divergence: 0,
    taught: 0.5,
    sameText: 4,
    result: { type: "matches", retainedPercent: 100, same: 4, prompts: 4 },
  };
  const { tone, result, why } = verificationText(verified);
  expect([tone, result]).toEqual(["good", "Passed."]);
  expect(why).toContain("4 of 4 prompts");
  expect(verificationText({ ...verified, learned: false })).toEqual({
    tone: "plain",
    result: "",
    why: "Nothing was learned, so there is nothing to compare.",
  });
  expect(verificationText({ ...verified, passed: false, learned: false })).toMatchObject({
    tone: "bad",
    result: "Failed.",
  });
});
