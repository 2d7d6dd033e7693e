// axe-core over every view, important dialog and menu: all rules in English and light, those of colours in dark, and those
// of words in every other language.

import type { RunOptions } from "axe-core";
import { expect, test } from "vitest";
import { ALL, OF_COLOURS, OF_WORDS, violations, without } from "./axe";
import { places, type Place } from "./places";
import { open, openConversation, pace, useBrowser } from "./window";

useBrowser();

/** Rules that do not apply to a place. */
const EXCEPTIONS: Record<string, string> = {
  // An answer's headings are the model's: it may begin at any level.
  "every kind of Markdown": "heading-order",
  // An open popover covers what is behind it, and closes with the first click there.
  "the model picker": "target-size",
};

/** Opens a place in a language. */
async function show([name, scene, act]: Place, language?: string) {
  const { page } = await open({ scene, language });
  await pace(page, 0);
  await act(page);
  const rule = EXCEPTIONS[name];
  return { page, without: (options: RunOptions) => (rule === undefined ? options : without(options, rule)) };
}

test.each(places)("axe finds nothing: %s", async (...place) => {
  const { page, without } = await show(place);
  expect(await violations(page, without(ALL))).toEqual([]);
  await page.emulateMedia({ colorScheme: "dark" });
  expect(await violations(page, OF_COLOURS)).toEqual([]);
});

/** The languages with messages, other than English. */
const LANGUAGES = ["de", "es", "zh-CN"];

test.each(places)("axe finds nothing in any language: %s", async (...place) => {
  const found = async (language: string) => {
    const { page, without } = await show(place, language);
    expect(await page.evaluate(() => document.documentElement.lang)).toBe(language);
    return violations(page, without(OF_WORDS));
  };
  const results = await Promise.allSettled(LANGUAGES.map(found));
  const said = results.map((result) => (result.status === "fulfilled" ? result.value : String(result.reason)));
  expect(LANGUAGES.map((language, at) => [language, said[at]])).toEqual(LANGUAGES.map((language) => [language, []]));
});

test("with high contrast, text has a contrast of 7 to 1 on every view", async () => {
  const { page } = await open();
  await page.emulateMedia({ contrast: "more", reducedMotion: "reduce" });
  const enhanced: RunOptions = { resultTypes: ["violations"], runOnly: { type: "rule", values: ["color-contrast-enhanced"] }, rules: { "color-contrast-enhanced": { enabled: true } } };
  await openConversation(page, "Borrow checker");
  for (const view of ["chat", "tune", "models", "settings"]) {
    await page.getByTestId(`view-${view}`).click();
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      expect([view, colorScheme, await violations(page, enhanced)]).toEqual([view, colorScheme, []]);
    }
  }
});
