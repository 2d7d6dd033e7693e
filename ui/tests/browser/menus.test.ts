// Context menus, the menus of rows, and tooltips.

import type { Locator, Page } from "playwright-core";
import { expect, test } from "vitest";
import { answers, inMenu, lastAnswer, open, openConversation, openSettings, pace, send, useBrowser } from "./window";

useBrowser();

const menu = (page: Page) => page.getByRole("menu");
const entries = (page: Page) => menu(page).getByRole("menuitem").allTextContents();
const focused = (page: Page) => page.evaluate(() => document.activeElement?.getAttribute("data-testid"));
const conversation = (page: Page, title: string) => page.getByTestId("conversation").filter({ hasText: title });

/** Whether the browser would show its own menu. */
async function hasBrowserMenu(element: Locator): Promise<boolean> {
  return element.evaluate((target) =>
    target.dispatchEvent(
      new MouseEvent("contextmenu", { bubbles: true, cancelable: true, clientX: 300, clientY: 300 }),
    ),
  );
}

test("a conversation has a menu at the pointer, which returns the focus to the conversation", async () => {
  const { page, errors } = await open();
  const row = conversation(page, "Rye bread");
  const box = (await row.boundingBox())!;
  await row.click({ button: "right", position: { x: 40, y: 12 } });
  await menu(page).waitFor();
  const at = (await menu(page).boundingBox())!;
  expect(Math.abs(at.x - box.x - 40)).toBeLessThan(2);
  expect(Math.abs(at.y - box.y - 12)).toBeLessThan(2);
  expect(await entries(page)).toEqual([
    "RenameF2",
    "Pin",
    "Move to folder…",
    "Tags…",
    "Export as Markdown…",
    "Export as HTML…",
    "Export as JSON…",
    "DeleteDel",
  ]);
  await page.keyboard.press("Escape");
  await menu(page).waitFor({ state: "detached" });
  expect(await row.getByTestId("open-conversation").evaluate((e) => e === document.activeElement)).toBe(true);
  await row.click({ button: "right" });
  await page.getByTestId("pin").click();
  await expect.poll(() => page.getByTestId("open-conversation").first().textContent()).toContain("Rye bread");
  expect(await menu(page).count()).toBe(0);
  expect(errors).toEqual([]);
});

test("a key that a menu names acts in the menu, and keys mark the action that has the focus", async () => {
  const { page, errors } = await open();
  const row = conversation(page, "Rye bread");
  await row.click({ button: "right" });
  await page.keyboard.press("ArrowDown");
  const outline = page.getByTestId("pin").evaluate((e) => getComputedStyle(e).outlineStyle);
  expect(await outline).toBe("solid");
  await page.keyboard.press("F2");
  await menu(page).waitFor({ state: "detached" });
  await page.keyboard.type("Dark bread");
  await page.keyboard.press("Enter");
  await conversation(page, "Dark bread").waitFor();
  expect(errors).toEqual([]);
});

test.each(["ContextMenu", "Shift+F10"])("%s opens the menu of a conversation, which keys go through", async (key) => {
  const { page, errors } = await open();
  await conversation(page, "Rye bread").getByTestId("open-conversation").focus();
  await page.keyboard.press(key);
  await expect.poll(() => focused(page)).toBe("menu-rename");
  await page.keyboard.press("End");
  expect(await focused(page)).toBe("menu-delete");
  await page.keyboard.press("ArrowDown");
  expect(await focused(page)).toBe("menu-rename");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Home");
  await page.keyboard.press("Enter");
  await page.getByTestId("rename-text").fill("Bread");
  await page.keyboard.press("Enter");
  await conversation(page, "Bread").waitFor();
  await expect.poll(() => page.evaluate(() => document.activeElement?.textContent?.trim())).toBe("Bread");
  await page.keyboard.press(key);
  await expect.poll(() => focused(page)).toBe("menu-rename");
  await page.keyboard.press("Escape");
  expect(await focused(page)).toBe("open-conversation");
  expect(errors).toEqual([]);
});

test("folders, messages and models have menus, and other places none", async () => {
  const { page, errors } = await open({ scene: "organized" });
  await page.getByTestId("folder-toggle").first().click({ button: "right" });
  await page.getByTestId("folder-menu-new").waitFor();
  await page.getByTestId("folder-search").waitFor();
  await page.keyboard.press("Escape");
  await page.getByTestId("folder-toggle").first().click();
  await openConversation(page, "Borrow checker");
  await answers(page).last().locator("h2").click({ button: "right" });
  expect((await entries(page)).slice(0, 4)).toEqual(["Copy answer", "Regenerate", "Edit answer", "Continue answer"]);
  await menu(page).getByTestId("details").click();
  await page.getByTestId("answer-details").waitFor();
  // The dialog begins at its title, and no scrollbar of the page is drawn over it.
  expect(await page.evaluate(() => document.activeElement?.tagName)).toBe("H2");
  const scrollbars = () => page.getByTestId("conversations").evaluate((list) => getComputedStyle(list).scrollbarColor);
  expect(await scrollbars()).toBe("rgba(0, 0, 0, 0) rgba(0, 0, 0, 0)");
  await page.keyboard.press("Escape");
  expect(await scrollbars()).not.toBe("rgba(0, 0, 0, 0) rgba(0, 0, 0, 0)");
  await page.locator("[data-role=user]").last().click({ button: "right" });
  expect(await entries(page)).toEqual(["Copy message", "Edit message", "Save as prompt", "Branch off here", "Delete"]);
  await page.keyboard.press("Enter");
  await expect
    .poll(() => page.evaluate(() => navigator.clipboard.readText()))
    .toBe("Why can't I push to a Vec while iterating over it?");
  // From message to message with Page Up, the article has the focus.
  await page.getByTestId("thread").focus();
  await page.keyboard.press("PageUp");
  await page.keyboard.press("ContextMenu");
  await menu(page).waitFor();
  await page.keyboard.press("Escape");
  expect(await page.evaluate(() => document.activeElement?.tagName)).toBe("ARTICLE");
  expect(await hasBrowserMenu(page.getByTestId("view-tune"))).toBe(false);
  expect(await menu(page).count()).toBe(0);
  expect(await hasBrowserMenu(page.getByTestId("composer"))).toBe(true);
  await page.getByTestId("view-models").click();
  await page
    .getByTestId("model-card")
    .first()
    .click({ button: "right", position: { x: 4, y: 4 } });
  expect(await entries(page)).toContain("Copy path");
  await page.getByTestId("menu-chat").click();
  await page.getByTestId("welcome").waitFor();
  expect(errors).toEqual([]);
});

test("selected text is copied, and a link opened or copied, also in a dialog", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  await send(page, "Say: Read [the book](https://doc.rust-lang.org/book/) first.");
  const answer = await lastAnswer(page, "complete");
  await answer.locator("a").click({ button: "right" });
  expect((await entries(page)).slice(0, 2)).toEqual(["Open link", "Copy link address"]);
  await page.getByTestId("menu-copy-address").click();
  await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toBe("https://doc.rust-lang.org/book/");
  await answer.locator("p").evaluate((element) => getSelection()?.selectAllChildren(element));
  await answer.locator("p").click({ button: "right", position: { x: 5, y: 5 } });
  await page.getByTestId("menu-copy").click();
  await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toContain("Read the book");
  await inMenu(answer, "details");
  const facts = page.getByTestId("answer-facts");
  await facts
    .locator("dd")
    .first()
    .evaluate((element) => getSelection()?.selectAllChildren(element));
  await facts
    .locator("dd")
    .first()
    .click({ button: "right", position: { x: 5, y: 5 } });
  await page.getByTestId("menu-copy").click();
  await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toBe("SmolLM2 135M Instruct");
  expect(await page.getByTestId("answer-details").count()).toBe(1);
  expect(errors).toEqual([]);
});

test("Tab has one stop for each conversation, and the row looks used only while it is", async () => {
  const { page } = await open();
  const row = conversation(page, "Rye bread");
  await row.getByTestId("open-conversation").focus();
  await page.keyboard.press("Tab");
  expect(await focused(page)).toBe("open-conversation");
  await page.mouse.move(600, 300);
  await row.hover();
  await row.getByTestId("conversation-menu").click();
  await page.getByTestId("move").click();
  await page.getByTestId("move-dialog").getByRole("button", { name: "Close" }).click();
  await page.mouse.move(600, 300);
  expect(await focused(page)).toBe("open-conversation");
  await expect.poll(() => row.getByTestId("conversation-menu").isVisible()).toBe(false);
});

test("a tooltip appears at the pointer and at the focus, and never over its element", async () => {
  const { page, errors } = await open();
  await openConversation(page, "Rye bread");
  const tip = page.getByTestId("tooltip");
  const edit = page.getByTestId("edit-answer");
  await edit.hover();
  await expect.poll(() => tip.isVisible()).toBe(true);
  expect((await tip.textContent())?.trim()).toBe("Edit");
  const [over, under] = [(await tip.boundingBox())!, (await edit.boundingBox())!];
  expect(over.y + over.height <= under.y || over.y >= under.y + under.height).toBe(true);
  // The browser shows none, and the names are the same.
  expect(await edit.getAttribute("title")).toBeNull();
  expect(await edit.getAttribute("aria-description")).toBe("Edit");
  expect(await page.getByRole("button", { name: "Edit answer" }).count()).toBe(1);
  await page.keyboard.press("Escape");
  await expect.poll(() => tip.isVisible()).toBe(false);
  await page.mouse.move(600, 300);
  await expect.poll(() => edit.getAttribute("title")).toBe("Edit");
  expect(await edit.getAttribute("aria-description")).toBeNull();
  await page.getByTestId("attach").focus();
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Tab");
  await expect.poll(() => tip.isVisible()).toBe(true);
  expect((await tip.textContent())?.trim()).toBe("Add text files");
  await page.keyboard.press("Tab");
  await expect.poll(() => tip.isVisible()).toBe(false);
  // A title that becomes empty meanwhile stays so.
  await edit.hover();
  await expect.poll(() => edit.getAttribute("title")).toBeNull();
  await edit.evaluate((element) => element.setAttribute("title", ""));
  await expect.poll(() => edit.getAttribute("aria-description")).toBeNull();
  await page.mouse.move(600, 300);
  await expect.poll(() => edit.getAttribute("title")).toBe("");
  expect(errors).toEqual([]);
});

test("a tooltip stays when something else scrolls, and is a part of the dialog of its element", async () => {
  const { page, errors } = await open({ scene: "organized" });
  const tip = page.getByTestId("tooltip");
  await page.getByTestId("attach").hover();
  await expect.poll(() => tip.isVisible()).toBe(true);
  await page.getByTestId("conversations").evaluate((list) => list.dispatchEvent(new Event("scroll")));
  expect(await tip.isVisible()).toBe(true);
  await page.evaluate(() => document.dispatchEvent(new Event("scroll")));
  expect(await tip.isVisible()).toBe(false);
  await openSettings(page, "chat");
  await page.getByTestId("edit-prompts").click();
  const dialog = page.getByTestId("prompts-dialog");
  await dialog.getByTestId("prompt-edit").first().hover();
  await expect.poll(() => dialog.getByTestId("tooltip").isVisible()).toBe(true);
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await page.getByTestId("view-chat").click();
  await page.getByTestId("attach").hover();
  await expect.poll(() => tip.isVisible()).toBe(true);
  expect(errors).toEqual([]);
});

test("the page of Settings has a ring only if Tab leads to it", async () => {
  const { page } = await open();
  await openSettings(page, "general");
  const panel = page.getByTestId("settings-panel");
  const ring = () => panel.evaluate((element) => getComputedStyle(element).outlineStyle);
  await panel.click({ position: { x: 4, y: 4 } });
  await page.keyboard.press("PageDown");
  expect(await ring()).toBe("none");
  await page.getByTestId("settings-page-general").focus();
  await page.keyboard.press("Tab");
  expect(await focused(page)).toBe("settings-panel");
  expect(await ring()).not.toBe("none");
});
