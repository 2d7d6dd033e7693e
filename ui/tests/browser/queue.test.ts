// Messages that are written while an answer is in progress.

import { describe, expect, test } from "vitest";
import { answers, lastAnswer, open, openConversation, pace, send, useBrowser, USUAL_PACE } from "./window";
import type { Page } from "playwright-core";

useBrowser();

const compose = async (page: Page, text: string) => {
  await page.getByTestId("composer").fill(text);
  await page.getByTestId("composer").press("Enter");
};
const queued = (page: Page) => page.getByTestId("queued").locator("span").allTextContents();
const questions = (page: Page) => page.locator("[data-role=user] .bubble p").allTextContents();

describe("a queued message", () => {
  test("is sent once the answer is complete, one after the other", async () => {
    const { page, errors } = await open();
    await pace(page, USUAL_PACE);
    await send(page, "Tell me a long story.");
    await answers(page).last().getByText("Paragraph 1.").waitFor();
    await compose(page, "What is the capital of France?");
    await compose(page, "And of Spain?");
    expect(await queued(page)).toEqual(["What is the capital of France?", "And of Spain?"]);
    expect(await page.getByTestId("queue").textContent()).toContain("2 messages follow this answer");
    expect(await page.getByTestId("composer").inputValue()).toBe("");
    await pace(page, 0);
    await page.getByTestId("queue").waitFor({ state: "detached" });
    await lastAnswer(page, "complete");
    // The first is out of sight, and not on the page.
    expect((await questions(page)).slice(-2)).toEqual(["What is the capital of France?", "And of Spain?"]);
    expect(errors).toEqual([]);
  });

  test("waits after a stop until it is sent", async () => {
    const { page, errors } = await open();
    await pace(page, USUAL_PACE);
    await send(page, "Tell me a long story.");
    await answers(page).last().getByText("Paragraph 1.").waitFor();
    await compose(page, "What is the capital of France?");
    await page.getByTestId("stop").click();
    await lastAnswer(page, "stopped");
    expect(await page.getByTestId("queue").textContent()).toContain("One message is not sent yet");
    await page.getByTestId("queue-send").click();
    await page.getByTestId("queue").waitFor({ state: "detached" });
    await lastAnswer(page, "complete");
    expect(await questions(page)).toEqual(["Tell me a long story.", "What is the capital of France?"]);
    expect(errors).toEqual([]);
  });

  test("is edited and removed, and a removal undone", async () => {
    const { page } = await open();
    await pace(page, USUAL_PACE);
    await send(page, "Tell me a long story.");
    await answers(page).last().getByText("Paragraph 1.").waitFor();
    await compose(page, "First");
    await compose(page, "Second");
    await page.getByTestId("composer").fill("typed");
    await page.getByTestId("queued-edit").first().click();
    expect(await page.getByTestId("composer").inputValue()).toBe("typed\nFirst");
    await page.getByTestId("queued-remove").click();
    await page.getByTestId("queue").waitFor({ state: "detached" });
    await page.getByTestId("toast").getByRole("button", { name: "Undo" }).click();
    expect(await queued(page)).toEqual(["Second"]);
  });

  test("is sent to its own conversation while another one is open", async () => {
    const { page } = await open();
    await pace(page, USUAL_PACE);
    await openConversation(page, "Borrow checker");
    await send(page, "Tell me a long story.");
    await answers(page).last().getByText("Paragraph 1.").waitFor();
    await compose(page, "What is the capital of France?");
    await openConversation(page, "Haiku about a kettle");
    const before = await questions(page);
    expect(await page.getByTestId("queue").count()).toBe(0);
    await pace(page, 0);
    await page.locator(".busy").waitFor({ state: "detached" });
    expect(await questions(page)).toEqual(before);
    await openConversation(page, "Borrow checker");
    await expect.poll(() => questions(page).then((all) => all.at(-1))).toBe("What is the capital of France?");
    await lastAnswer(page, "complete");
  });
});

test("rating an answer sends no queued message", async () => {
  const { page } = await open();
  await pace(page, 0);
  await openConversation(page, "Haiku about a kettle");
  // As after a restart: a queue that is read with its conversation.
  await page.evaluate(
    "Promise.all([1, 2, 3, 4].map((id) => fakeHost.saveUnsent(id, { text: null, files: null, queue: [{ text: 'Later', files: [] }] })))",
  );
  await openConversation(page, "Borrow checker");
  await page.getByTestId("queued").waitFor();
  await page.getByTestId("thumb-up").last().click();
  await page.locator("[data-testid=thumb-up][aria-pressed=true]").waitFor();
  expect(await queued(page)).toEqual(["Later"]);
});
