// Tags, and the filters of the search.

import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { open, openConversation, useBrowser } from "./window";

useBrowser();

const item = (page: Page, title: string) => page.getByTestId("conversation").filter({ hasText: title }).first();

const hits = (page: Page): Promise<string[]> => page.getByTestId("search-hit").locator(".title").allTextContents();

async function tag(page: Page, title: string, ...tags: string[]): Promise<void> {
  await item(page, title).hover();
  await item(page, title).getByTestId("conversation-menu").click();
  await page.getByTestId("edit-tags").click();
  for (const tag of tags) {
    await page.getByTestId("tag-new").fill(tag);
    await page.keyboard.press("Enter");
  }
  await expect.poll(() => page.getByTestId("own-tag").count()).toBeGreaterThanOrEqual(tags.length);
  await page.keyboard.press("Escape");
  await page.getByTestId("tags-dialog").waitFor({ state: "detached" });
}

test("tags are added, suggested, removed and shown in the list", async () => {
  const { page, errors } = await open();
  await tag(page, "SQL", "#work", "databases");
  expect(await item(page, "SQL").getByTestId("tag").allTextContents()).toEqual(["#databases", "#work"]);
  // The focus is back at the conversation.
  expect(await page.evaluate(() => document.activeElement?.getAttribute("data-testid"))).toBe("open-conversation");
  await item(page, "Letter").hover();
  await item(page, "Letter").getByTestId("conversation-menu").click();
  await page.getByTestId("edit-tags").click();
  await page.getByTestId("tag-new").fill("WO");
  await expect
    .poll(() =>
      page
        .getByTestId("tag-suggestion")
        .allTextContents()
        .then((all) => all.map((text) => text.trim())),
    )
    .toEqual(["work"]);
  await page.getByTestId("tag-suggestion").click();
  await expect.poll(() => page.getByTestId("own-tag").count()).toBe(1);
  expect(await page.getByTestId("tag-new").inputValue()).toBe("");
  await page.getByTestId("tag-new").fill("x".repeat(41));
  await page.keyboard.press("Enter");
  await expect.poll(() => page.getByTestId("tag-hint").getAttribute("role")).toBe("alert");
  await page.getByTestId("tag-new").fill("");
  await page.keyboard.press("Backspace");
  await expect.poll(() => page.getByTestId("own-tag").count()).toBe(0);
  expect(errors).toEqual([]);
});

test("a tag that is clicked filters; the query is combined with the filter", async () => {
  const { page, errors } = await open();
  await tag(page, "SQL", "work");
  await tag(page, "Letter", "work");
  await item(page, "SQL").getByTestId("tag").click();
  await expect.poll(() => hits(page)).toEqual(["Letter to the landlord", "SQL: gaps and islands"]);
  expect(
    await page
      .getByTestId("filter-chip")
      .allTextContents()
      .then((all) => all.map((text) => text.trim())),
  ).toEqual(["#work"]);
  await page.getByTestId("search").fill("heating");
  // The question and the answer.
  await expect.poll(() => hits(page)).toEqual(["Letter to the landlord", "Letter to the landlord"]);
  await page.getByTestId("search").press("Escape");
  await expect.poll(() => page.getByTestId("search-hit").count()).toBe(2);
  await page.getByTestId("filter-chip").click();
  await expect.poll(() => page.getByTestId("open-conversation").count()).toBe(8);
  expect(errors).toEqual([]);
});

test("the filter row limits by folder, author and date, alone and together", async () => {
  const { page, errors } = await open();
  await page.getByTestId("new-folder").click();
  await page.getByTestId("folder-name").fill("Home");
  await page.keyboard.press("Enter");
  await openConversation(page, "Rye bread");
  await page.keyboard.press("Control+k");
  await page.getByTestId("palette-query").fill("move this");
  await page.keyboard.press("Enter");
  await page.getByTestId("move-to").filter({ hasText: "Home" }).click();
  await page.getByTestId("toggle-filters").click();
  await page.getByTestId("filter-folder").selectOption({ label: "Home" });
  await expect.poll(() => hits(page)).toEqual(["Rye bread, 80 % hydration"]);
  await page.getByTestId("filter-folder").selectOption("");
  await page.getByTestId("filter-time").selectOption("week");
  await page.getByTestId("search").fill("grey cat");
  await expect.poll(() => hits(page)).toEqual(["Names for a small grey cat"]);
  // It is in the question, not in the answer.
  await page.getByTestId("filter-role").selectOption("assistant");
  await expect.poll(() => hits(page)).toEqual([]);
  await page.getByTestId("filter-role").selectOption("user");
  await expect.poll(() => hits(page)).toEqual(["Names for a small grey cat"]);
  expect(await page.getByTestId("filter-chip").count()).toBe(2);
  await page.getByTestId("filter-clear").click();
  expect(await page.getByTestId("filter-chips").count()).toBe(0);
  await page.getByTestId("search").fill("");
  // A custom period.
  await page.getByTestId("filter-time").selectOption("custom");
  await page.getByTestId("filter-until").fill("2001-01-01");
  await expect
    .poll(() => page.getByTestId("conversations").getByRole("status").textContent())
    .toContain("No conversation");
  await page.getByTestId("filter-chip").click();
  await expect.poll(() => page.getByTestId("open-conversation").count()).toBeGreaterThan(6);
  expect(errors).toEqual([]);
});
