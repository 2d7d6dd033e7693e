import { expect, test } from "vitest";
import { verdict, type Scores } from "../../src/lib/tune/verdict";

const scores = (evalLossBefore: number | null, evalLoss: number | null, generalBefore: number | null, generalAfter: number | null, bestStep = 100): Scores => ({ evalLossBefore, evalLoss, generalBefore, generalAfter, bestStep, steps: 100 });

test.each([
  [scores(2.31, 1.42, 18.2, 18.6), "It learnt, and forgot little", "good"],
  [scores(2.31, 1.42, 18.2, 18.1), "It learnt, and forgot nothing", "good"],
  [scores(2.31, 1.42, 18.2, 22.0), "It learnt, but forgot some of what it knew", "warn"],
  [scores(2.31, 1.42, 18.2, 60), "It learnt, but forgot much of what it knew", "bad"],
  [scores(2.31, 2.25, 18.2, 18.2), "It learnt a little, and forgot nothing", "good"],
  [scores(2.31, 2.3, 18.2, 18.2), "It learnt nothing that shows, and forgot nothing", "warn"],
  [scores(2.31, 2.3, 18.2, 60), "It learnt nothing that shows, and forgot much of what it knew", "bad"],
  [scores(2.31, 2.6, 18.2, 18.2), "It got worse, but forgot nothing", "bad"],
  [scores(null, null, 18.2, 18.6), "It ran to its end, and forgot little", "plain"],
  [scores(2.31, 1.42, null, null), "It learnt", "good"],
  [scores(null, null, null, null), "It ran to its end", "plain"],
])("%j: %s", (measured, title, tone) => {
  expect(verdict(measured)).toMatchObject({ title, tone });
});

test("says by how much, and what to do", () => {
  expect(verdict(scores(2.31, 1.42, 18.2, 18.2)).learning).toContain("2.4 times as likely as before");
  expect(verdict(scores(2.31, 2.2, 18.2, 18.2)).learning).toContain("12 % likelier than before");
  expect(verdict(scores(2.31, 1.42, 18.2, 20.02)).memory).toContain("10 % more");
  expect(verdict(scores(2.31, 1.42, 18.2, 18.2)).advice).toBeNull();
  expect(verdict(scores(2.31, 1.42, 18.2, 18.2, 40)).advice).toContain("learn by heart");
  expect(verdict(scores(2.31, 1.42, 18.2, 60)).advice).toContain("Train less");
});
