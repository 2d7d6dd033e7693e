import { expect, test } from "vitest";
import { places as chat } from "../browser/places/chat";
import { places as conversations } from "../browser/places/conversations";
import { places as failures } from "../browser/places/failures";
import { places as models } from "../browser/places/models";
import { places as settings } from "../browser/places/settings";
import { places as tune } from "../browser/places/tune";
import { caseIndex, VARIANTS } from "../browser/places/variants";

test("every place has a name of its own, on one line", () => {
  const names = [chat, conversations, failures, models, settings, tune].flat().map(([name]) => name);
  expect(new Set(names).size).toBe(names.length);
  for (const name of names) expect(name).toMatch(/^\S.*\S$/);
});

test("four parts of axe have each variant of each place once, and each part has each place", () => {
  const cases = chat.flatMap((_, at) => VARIANTS.map((variant) => ({ at, variant, index: caseIndex(at, variant) })));
  expect(cases.map(({ index }) => index).sort((a, b) => a - b)).toEqual(cases.map((_, index) => index));
  for (let part = 0; part < 4; part++) {
    const inPart = cases.filter(({ index }) => index % 4 === part);
    expect(inPart.map(({ at }) => at)).toEqual(chat.map((_, at) => at));
    expect(new Set(inPart.map(({ variant }) => variant)).size).toBe(4);
  }
});
