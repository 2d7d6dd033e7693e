// Deleting messages, and branches of conversations.

import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import {
  answers,
  compareRun,
  inMenu,
  lastAnswer,
  open,
  openConversation,
  pace,
  send,
  still,
  useBrowser,
  USUAL_PACE,
} from "./window";

useBrowser();

const questions = (page: Page) => page.locator("[data-role=user]");
const texts = (page: Page) => questions(page).locator(".bubble p").allTextContents();
const toast = (page: Page) => page.getByTestId("toast").last();
const focused = (page: Page) => page.evaluate(() => document.activeElement?.getAttribute("data-testid"));

/** Waits until the thread has a number of messages. */
const hasMessages = (page: Page, count: number) => expect.poll(() => page.getByTestId("message").count()).toBe(count);

test("a message below which nothing is goes at once, and Undo brings it back", async () => {
  const { page, errors } = await open();
  await openConversation(page, "Rye bread");
  await inMenu(answers(page).last(), "delete-message");
  await hasMessages(page, 1);
  expect(await page.getByTestId("deletion").count()).toBe(0);
  expect(await toast(page).textContent()).toContain("The message was deleted.");
  await expect.poll(() => focused(page)).toBe("composer");
  await toast(page).getByRole("button", { name: "Undo" }).click();
  await hasMessages(page, 2);
  await expect.poll(() => focused(page)).toBe("composer");
  expect(errors).toEqual([]);
});

test.each([
  [1180, 760, 100],
  [800, 600, 100],
  [800, 600, 200],
])("a toast covers no button of the chat at %i x %i and a text size of %i", async (width, height, textSize) => {
  const { page, errors } = await open({ width, height, textSize });
  if (textSize > 100) await page.getByTestId("toggle-list").click();
  await openConversation(page, "Rye bread");
  await inMenu(answers(page).last(), "delete-message");
  await toast(page).waitFor();
  await still(page);
  const covered = await page.evaluate(() =>
    [...document.querySelectorAll("main button, main textarea")]
      .filter((button) => button.checkVisibility({ opacityProperty: true }))
      .map((button) => [button.getAttribute("data-testid"), button.getBoundingClientRect()] as const)
      .filter(([, { left, top, width, height }]) =>
        document.elementFromPoint(left + width / 2, top + height / 2)?.closest("[data-testid=toast]"),
      )
      .map(([name]) => name),
  );
  expect(covered).toEqual([]);
  expect(errors).toEqual([]);
});

test("a question without an answer has a visible button for one", async () => {
  const { page, errors } = await open();
  await openConversation(page, "Rye bread");
  expect(await page.getByTestId("answer-again").count()).toBe(0);
  await inMenu(answers(page).last(), "delete-message");
  const button = page.getByTestId("answer-again");
  await button.waitFor();
  await page.mouse.move(0, 0);
  await expect.poll(() => button.evaluate((e) => e.checkVisibility({ opacityProperty: true }))).toBe(true);
  await page.getByTestId("composer").focus();
  expect(await button.textContent()).toBe("Answer");
  await button.click();
  await lastAnswer(page, "complete");
  await hasMessages(page, 2);
  await button.waitFor({ state: "detached" });
  await expect.poll(() => focused(page)).toBe("composer");
  await inMenu(questions(page).first(), "branch-off");
  await hasMessages(page, 1);
  await button.click();
  await lastAnswer(page, "complete");
  expect(errors).toEqual([]);
});

test("the messages below go too, after a question with their number in all versions", async () => {
  const { page, errors } = await open();
  await openConversation(page, "Rye bread");
  await send(page, "Say: more.");
  await lastAnswer(page, "complete");
  await answers(page).last().getByTestId("regenerate").click();
  await answers(page).last().getByText("2 of 2").waitFor();
  await lastAnswer(page, "complete");
  await inMenu(questions(page).first(), "delete-message");
  const dialog = page.getByTestId("deletion");
  expect(await dialog.textContent()).toContain("Delete this message and the 4 below it, in all versions?");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await hasMessages(page, 4);
  await inMenu(questions(page).first(), "delete-message");
  await page.getByTestId("deletion-confirm").click();
  // The conversation is empty, and can be written in.
  await page.getByTestId("welcome").waitFor();
  expect(await toast(page).textContent()).toContain("5 messages were deleted.");
  await toast(page).getByRole("button", { name: "Undo" }).click();
  await hasMessages(page, 4);
  await answers(page).last().getByText("2 of 2").waitFor();
  expect(errors).toEqual([]);
});

test("deleted messages are restored from the bin, or deleted for good", async () => {
  const { page, errors } = await open();
  await openConversation(page, "Rye bread");
  const binned = page.getByTestId("binned-messages");
  await inMenu(answers(page).last(), "delete-message");
  await hasMessages(page, 1);
  await page.getByTestId("open-bin").click();
  await binned.getByTestId("bin-restore-messages").click();
  await hasMessages(page, 2);
  await inMenu(answers(page).last(), "delete-message");
  await hasMessages(page, 1);
  await page.getByTestId("open-bin").click();
  await page.getByTestId("bin-empty").click();
  await page.getByText("1 entry will be gone for good.").waitFor();
  await page.getByTestId("bin-empty-confirm").click();
  await binned.waitFor({ state: "detached" });
  expect(await page.getByTestId("bin-empty").isDisabled()).toBe(true);
  expect(errors).toEqual([]);
});

test("the nearest older version is shown instead of a deleted one, and fewer are counted", async () => {
  const { page } = await open();
  await openConversation(page, "Rye bread");
  for (const total of [2, 3]) {
    await answers(page).last().getByTestId("regenerate").click();
    await answers(page).last().getByText(`${total} of ${total}`).waitFor();
    await lastAnswer(page, "complete");
  }
  await page.getByTestId("branch-previous").click();
  await answers(page).last().getByText("2 of 3").waitFor();
  await inMenu(answers(page).last(), "delete-message");
  await answers(page).last().getByText("1 of 2").waitFor();
  await toast(page).getByRole("button", { name: "Undo" }).click();
  await answers(page).last().getByText("2 of 3").waitFor();
});

test("an answer in progress is stopped when its question is deleted, and queued messages wait", async () => {
  const { page, errors } = await open();
  await openConversation(page, "Rye bread");
  await pace(page, USUAL_PACE);
  await send(page, "Tell me a long story.");
  await answers(page).last().getByText("Paragraph 1.").waitFor();
  await page.getByTestId("composer").fill("And then?");
  await page.getByTestId("composer").press("Enter");
  await inMenu(questions(page).last(), "delete-message");
  await page.getByTestId("deletion-confirm").click();
  await hasMessages(page, 2);
  expect(await page.getByTestId("queued").locator("span").allTextContents()).toEqual(["And then?"]);
  expect(await page.getByTestId("stop").count()).toBe(0);
  await pace(page, 0);
  await page.getByTestId("queue-send").click();
  await lastAnswer(page, "complete");
  expect((await texts(page)).slice(-1)).toEqual(["And then?"]);
  await hasMessages(page, 4);
  expect(errors).toEqual([]);
});

test("one of two compared answers is deleted and restored with its vote", async () => {
  const { page, errors } = await open();
  await compareRun(page);
  await page.getByTestId("vote").first().click();
  await page.getByTestId("voted").waitFor();
  await inMenu(answers(page).first(), "delete-message");
  await page.getByTestId("vote").first().waitFor({ state: "detached" });
  await hasMessages(page, 2);
  await toast(page).getByRole("button", { name: "Undo" }).click();
  await page.getByTestId("voted").waitFor();
  expect(await page.getByTestId("vote").count()).toBe(2);
  expect(errors).toEqual([]);
});

test("a branch is a new conversation with the messages up to one, and the original stays", async () => {
  const { page, errors } = await open();
  await openConversation(page, "Rye bread");
  await send(page, "Say: more.");
  await lastAnswer(page, "complete");
  // From the keyboard, in the context menu.
  await answers(page).first().getByTestId("copy").focus();
  await page.keyboard.press("ContextMenu");
  await page.getByTestId("branch-off").focus();
  await page.keyboard.press("Enter");
  const title = (at: number) => page.getByTestId("open-conversation").nth(at).textContent();
  await expect.poll(() => title(0)).toContain("Rye bread, 80 % hydration (branch)");
  await hasMessages(page, 2);
  await expect.poll(() => focused(page)).toBe("composer");
  await inMenu(answers(page).last(), "branch-off");
  await expect.poll(() => title(0)).toContain("Rye bread, 80 % hydration (branch) 2");
  expect(await title(2)).not.toContain("branch");
  await page.getByTestId("open-conversation").nth(2).click();
  await hasMessages(page, 4);
  expect(errors).toEqual([]);
});
