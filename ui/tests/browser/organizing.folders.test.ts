// Folders of conversations.

import type { Locator, Page } from "playwright-core";
import { expect, test } from "vitest";
import { answers, inMenu, lastAnswer, open, openConversation, pace, send, useBrowser } from "./window";

useBrowser();

const folder = (page: Page, name: string): Locator =>
  page.getByTestId("folder").filter({ has: page.getByTestId("folder-toggle").filter({ hasText: name }) });

const titles = (scope: Locator): Promise<string[]> => scope.getByTestId("open-conversation").allTextContents();

async function create(page: Page, name: string): Promise<void> {
  await page.getByTestId("new-folder").click();
  await page.getByTestId("folder-name").fill(name);
  await page.keyboard.press("Enter");
  await folder(page, name).waitFor();
}

async function menu(page: Page, name: string, id: string): Promise<void> {
  const target = folder(page, name);
  await target.getByTestId("folder-toggle").hover();
  await target.getByTestId("folder-menu").click();
  await page.getByTestId(id).click();
}

async function move(page: Page, title: string, to: string): Promise<void> {
  const item = page.getByTestId("conversation").filter({ hasText: title }).first();
  await item.hover();
  await item.getByTestId("conversation-menu").click();
  await page.getByTestId("move").click();
  await page.getByTestId("move-to").filter({ hasText: to }).click();
  await page.getByTestId("move-dialog").waitFor({ state: "detached" });
}

test("a conversation is moved into a folder by its menu, and the folder stays open", async () => {
  const { page, errors } = await open();
  await create(page, "Kitchen");
  expect(await page.evaluate(() => document.activeElement?.textContent)).toContain("Kitchen");
  await move(page, "Rye bread", "Kitchen");
  await expect
    .poll(() => titles(folder(page, "Kitchen")).then((all) => all.map((title) => title.trim())))
    .toEqual(["Rye bread, 80 % hydration"]);
  expect(await page.getByTestId("open-conversation").filter({ hasText: "Rye bread" }).count()).toBe(1);
  expect(await folder(page, "Kitchen").getByTestId("folder-count").textContent()).toContain("1 conversation");
  await folder(page, "Kitchen").getByTestId("folder-toggle").click();
  expect(await titles(folder(page, "Kitchen"))).toEqual([]);
  // A pinned conversation comes first, in its folder or not.
  await folder(page, "Kitchen").getByTestId("folder-toggle").click();
  await move(page, "Names for a small", "Kitchen");
  const last = folder(page, "Kitchen").getByTestId("conversation").last();
  await last.hover();
  await last.getByTestId("conversation-menu").click();
  await page.getByTestId("pin").click();
  await expect.poll(() => page.getByTestId("open-conversation").first().textContent()).toContain("Names for a small");
  await expect
    .poll(() => folder(page, "Kitchen").getByTestId("open-conversation").first().textContent())
    .toContain("Names for a small");
  expect(errors).toEqual([]);
});

test("a folder is renamed in place and deleted, which leaves its conversations, and comes back with them", async () => {
  const { page, errors } = await open();
  await create(page, "Work");
  await move(page, "Letter", "Work");
  await folder(page, "Work").getByTestId("folder-toggle").press("F2");
  await page.getByTestId("folder-name").fill("Home");
  await page.keyboard.press("Enter");
  await folder(page, "Home").waitFor();
  await folder(page, "Home").getByTestId("folder-toggle").press("ArrowLeft");
  expect(await folder(page, "Home").getByTestId("folder-toggle").getAttribute("aria-expanded")).toBe("false");
  expect(await page.getByTestId("open-conversation").filter({ hasText: "Letter" }).count()).toBe(0);
  await menu(page, "Home", "folder-delete");
  await expect.poll(() => page.getByTestId("folder").count()).toBe(0);
  expect(await page.getByTestId("open-conversation").filter({ hasText: "Letter" }).count()).toBe(1);
  await page.getByTestId("toast-action").click();
  await folder(page, "Home").waitFor();
  await expect.poll(() => page.getByTestId("open-conversation").filter({ hasText: "Letter" }).count()).toBe(0);
  await folder(page, "Home").getByTestId("folder-toggle").press("ArrowRight");
  expect(await titles(folder(page, "Home"))).toHaveLength(1);
  expect(errors).toEqual([]);
});

test("a new conversation begins in a folder, under its instructions and settings", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  await create(page, "Terse");
  await menu(page, "Terse", "folder-settings");
  await page.getByTestId("folder-instructions").fill("Answer in one word.");
  await page.getByTestId("folder-dialog").getByTestId("knob-maxTokens").locator("input").fill("3");
  await page.keyboard.press("Tab");
  await page.getByTestId("folder-dialog").getByTestId("knob-temperature").locator("input").fill("0.25");
  await page.keyboard.press("Tab");
  await page.getByTestId("folder-save").click();
  await page.getByTestId("folder-dialog").waitFor({ state: "detached" });
  const terse = folder(page, "Terse");
  await terse.getByTestId("folder-toggle").hover();
  await terse.getByTestId("folder-new-conversation").click();
  expect(await page.getByTestId("welcome-folder").textContent()).toContain("Terse");
  expect(await page.getByTestId("folder-pill").getAttribute("aria-label")).toContain("whose instructions apply here");
  // The panel shows the folder's settings as the conversation's defaults.
  await page.getByTestId("chat-settings-toggle").click();
  const panel = page.getByTestId("chat-settings");
  expect(await panel.getByTestId("chat-settings-prompt").getAttribute("placeholder")).toBe("Answer in one word.");
  expect(await panel.getByTestId("knob-temperature").locator("input").getAttribute("placeholder")).toBe("0.25");
  expect(await panel.getByTestId("knob-temperature").locator(".tag").textContent()).toBe("from the folder");
  await send(page, "What is the capital of France?");
  await lastAnswer(page, "complete");
  await expect.poll(() => titles(terse)).toHaveLength(1);
  expect(await answers(page).count()).toBe(1);
  // The conversation's own instructions take precedence.
  await panel.getByTestId("chat-settings-prompt").fill("Be verbose.");
  await page.keyboard.press("Tab");
  await expect.poll(() => page.getByTestId("folder-pill").getAttribute("aria-label")).not.toContain("instructions");
  await openConversation(page, "Letter");
  expect(await page.getByTestId("folder-pill").count()).toBe(0);
  expect(errors).toEqual([]);
});

test("a folder has a preset and thinking of its own, which its conversations inherit", async () => {
  const { page, errors } = await open({ scene: "thinks" });
  await pace(page, 0);
  await create(page, "Stories");
  await menu(page, "Stories", "folder-settings");
  const dialog = page.getByTestId("folder-dialog");
  await dialog.getByTestId("preset").selectOption("built-in:creative");
  await expect.poll(() => dialog.getByTestId("knob-temperature").locator("input").inputValue()).toBe("1.1");
  expect(await dialog.getByTestId("preset-modified").count()).toBe(0);
  expect(await dialog.getByTestId("thinking").getAttribute("aria-pressed")).toBe("true");
  await dialog.getByTestId("thinking").click();
  expect(await dialog.getByTestId("thinking").getAttribute("aria-pressed")).toBe("false");
  await dialog.getByTestId("preset-modified").waitFor();
  // Neither has changed the open conversation, or ended the dialog.
  await dialog.getByTestId("folder-save").click();
  await dialog.waitFor({ state: "detached" });
  await expect.poll(() => page.getByTestId("thinking").getAttribute("aria-pressed")).toBe("true");
  await menu(page, "Stories", "folder-settings");
  expect(await dialog.getByTestId("preset").inputValue()).toBe("built-in:creative");
  await page.keyboard.press("Escape");
  const stories = folder(page, "Stories");
  await stories.getByTestId("folder-toggle").hover();
  await stories.getByTestId("folder-new-conversation").click();
  // A conversation overrides it, also by the model's own.
  const choice = page.getByTestId("thinking-choice");
  await expect.poll(() => choice.locator("option:checked").textContent()).toBe("Do not think (folder)");
  expect(await page.getByTestId("thinking-effort").count()).toBe(0);
  await choice.selectOption({ label: "Model default" });
  await page.getByTestId("thinking-effort").selectOption("high");
  await send(page, "Think: what is the capital of France?");
  await inMenu(await lastAnswer(page, "complete"), "details");
  expect(await page.getByTestId("answer-facts").textContent()).not.toContain("Thinking off");
  await page.keyboard.press("Escape");
  await choice.selectOption({ label: "Do not think" });
  await send(page, "Think: what is the capital of Spain?");
  await inMenu(await lastAnswer(page, "complete"), "details");
  expect(await page.getByTestId("answer-facts").textContent()).toContain("Thinking off");
  expect(errors).toEqual([]);
});

async function drag(page: Page, from: Locator, to: Locator): Promise<void> {
  const [a, b] = [await from.boundingBox(), await to.boundingBox()];
  if (!a || !b) throw new Error("Nothing to drag.");
  await page.mouse.move(a.x + 20, a.y + a.height / 2);
  await page.mouse.down();
  await page.mouse.move(b.x + 30, b.y + b.height / 2, { steps: 6 });
}

test("a conversation is dragged into a folder and out of it; Escape takes it back", async () => {
  const { page, errors } = await open();
  await create(page, "Code");
  const sql = page.getByTestId("open-conversation").filter({ hasText: "SQL" });
  await drag(page, sql, folder(page, "Code").getByTestId("folder-toggle"));
  await page.keyboard.press("Escape");
  await page.mouse.up();
  expect(await titles(folder(page, "Code"))).toEqual([]);
  await drag(page, sql, folder(page, "Code").getByTestId("folder-toggle"));
  await page.mouse.up();
  await expect.poll(() => titles(folder(page, "Code"))).toHaveLength(1);
  // It was dragged, not pressed.
  expect(await page.getByTestId("welcome").count()).toBe(1);
  await drag(page, sql, page.getByTestId("open-conversation").filter({ hasText: "Everything markdown" }));
  await page.mouse.up();
  await expect.poll(() => titles(folder(page, "Code"))).toEqual([]);
  expect(errors).toEqual([]);
});

test("the palette makes a folder, moves the open conversation into a new one and begins conversations", async () => {
  const { page, errors } = await open();
  const palette = async (query: string, id: string) => {
    await page.keyboard.press("Control+k");
    await page.getByTestId("palette-query").fill(query);
    await page.locator(`[data-testid=palette-item][data-id="${id}"]`).click();
  };
  await palette("new folder", "new-folder");
  await page.getByTestId("folder-name").fill("One");
  await page.keyboard.press("Enter");
  await folder(page, "One").waitFor();
  await openConversation(page, "Haiku");
  await palette("move", "move-conversation");
  // The focus is at the place where the conversation is.
  await expect.poll(() => page.evaluate(() => document.activeElement?.getAttribute("data-id"))).toBe("none");
  await page.keyboard.press("ArrowDown");
  expect(await page.evaluate(() => document.activeElement?.textContent)).toContain("One");
  await page.getByTestId("move-new-name").fill("Poems");
  await page.keyboard.press("Enter");
  await expect.poll(() => titles(folder(page, "Poems"))).toHaveLength(1);
  const id = await folder(page, "One").getAttribute("data-folder");
  await palette("in one", `folder:${id}`);
  await page.getByTestId("welcome-folder").waitFor();
  expect(errors).toEqual([]);
});
