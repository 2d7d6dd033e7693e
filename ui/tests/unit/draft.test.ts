import { expect, test } from "vitest";
import type { DraftStats, Stats } from "../../src/lib/host";
import { lost, qwen, small, smol } from "../../src/lib/host/fake/models";
import {
  draftedLabel,
  draftedTitle,
  draftHint,
  draftProblem,
  draftProblemText,
  draftRelations,
} from "../../src/lib/text/draft";

const drafted: DraftStats = { kind: "ngram", drafted: 1024, accepted: 614, gain: 1.83, used: 0.4, stopped: false };
const stats = (draft: DraftStats | null, tokens = 1000): Stats => ({
  promptTokens: 1,
  cachedTokens: 0,
  tokens,
  tokensPerSecond: 9,
  promptTokensPerSecond: 9,
  firstTokenSeconds: 1,
  contextUsed: 9,
  context: 99,
  draft,
  thinkingSeconds: null,
});

test.each([
  ["a draft", drafted, 1000, "drafted 61 %"],
  ["no draft", null, 1000, null],
  ["nothing drafted", { ...drafted, drafted: 0, accepted: 0 }, 1000, null],
  ["nothing accepted", { ...drafted, accepted: 0 }, 1000, "drafted 0 %"],
  ["an answer that ended within a draft", drafted, 600, "drafted 100 %"],
  ["no tokens", drafted, 0, null],
])("the share of drafted tokens: %s", (_, draft, tokens, label) => {
  expect(draftedLabel(stats(draft, tokens))).toBe(label);
});

test.each([
  [
    {},
    "Speculative decoding with n-gram lookup: 1,024 tokens drafted, 614 accepted. 1.8 times plain speed. 40 % of the steps verified a draft.",
  ],
  [
    { kind: "model", drafted: 1, accepted: 0, gain: 0.974, used: 0.01, stopped: true },
    "Speculative decoding with a draft model: 1 token drafted, 0 accepted. 0.97 times plain speed. 1 % of the steps verified a draft. It switched itself off: it cost more than it gained.",
  ],
  [
    { kind: "firstLayers", gain: 1.04 },
    "Speculative decoding with the model's own first layers: 1,024 tokens drafted, 614 accepted. About plain speed. 40 % of the steps verified a draft.",
  ],
  // NaN arrives as null.
  [
    { gain: null as unknown as number, used: null as unknown as number },
    "Speculative decoding with n-gram lookup: 1,024 tokens drafted, 614 accepted.",
  ],
] satisfies [Partial<DraftStats>, string][])("the figures of a draft in sentences: %j", (change, title) => {
  expect(draftedTitle({ ...drafted, ...change })).toBe(title);
});

const target = { ...qwen, drafts: [small.id, lost.id] };
const library = [smol, target, small];

test.each([
  ["auto", library, null],
  [small.id, library, null],
  ["gone", library, { type: "missing" }],
  // Removed a moment ago: the list of drafts is not up to date yet.
  [small.id, [smol, target], { type: "missing" }],
  [smol.id, library, { type: "cannotDraft", name: smol.name }],
  [lost.id, [...library, { ...lost, drafts: [] }], { type: "unreadable", name: lost.name }],
])("why a chosen draft model cannot be used: %s", (model, models, problem) => {
  const actual = draftProblem(
    model === "auto" ? { type: "auto" } : { type: "model", model },
    { ...target, drafts: [small.id] },
    models,
  );
  expect(actual).toEqual(problem);
  if (actual) expect(draftProblemText(actual)).toMatch(/N-gram lookup is used instead\..*Load settings\.$/);
});

test("models show their drafts and their targets", () => {
  const both = [...library, { ...lost, drafts: [small.id] }];
  expect(draftRelations(smol, both)).toEqual([]);
  expect(draftRelations(target, library)).toEqual([["Drafts", small.name]]);
  expect(draftRelations(small, both)).toEqual([["Can draft for", `${target.name}, ${lost.name}`]]);
});

test("every choice that drafts says that answers stay the same", () => {
  for (const type of ["auto", "firstLayers"] as const)
    expect(draftHint({ type }, null)).toContain("Answers stay the same.");
  expect(draftHint({ type: "model", model: small.id }, small.name)).toMatch(
    /^Qwen3 Draft 120M drafts .*Answers stay the same\./,
  );
  expect(draftHint({ type: "none" }, null)).toBe("Plain decoding: one token per step.");
});
