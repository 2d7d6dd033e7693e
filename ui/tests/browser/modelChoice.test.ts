// The model and the adapters that answer in the open conversation.

import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { lastAnswer, open, openConversation, pace, send, useBrowser } from "./window";

useBrowser();

/** Opens the list of models at a row. */
async function row(page: Page, name: string) {
  await page.getByTestId("model-pill").click();
  return page.locator("li").filter({ has: page.getByTestId("model-choice").filter({ hasText: name }) });
}

test("a model for one conversation is shown there, with its state, and nowhere else", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  const pill = page.getByTestId("model-pill");
  await expect.poll(() => page.getByTestId("device").count()).toBe(1);
  const qwen = await row(page, "Qwen3");
  await qwen.getByTestId("model-only-here").click();
  await expect.poll(() => pill.textContent()).toContain("not loaded yet");
  expect(await pill.textContent()).toContain("Qwen3");
  expect(await page.getByTestId("composer").getAttribute("placeholder")).toContain("Qwen3");
  // Both are of the model that is loaded, but does not answer here.
  expect(await page.getByTestId("device").count()).toBe(0);
  expect(await page.getByTestId("context-meter").count()).toBe(0);
  expect(await page.getByTestId("thinking").count()).toBe(0);
  await send(page, "What is the capital of France?");
  await lastAnswer(page, "complete");
  await expect.poll(() => pill.getAttribute("data-state")).toBe("ready");
  await page.getByTestId("thinking").waitFor();
  await openConversation(page, "SQL");
  expect(await pill.textContent()).toContain("SmolLM2");
  expect(await pill.getAttribute("data-state")).toBe("ready");
  await page.getByTestId("new-conversation").click();
  await expect.poll(() => pill.textContent()).toContain("SmolLM2");
  expect(errors).toEqual([]);
});

test("a model that is chosen for all answers here too, and the choice for one conversation is undone", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  const pill = page.getByTestId("model-pill");
  await openConversation(page, "SQL");
  let qwen = await row(page, "Qwen3");
  await qwen.getByTestId("model-only-here").click();
  await expect.poll(() => pill.textContent()).toContain("Qwen3");
  qwen = await row(page, "Qwen3");
  expect(await qwen.getByTestId("model-only-here").getAttribute("aria-pressed")).toBe("true");
  await qwen.getByTestId("model-only-here").click();
  await expect.poll(() => pill.textContent()).toContain("SmolLM2");
  await (await row(page, "Qwen3")).getByTestId("model-only-here").click();
  await (await row(page, "SmolLM2")).getByTestId("model-choice").click();
  await expect.poll(() => pill.textContent()).toContain("SmolLM2");
  await (await row(page, "Qwen3")).getByTestId("model-choice").click();
  await expect.poll(() => pill.textContent()).toContain("Qwen3");
  await openConversation(page, "Borrow checker");
  expect(await pill.textContent()).toContain("Qwen3");
  expect(errors).toEqual([]);
});

test("a new conversation begins with an adapter", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  await page.getByTestId("new-conversation").click();
  await page.getByTestId("adapter-pill").click();
  await page.locator("[data-testid=adapter][data-id='31']").getByTestId("adapter-on").check();
  await page.keyboard.press("Escape");
  await send(page, "What is the capital of France?");
  const answer = await lastAnswer(page, "complete");
  expect(await answer.getByTestId("answer-adapters").textContent()).toBe("with support-tone");
  expect(await page.getByTestId("adapter-pill").textContent()).toContain("support-tone");
  expect(errors).toEqual([]);
});

test("the adapter of a run is chatted with, and the next conversation has none", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  await page.getByTestId("view-tune").click();
  await page.locator("[data-testid=run][data-id='21']").getByTestId("open-run").click();
  await page.getByTestId("chat-with-it").click();
  await page.getByTestId("adapter-pill").filter({ hasText: "support-tone" }).waitFor();
  expect(await page.getByTestId("contenders").count()).toBe(0);
  await send(page, "What is the capital of France?");
  const answer = await lastAnswer(page, "complete");
  expect(await answer.getByTestId("answer-adapters").textContent()).toBe("with support-tone");
  await page.getByTestId("new-conversation").click();
  await expect.poll(() => page.getByTestId("adapter-pill").textContent()).toContain("No adapter");
  expect(errors).toEqual([]);
});

test.each([800, 940, 1120])("the pill of adapters is not cut beside free space at %i pixels", async (width) => {
  const { page } = await open({ width });
  const label = page.getByTestId("adapter-pill").locator("span");
  expect(await label.textContent()).toBe("No adapter");
  const cut = await label.evaluate((span) => span.scrollWidth - span.clientWidth);
  const free = await page.locator("header .space").evaluate((space) => space.clientWidth);
  expect(Math.min(cut, free)).toBe(0);
});
