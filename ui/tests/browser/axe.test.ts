// axe-core over every view, important dialog and menu, in light and dark.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults, RunOptions } from "axe-core";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { settingsPages } from "../../src/lib/stores/view";
import { drawn, lastAnswer, open, openConversation, openSettings, pace, send, useBrowser } from "./window";

useBrowser();

const source = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const OPTIONS: RunOptions = { resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] };

/** The violations on the page, a line for each element. */
async function violations(page: Page, options = OPTIONS): Promise<string[]> {
  await drawn(page);
  // Toasts and dialogs fade in; half-transparent text has no contrast.
  await page.waitForTimeout(200);
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(source);
  const { violations } = await page.evaluate((given) => (window as unknown as { axe: { run: (context: Document, options: RunOptions) => Promise<AxeResults> } }).axe.run(document, given), options);
  return violations.flatMap(({ id, help, nodes }) => nodes.map((node) => `${id}: ${help}\n  ${node.target.join(" ")}\n  ${node.html}\n  ${node.failureSummary ?? ""}`));
}

const tune = (page: Page) => page.getByTestId("view-tune").click();

const run = async (page: Page, id: string) => {
  await tune(page);
  await page.locator(`[data-testid=run][data-id="${id}"]`).getByTestId("open-run").click();
  await page.getByTestId("loss-chart").waitFor();
};

const pair = async (page: Page) => {
  await run(page, "21");
  await page.getByTestId("try-it").click();
  await send(page, "My order is late, what now?");
  await page.getByTestId("vote").nth(1).waitFor();
};

const places: [name: string, scene: string, act: (page: Page) => Promise<unknown>][] = [
  ["the welcome", "", async () => {}],
  ["no model", "no-model", async () => {}],
  ["a thread", "", (page) => openConversation(page, "Borrow checker")],
  ["every kind of Markdown", "", (page) => openConversation(page, "Everything markdown")],
  ["a hostile answer", "", (page) => openConversation(page, "A page that tries")],
  [
    "every kind of part",
    "parts",
    async (page) => {
      await openConversation(page, "Sales by quarter");
      await page.getByTestId("thought-toggle").first().click();
      await page.getByTestId("part-toggle").first().click();
    },
  ],
  [
    "an answer that grows",
    "slow",
    async (page) => {
      await pace(page, 5);
      await send(page, "Tell me a long story.");
      await lastAnswer(page, "streaming");
      await page.locator("[data-role=assistant] .markdown").waitFor();
      await pace(page, Number.POSITIVE_INFINITY);
    },
  ],
  ["an answer that failed", "", async (page) => (await send(page, "This one fails."), await lastAnswer(page, "failed"))],
  ["an answer that was cut", "", async (page) => (await send(page, "Cut this short, older messages and all."), await lastAnswer(page, "cut"))],
  ["search results", "", async (page) => (await page.getByTestId("search").fill("the"), await page.getByTestId("search-hit").first().waitFor())],
  ["a toast", "", async (page) => (await page.getByTestId("open-conversation").first().press("Delete"), await page.getByTestId("toast").waitFor())],
  ["the model picker", "", async (page) => (await page.getByTestId("model-pill").click(), await page.getByTestId("model-choice").first().waitFor())],
  ["the adapters", "", async (page) => (await pair(page), await page.getByTestId("adapter-pill").click(), await page.getByTestId("adapter").first().waitFor())],
  ["the system prompt", "", async (page) => (await openConversation(page, "Rye bread"), await page.getByTestId("instructions").click(), await page.getByTestId("instructions-text").waitFor())],
  ["a correction", "", async (page) => (await openConversation(page, "Borrow checker"), await page.getByTestId("correct").last().click(), await page.getByTestId("correction").waitFor())],
  ["two answers", "", pair],
  ["the command palette", "", async (page) => (await page.keyboard.press("Control+k"), await page.keyboard.type("s"))],
  ["Models", "drafts", (page) => page.getByTestId("view-models").click()],
  ["adapters", "", async (page) => (await page.getByTestId("view-models").click(), await page.getByTestId("import-adapter-folder").click(), await page.getByTestId("waiting-adapters").waitFor(), await page.getByTestId("card-adapters").click(), await page.getByTestId("adapter-row").nth(4).waitFor())],
  ["models that do not fit", "too-big", async (page) => (await page.getByTestId("view-models").click(), await page.getByTestId("card-fit").nth(2).waitFor())],
  ["Tune", "", async (page) => (await tune(page), await page.getByTestId("tune-start").waitFor())],
  ["Tune without runs", "fresh", async (page) => (await tune(page), await page.getByTestId("tune-start").waitFor())],
  ...["replies.jsonl", "orders.csv", "broken.jsonl"].map((name): (typeof places)[number] => [
    `the data ${name}`,
    "",
    async (page) => {
      await page.evaluate((path) => (window as unknown as { fakeHost: { drop: (drop: object) => void } }).fakeHost.drop({ type: "drop", paths: [path] }), `/home/you/${name}`);
      await page.getByTestId("data-page").waitFor();
      await page.locator("[data-testid=facts], [data-testid=mapping], [data-testid=broken]").first().waitFor();
      if (name === "replies.jsonl") await page.getByTestId("advanced").click();
    },
  ]),
  ["a run", "", (page) => run(page, "21")],
  ["a run as a table", "", async (page) => (await run(page, "21"), await page.getByTestId("as-table").click())],
  ["an export", "", async (page) => (await run(page, "21"), await page.getByTestId("export").click(), await page.getByTestId("export-dialog").waitFor())],
  ...settingsPages.map(({ id, label }): (typeof places)[number] => [
    `Settings, ${label}`,
    "two-gpus",
    async (page) => {
      await openSettings(page, "hardware");
      await page.getByTestId("device-row").first().waitFor();
      await openSettings(page, id);
    },
  ]),
  ["the catalog", "discover", async (page) => (await page.getByTestId("view-models").click(), await page.getByTestId("tab-discover").click(), await page.getByTestId("catalog-model").first().waitFor())],
  ["downloads", "downloads", async (page) => (await page.getByTestId("view-models").click(), await page.getByTestId("tab-downloads").click(), await page.getByTestId("download-row").first().waitFor())],
  ["the conversation's settings", "", async (page) => (await openConversation(page, "Rye bread"), await page.getByTestId("chat-settings-toggle").click(), await page.getByTestId("chat-settings").waitFor())],
  [
    "the name of a preset",
    "presets",
    async (page) => {
      await openConversation(page, "Rye bread");
      await page.getByTestId("chat-settings-toggle").click();
      await page.getByTestId("preset").selectOption({ label: "Storyteller" });
      await page.getByTestId("knob-temperature").locator("input").fill("0.5");
      await page.getByTestId("preset-menu").click();
      await page.getByTestId("preset-save").click();
      await page.getByTestId("preset-name").fill("storyteller");
      await page.keyboard.press("Enter");
      await page.getByTestId("preset-name-problem").waitFor();
    },
  ],
  ["the actions on presets", "presets", async (page) => (await page.getByTestId("chat-settings-toggle").click(), await page.getByTestId("preset").selectOption({ label: "Storyteller" }), await page.getByTestId("preset-menu").click(), await page.getByTestId("preset-delete").waitFor())],
  [
    "all of the conversation's settings",
    "",
    async (page) => {
      await openConversation(page, "Rye bread");
      await page.getByTestId("chat-settings-toggle").click();
      await page.getByTestId("chat-settings-advanced").check();
      for (const group of await page.getByTestId("knob-group-toggle").all()) await group.click();
      await page.getByTestId("knob-logitBias").waitFor();
    },
  ],
  ["folders and tags", "organized", async (page) => (await page.getByTestId("folder-toggle").first().click(), await openConversation(page, "Borrow checker"), await page.getByTestId("folder-pill").waitFor())],
  ["a folder's settings", "organized", async (page) => (await page.getByTestId("folder-toggle").first().hover(), await page.getByTestId("folder-menu").first().click(), await page.getByTestId("folder-settings").click(), await page.getByTestId("folder-dialog").waitFor())],
  ["moving a conversation", "organized", async (page) => (await openConversation(page, "SQL"), await page.keyboard.press("Control+k"), await page.getByTestId("palette-query").fill("move this"), await page.keyboard.press("Enter"), await page.getByTestId("move-dialog").waitFor())],
  ["the tags of a conversation", "organized", async (page) => (await openConversation(page, "SQL"), await page.keyboard.press("Control+k"), await page.getByTestId("palette-query").fill("tags of this"), await page.keyboard.press("Enter"), await page.getByTestId("tags-dialog").waitFor())],
  ["filters of the search", "organized", async (page) => (await page.getByTestId("tag").first().click(), await page.getByTestId("toggle-filters").click(), await page.getByTestId("filter-time").selectOption("custom"), await page.getByTestId("search-hit").first().waitFor())],
  ["saved prompts at the composer", "organized", async (page) => (await page.getByTestId("composer").pressSequentially("/"), await page.getByTestId("prompt-menu").waitFor())],
  ["the variables of a prompt", "organized", async (page) => (await page.getByTestId("composer").pressSequentially("/code"), await page.keyboard.press("Enter"), await page.getByTestId("variables-dialog").waitFor())],
  ["saved prompts", "organized", async (page) => (await openSettings(page, "chat"), await page.getByTestId("edit-prompts").click(), await page.getByTestId("saved-prompt").first().waitFor())],
  ["a saved prompt", "organized", async (page) => (await openSettings(page, "chat"), await page.getByTestId("edit-prompts").click(), await page.getByTestId("prompt-edit").first().click(), await page.getByTestId("prompt-editor").waitFor())],
  ["find in a conversation", "", async (page) => (await openConversation(page, "Rye bread"), await page.keyboard.press("Control+f"), await page.getByTestId("find").waitFor())],
  ["a plan that does not fit", "too-big", async (page) => (await openSettings(page, "models"), await page.getByTestId("layers").fill("31"), await page.locator("[data-testid=plan-verdict][data-verdict=wontFit]").waitFor())],
  ["devices with problems", "wrong-gpu", async (page) => (await openSettings(page, "hardware"), await page.getByTestId("device-problem").waitFor())],
  ["clearing a cache", "", async (page) => (await openSettings(page, "data"), await page.getByTestId("clear-cache").first().click(), await page.getByTestId("clear-dialog").waitFor())],
  [
    "a key that is taken",
    "",
    async (page) => {
      await openSettings(page, "shortcuts");
      await page.locator("[data-testid=shortcut][data-id=search]").getByTestId("change-key").click();
      await page.keyboard.press("Control+n");
      await page.getByTestId("key-conflict").waitFor();
    },
  ],
];

/** Rules that do not apply to a place. */
const EXCEPTIONS: Record<string, string> = {
  // An answer's headings are the model's: it may begin at any level.
  "every kind of Markdown": "heading-order",
  // An open popover covers what is behind it, and closes with the first click there.
  "the model picker": "target-size",
};

test.each(places)("axe finds nothing: %s", async (name, scene, act) => {
  const rule = EXCEPTIONS[name];
  const options: RunOptions = rule === undefined ? OPTIONS : { ...OPTIONS, rules: { [rule]: { enabled: false } } };
  const { page } = await open({ scene });
  await pace(page, 0);
  await act(page);
  expect(await violations(page, options)).toEqual([]);
  await page.emulateMedia({ colorScheme: "dark" });
  expect(await violations(page, options)).toEqual([]);
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
