// Every text of the page is a message: in the pseudo-locale it is within ⟦ ⟧. The rest are data and
// names, which the tables list. Each row of a table must be needed.

import { expect, test } from "vitest";
import { places as chat } from "./places/chat";
import { places as conversations } from "./places/conversations";
import { places as failures } from "./places/failures";
import { places as models } from "./places/models";
import type { Place } from "./places/place";
import { places as settings } from "./places/settings";
import { places as tune } from "./places/tune";
import { drawn, open, pace, useBrowser } from "./window";

useBrowser();

const PSEUDO = "ar-XB";

/** Elements whose text and attributes are data, and what they contain. */
const DATA: readonly (readonly [selector: string, content: string])[] = [
  ["[data-user]", "a text of the user, of a model, of a file or of the hub"],
  ["bdi", "the same, beside other text"],
  ["pre, code", "code, paths, addresses and variables"],
  [".markdown :is(p, li, h3, h4, h5, h6, th, td)", "an answer"],
  ["[data-testid=chat-settings-prompt]", "placeholder: an inherited system prompt"],
  ["[data-testid=json-schema]", "placeholder: an example of a JSON schema"],
  ["[data-testid=hub-token-field]", "placeholder: the beginning of a token"],
  ["[data-testid=hub-endpoint]", "placeholder: the address of the hub"],
  ["[data-testid=language] option", "languages, each in its own words"],
  ["[data-testid=preset] option, [data-testid=contender-preset] option", "presets; the app names its own in English"],
  ["[data-testid=preview]", "an example of a dataset"],
  ["[data-testid=previews] .legend i", "letters in the style of a kind of token"],
  ["[data-testid=setting-targets] .targets label", "modules of the architecture"],
  ["[data-testid=answer-facts] dd", "a model, adapters, texts and values of settings"],
  ["[data-testid=checked] dd, [data-testid=model-card] dd", "name, architecture and license from a file"],
  ["[data-testid=link-place] dd", "the parts of an address"],
  ["[data-testid=adapter-misfit-list] dt", "models"],
  ["[data-testid=hub-result] .what .facts", "the architecture, as the hub names it"],
  ["[data-testid=variant] td.what", "files and their quantizations"],
  ["[data-testid=variables-dialog] h2", "a saved prompt"],
  ["[data-testid=palette-item][data-id^='conversation:'] .title", "conversations"],
];

/**
 * Parts of a text that are the same in every language, as regular expressions, and what they are.
 */
const NAMES: readonly (readonly [part: string, content: string])[] = [
  [String.raw`[\d.,]+\s?(?:[kMGT]?B(?:/s)?|[kMGT]?MAC/s|[kMBT])(?![\p{L}\d])`, "sizes, speeds and counts"],
  [String.raw`\d(?:\.\d+)?e[+-]?\d+`, "learning rates"],
  [String.raw`\d{1,2} \p{L}{3,4} \d{4}|\p{Lu}\p{Ll}{2,8} \d{4}`, "dates, of Intl in British English"],
  [String.raw`\bI?Q\d\w*|\bq8_0\b|\bb?f(?:16|32)\b`, "quantizations and types"],
  [String.raw`\b(?:CPU|Vulkan|SPIR-V|CUDA|ROCm)\b`, "backends"],
  [String.raw`\bAlt\b|\bF\d{1,2}\b|\b[A-Z]\b(?!\p{L})`, "keys"],
  [String.raw`\b(?:Hearth|MIT|Apache-2\.0|LM Studio|Ollama|Jan)\b`, "programs and licenses"],
  [String.raw`\b(?:HTML|JSON|Markdown)\b`, "formats"],
  [String.raw`\b(?:rs)?LoRA\b|\b(?:Top|Min)-[kp]\b`, "methods"],
];

const ATTRIBUTES = [
  "title",
  "placeholder",
  "alt",
  "label",
  "aria-label",
  "aria-description",
  "aria-roledescription",
  "aria-valuetext",
];

interface Tables {
  data: readonly string[];
  names: readonly string[];
  attributes: readonly string[];
}

/**
 * The texts of the page that are neither messages nor data, and the rows of the tables that the
 * others need. Runs in the page.
 */
function scan({ data, names, attributes }: Tables): { untranslated: string[]; needed: string[] } {
  const patterns = names.map((name) => [name, new RegExp(name, "gu")] as const);
  const needed = new Set<string>();
  const untranslated: string[] = [];
  const isText = (text: string) => /\p{L}/u.test(text);
  /** Closed lists do not render their options. */
  const isShown = (element: Element) =>
    (element.closest("select") ?? element).checkVisibility({ visibilityProperty: true });

  /** Whether an element is data. If it has text that is shown, its rows are needed. */
  function isData(element: Element, text: string): boolean {
    const matches = data.filter((selector) => element.closest(selector));
    if (isText(withoutNames(text)) && isShown(element)) for (const selector of matches) needed.add(selector);
    return matches.length > 0;
  }

  /** A text without names that are the same in every language. */
  function withoutNames(text: string): string {
    return patterns.reduce((rest, [, pattern]) => rest.replace(pattern, ""), text);
  }

  /** Whether a text is names and signs. The rows that say so are needed. */
  function isNames(text: string): boolean {
    if (!isText(text)) return true;
    if (isText(withoutNames(text))) return false;
    for (const [name, pattern] of patterns) if (text.search(pattern) >= 0) needed.add(name);
    return true;
  }

  /** Splits a text by whether it is within ⟦ ⟧, of which `depth` are open before it. */
  function split(text: string, depth: number): { inside: string; outside: string; depth: number } {
    let [inside, outside] = ["", ""];
    for (const letter of text) {
      if (letter === "⟦") depth++;
      else if (letter === "⟧") depth = Math.max(0, depth - 1);
      else if (depth > 0) inside += letter;
      else outside += letter;
    }
    return { inside, outside, depth };
  }

  const plain = (text: string) => text.replace(/\s+/g, " ").trim();
  const report = (element: Element, source: string, text: string) =>
    untranslated.push(`${source} “${plain(text)}” in ${element.outerHTML.replace(/\s+/g, " ").slice(0, 200)}`);

  /** Data, and inputs of messages: attributes may repeat them. */
  const shown: string[] = [];
  // A message with elements in it is several nodes.
  let unclosed = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    const text = node.nodeValue ?? "";
    if (!element || element.closest("script, style, textarea")) continue;
    if (isData(element, text)) {
      shown.push(plain(text));
      continue;
    }
    const { inside, outside, depth } = split(text, unclosed);
    unclosed = depth;
    shown.push(plain(inside));
    if (isShown(element) && !isNames(outside)) report(element, "text", text);
  }
  if (unclosed > 0) untranslated.push("a message that ends nowhere");

  for (const element of document.body.querySelectorAll(attributes.map((name) => `[${name}]`).join())) {
    for (const name of attributes) {
      const text = element.getAttribute(name);
      if (text === null || !isShown(element) || isData(element, text)) continue;
      // The parts of a name: `SmolLM2 135M · Storyteller`.
      const parts = split(text, 0).outside.split(/ [·+] /);
      const isKnown = (part: string) => shown.some((other) => other.includes(plain(part)));
      if (!parts.every((part) => isNames(part) || isKnown(part))) report(element, name, text);
    }
  }
  return { untranslated, needed: [...needed] };
}

const tables: Tables = {
  data: DATA.map(([selector]) => selector),
  names: NAMES.map(([part]) => part),
  attributes: ATTRIBUTES,
};
const all: Place[] = [...chat, ...conversations, ...models, ...settings, ...tune, ...failures];
const needed = new Set<string>();

test.each(all.map((place) => [place[0], place] as const))("all text is translated: %s", async (_, [, scene, act]) => {
  const { page } = await open({ scene, language: PSEUDO });
  await pace(page, 0);
  await act(page);
  await drawn(page);
  const issues = await page.evaluate(scan, tables);
  for (const row of issues.needed) needed.add(row);
  expect(issues.untranslated).toEqual([]);
});

test("each row of the tables is needed in some place", () => {
  expect([...tables.data, ...tables.names].filter((row) => !needed.has(row))).toEqual([]);
});
