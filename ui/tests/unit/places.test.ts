// The places that browser tests check, and the division of their axe cases into parts.

import { expect, test } from "vitest";
import { places as chat } from "../browser/places/chat";
import { places as conversations } from "../browser/places/conversations";
import { places as failures } from "../browser/places/failures";
import { places as models } from "../browser/places/models";
import { places as settings } from "../browser/places/settings";
import { places as tune } from "../browser/places/tune";
import { caseIndex, VARIANTS } from "../browser/places/variants";

test("every place has a unique name on one line", () => {
  const names = [chat, conversations, failures, models, settings, tune].flat().map(([name]) => name);
  expect(new Set(names).size).toBe(names.length);
  for (const name of names) expect(name).toMatch(/^\S.*\S$/);
});

test("four axe parts cover every variant of every place once, and each part covers every place", () => {
  const cases = chat.flatMap((_, place) =>
    VARIANTS.map((variant) => ({ place, variant, index: caseIndex(place, variant) })),
  );
  expect(cases.map(({ index }) => index).sort((a, b) => a - b)).toEqual(cases.map((_, index) => index));
  for (let part = 0; part < 4; part++) {
    const inPart = cases.filter(({ index }) => index % 4 === part);
    expect(inPart.map(({ place }) => place)).toEqual(chat.map((_, place) => place));
    expect(new Set(inPart.map(({ variant }) => variant)).size).toBe(4);
  }
});
