// Running axe-core on a page.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults, RunOptions } from "axe-core";
import type { Page } from "playwright-core";
import { drawn } from "./window";

const source = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** The rules that depend on colours. */
const COLOUR_RULES = ["color-contrast", "link-in-text-block"];

/** All rules. */
export const ALL: RunOptions = { resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] };

/** The rules that depend on the theme. */
export const OF_COLOURS: RunOptions = { resultTypes: ["violations"], runOnly: { type: "rule", values: COLOUR_RULES } };

/** The rules that depend on the language: names, roles and sizes, but not colours. */
export const OF_WORDS: RunOptions = without(ALL, ...COLOUR_RULES);

/** Options without some rules. */
export function without(options: RunOptions, ...rules: string[]): RunOptions {
  return { ...options, rules: { ...options.rules, ...Object.fromEntries(rules.map((rule) => [rule, { enabled: false }])) } };
}

/** The violations on the page, a line for each element. */
export async function violations(page: Page, options: RunOptions): Promise<string[]> {
  await drawn(page);
  // Toasts and dialogs fade in; half-transparent text has no contrast.
  await page.waitForTimeout(200);
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(source);
  const { violations } = await page.evaluate((given) => (window as unknown as { axe: { run: (context: Document, options: RunOptions) => Promise<AxeResults> } }).axe.run(document, given), options);
  return violations.flatMap(({ id, help, nodes }) => nodes.map((node) => `${id}: ${help}\n  ${node.target.join(" ")}\n  ${node.html}\n  ${node.failureSummary ?? ""}`));
}
