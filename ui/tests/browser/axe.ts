// Runs axe-core on places. All rules run in English and light in every run. The color rules run in
// dark, and the rules that depend on text in every other language, in parts (../parts.ts).

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults, RunOptions } from "axe-core";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { Parts } from "../parts";
import type { Place } from "./places/place";
import { caseIndex, VARIANTS } from "./places/variants";
import { drawn, open, pace, reopen, still, useBrowser } from "./window";

const source = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** The rules that depend on colors. */
const COLOR_RULES = ["color-contrast", "link-in-text-block"];

/** All rules. */
const ALL: RunOptions = {
  resultTypes: ["violations"],
  runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
};

/** The rules that depend on the theme. */
const OF_COLORS: RunOptions = { resultTypes: ["violations"], runOnly: { type: "rule", values: COLOR_RULES } };

/** The rules that depend on the language: names, roles and sizes, but not colors. */
const OF_WORDS: RunOptions = without(ALL, ...COLOR_RULES);

/** Rules that do not apply to a place. */
const EXCEPTIONS: Record<string, string> = {
  // An answer's headings are the model's: it may begin at any level.
  "every kind of Markdown": "heading-order",
  // An open popover covers what is behind it, and closes with the first click there.
  "the model picker": "target-size",
};

/** Options without some rules. */
function without(options: RunOptions, ...rules: string[]): RunOptions {
  return {
    ...options,
    rules: { ...options.rules, ...Object.fromEntries(rules.map((rule) => [rule, { enabled: false }])) },
  };
}

/** The violations on the page, a line for each element. */
export async function violations(page: Page, options: RunOptions): Promise<string[]> {
  await drawn(page);
  // Toasts and dialogs fade in; half-transparent text has no contrast.
  await still(page);
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(source);
  const { violations } = await page.evaluate(
    (given) =>
      (window as unknown as { axe: { run: (context: Document, options: RunOptions) => Promise<AxeResults> } }).axe.run(
        document,
        given,
      ),
    options,
  );
  return violations.flatMap(({ id, help, nodes }) =>
    nodes.map((node) => `${id}: ${help}\n  ${node.target.join(" ")}\n  ${node.html}\n  ${node.failureSummary ?? ""}`),
  );
}

/** Tests the places of an area. */
export function testPlaces(places: Place[]): void {
  useBrowser();
  const parts = Parts.of("axe");
  test.each(places.map((place, at) => [place[0], place, at] as const))(
    "axe finds nothing: %s",
    async (name, [, scene, act], at) => {
      const exceptions = EXCEPTIONS[name] === undefined ? [] : [EXCEPTIONS[name]];
      const { page } = await open({ scene });
      await pace(page, 0);
      await act(page);
      const byTheme: Record<string, string[]> = { light: await violations(page, without(ALL, ...exceptions)) };
      for (const variant of VARIANTS) {
        if (!parts.includes(caseIndex(at, variant), `axe ${name} ${variant}`)) continue;
        // First of all, so that it is the page above.
        if (variant === "dark") {
          await page.emulateMedia({ colorScheme: "dark" });
          byTheme.dark = await violations(page, OF_COLORS);
          continue;
        }
        const { page: translated } = await reopen({ scene, language: variant });
        await pace(translated, 0);
        await act(translated);
        expect(await translated.evaluate(() => document.documentElement.lang)).toBe(variant);
        byTheme[variant] = await violations(translated, without(OF_WORDS, ...exceptions));
      }
      expect(byTheme).toEqual(Object.fromEntries(Object.keys(byTheme).map((variant) => [variant, []])));
    },
  );
}
