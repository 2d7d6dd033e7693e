import { expect, test } from "vitest";
import { textOf } from "../../src/lib/text/parts";
import { answers, inMenu, lastAnswer, open, openConversation, pace, send, useBrowser } from "./window";

useBrowser();

const shownText = async (page: Awaited<ReturnType<typeof open>>["page"]) =>
  (await answers(page).last().locator(".markdown").last().textContent()) ?? "";

test("a cut answer goes on in the same message", async () => {
  const { page, errors } = await open({ scene: "fresh" });
  await pace(page, 0);
  await send(page, "Cut this short.");
  const truncated = await lastAnswer(page, "truncated");
  const [id, text, tokens] = [
    await truncated.getAttribute("data-id"),
    await shownText(page),
    Number((await truncated.getByTestId("stats").getAttribute("title"))?.match(/^\d+/)?.[0]),
  ];
  await page.getByTestId("continue").click();
  const fullAnswer = await lastAnswer(page, "complete");
  expect(await fullAnswer.getAttribute("data-id")).toBe(id);
  expect(await shownText(page)).toBe(`${text} That is all.`);
  expect(await answers(page).count()).toBe(1);
  expect(Number((await fullAnswer.getByTestId("stats").getAttribute("title"))?.match(/^\d+/)?.[0])).toBeGreaterThan(
    tokens,
  );
  expect(errors).toEqual([]);
});

test("a stopped answer goes on where it stopped, by keyboard", async () => {
  const { page } = await open({ scene: "fresh" });
  await pace(page, 12);
  await send(page, "Tell me a long story.");
  await answers(page).last().getByText("Paragraph 2.").waitFor();
  await page.keyboard.press("Escape");
  await lastAnswer(page, "stopped");
  const before = textOf([{ type: "text", text: await shownText(page) }]);
  await pace(page, 0);
  await answers(page).last().getByTestId("message-menu").focus();
  await page.keyboard.press("Enter");
  await page.getByTestId("continue-answer").waitFor();
  await page.keyboard.press("Enter");
  await lastAnswer(page, "complete");
  const after = await shownText(page);
  expect(after.startsWith(before)).toBe(true);
  expect(after.match(/Paragraph 3\./g)?.length).toBe(1);
  expect(after).toContain("Paragraph 24.");
});

test("only the last answer can be continued, each can be edited", async () => {
  const { page } = await open();
  await pace(page, 0);
  await openConversation(page, "Letter to the landlord");
  await send(page, "What is the capital of France?");
  await lastAnswer(page, "complete");
  for (const at of [0, 1]) {
    await answers(page).nth(at).getByTestId("message-menu").click();
    await page.getByTestId("details").waitFor();
    expect(await page.getByTestId("continue-answer").count()).toBe(at);
    await page.keyboard.press("Escape");
  }
  expect(await page.getByTestId("edit-answer").count()).toBe(2);
});

test("an edited answer is another version, and the model can go on from it", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  await openConversation(page, "Letter to the landlord");
  await page.getByTestId("edit-answer").click();
  const area = page.getByTestId("edit-answer-text");
  expect(await area.inputValue()).toContain("Dear Ms Abel");
  expect(await page.getByTestId("edit-answer-save").isDisabled()).toBe(true);
  await area.fill("Dear Ms Abel, it is cold.");
  await page.getByTestId("edit-answer-save").click();
  await expect.poll(() => shownText(page)).toBe("Dear Ms Abel, it is cold.");
  expect(await page.getByTestId("branch").textContent()).toContain("2 of 2");
  expect(await page.getByTestId("edited").count()).toBe(1);
  await page.getByTestId("branch-previous").click();
  await expect.poll(() => shownText(page)).toContain("the heating in flat 4");
  // The beginning of an answer.
  await page.getByTestId("edit-answer").click();
  await area.fill("Dear landlord,");
  await page.keyboard.press("Control+Enter");
  await lastAnswer(page, "complete");
  await expect.poll(() => shownText(page)).toBe("Dear landlord, That is all.");
  expect(await page.getByTestId("branch").textContent()).toContain("3 of 3");
  await page.getByTestId("edit-answer").click();
  await page.keyboard.press("Escape");
  expect(await area.count()).toBe(0);
  await expect.poll(() => page.evaluate(() => document.activeElement?.getAttribute("data-testid"))).toBe("edit-answer");
  expect(errors).toEqual([]);
});

test("an answer that repeats itself is noticed while it grows and at its end", async () => {
  const { page } = await open({ scene: "fresh" });
  await pace(page, 4);
  await send(page, "Loop for a while.");
  const note = page.getByTestId("repeats");
  await note.waitFor();
  expect(await note.textContent()).toContain("The answer repeats itself.");
  await note.getByRole("button", { name: "Stop" }).click();
  await lastAnswer(page, "stopped");
  expect(await note.textContent()).toContain("ends in a repetition");
  expect(await note.getByTestId("try-unrepeated").count()).toBe(1);
  await pace(page, 0);
  await send(page, "What is the capital of France?");
  await lastAnswer(page, "complete");
  expect(await note.count()).toBe(0);
});

test("after an answer that ended because it repeated itself, there are three ways on", async () => {
  const { page, errors } = await open({ scene: "fresh" });
  await send(page, "This ends in a loop.");
  await lastAnswer(page, "truncated");
  const note = page.getByTestId("repeats");
  expect(await note.textContent()).toContain("ended because it repeated itself");
  expect(await page.getByTestId("cut").count()).toBe(0);

  await note.getByTestId("try-unrepeated").click();
  await lastAnswer(page, "complete");
  expect(await note.count()).toBe(0);
  expect(await page.getByTestId("branch").textContent()).toContain("2 of 2");
  await inMenu(answers(page).last(), "details");
  await page.getByTestId("answer-details").waitFor();
  expect(await page.getByTestId("answer-facts").textContent()).toMatch(/DRY multiplier 0\.8.*window 4,096/);
  await page.keyboard.press("Escape");

  await page.getByTestId("branch-previous").click();
  await note.getByTestId("continue").click();
  await lastAnswer(page, "complete");
  await expect.poll(() => shownText(page)).toContain("That is all.");

  await send(page, "It ends in a loop again.");
  await lastAnswer(page, "truncated");
  await note.last().getByTestId("better-model").click();
  await page.getByTestId("tab-discover").and(page.locator("[aria-selected=true]")).waitFor();
  expect(errors).toEqual([]);
});
