// Text that is being edited in place, while its field is not on the page.

import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { answers, drawn, open, openConversation, pace, useBrowser } from "./window";

useBrowser();

/**
 * Goes to another view and back, the first as a link or the tray does: the focus stays in the field
 * until that is gone.
 */
async function leave(page: Page): Promise<void> {
  await page.getByTestId("view-settings").dispatchEvent("click");
  await page.getByTestId("settings-page-general").waitFor();
  await page.getByTestId("view-chat").click();
}

async function toTop(page: Page): Promise<void> {
  await page.getByTestId("thread").evaluate((list) => (list.scrollTop = 0));
}

async function toEnd(page: Page): Promise<void> {
  await page.getByTestId("thread").evaluate((list) => (list.scrollTop = list.scrollHeight));
}

test.each([
  ["a message", "edit", "edit-text"],
  ["an answer", "edit-answer", "edit-answer-text"],
] as const)("of %s stays when it is scrolled away, and when another view was open", async (_, button, field) => {
  const { page, errors } = await open({ scene: "many" });
  await page.getByTestId("open-conversation").first().click();
  await answers(page).last().waitFor();
  await toEnd(page);
  await drawn(page);
  const edit = page.getByTestId(button).last();
  await edit.focus();
  await edit.click();
  const area = page.getByTestId(field);
  expect(await area.evaluate((element) => element === document.activeElement)).toBe(true);
  await area.fill("A new text of mine");
  await toTop(page);
  await expect.poll(() => area.count()).toBe(0);
  await toEnd(page);
  await expect.poll(() => area.count()).toBe(1);
  expect(await area.inputValue()).toBe("A new text of mine");
  await area.focus();
  await leave(page);
  await toEnd(page);
  await expect.poll(() => area.count()).toBe(1);
  expect(await area.inputValue()).toBe("A new text of mine");
  await area.press("Escape");
  expect(await area.count()).toBe(0);
  expect(errors).toEqual([]);
});

test("of a name stays when another view was open, and is saved when its field is left", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  await openConversation(page, "Rye bread");
  const title = page.getByTestId("open-conversation").filter({ hasText: "Rye bread" });
  await title.focus();
  await title.press("F2");
  const field = page.getByTestId("rename-text");
  await field.fill("Half a na");
  await leave(page);
  await expect.poll(() => field.count()).toBe(1);
  expect(await field.inputValue()).toBe("Half a na");
  await field.fill("Half a name");
  await page.getByTestId("composer").click();
  await page.getByTestId("open-conversation").filter({ hasText: "Half a name" }).waitFor();
  expect(await field.count()).toBe(0);
  expect(errors).toEqual([]);
});
