import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import {
  answers,
  compareRun,
  drawn,
  inMenu,
  lastAnswer,
  open,
  openConversation,
  pace,
  send,
  useBrowser,
} from "./window";

useBrowser();

/** Opens a past run and compares two answers at once. */
async function tryIt(page: Page): Promise<void> {
  await pace(page, 0);
  await compareRun(page);
}

test("two answers are side by side, and labelled after the vote", async () => {
  const { page, errors } = await open();
  await tryIt(page);
  const pair = page.getByTestId("pair");
  expect(await pair.locator("h2").allTextContents()).toEqual(["Answer A", "Answer B"]);
  expect(await pair.textContent()).not.toContain("support-tone");
  expect(await pair.getByTestId("stats").count()).toBe(0);
  const boxes = await Promise.all([0, 1].map((i) => answers(page).nth(i).boundingBox()));
  expect(boxes[0]?.y).toBe(boxes[1]?.y);
  const warm = pair.locator("section").filter({ hasText: "Sorry about the wait." });
  await warm.getByTestId("vote").click();
  await expect.poll(() => page.getByTestId("voted").textContent()).toBe("You preferred: With support-tone.");
  expect((await pair.locator("h2").allTextContents()).toSorted()).toEqual(["Base model", "With support-tone"]);
  await page.getByTestId("view-tune").click();
  await expect.poll(() => page.getByTestId("result").textContent()).toContain("of 9 votes");
  await page.getByTestId("view-chat").click();
  await warm.getByTestId("vote").click();
  await expect.poll(() => pair.getAttribute("data-hidden")).toBe("true");
  expect(errors).toEqual([]);
});

test("a comparison begins with the settings that were chosen", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  await page.getByTestId("view-tune").click();
  await page.locator("[data-testid=run][data-id='21']").getByTestId("open-run").click();
  await page.getByTestId("try-it").click();
  await page.getByTestId("chat-settings-toggle").click();
  await page.getByTestId("preset").selectOption({ label: "Creative" });
  await page.getByTestId("chat-settings-prompt").fill("Be brief.");
  await page.keyboard.press("Tab");
  await send(page, "My order is late, what now?");
  await expect.poll(() => page.getByTestId("vote").count()).toBe(2);
  await page.getByTestId("reveal").click();
  for (const at of [0, 1]) {
    await inMenu(answers(page).nth(at), "details");
    expect(await page.getByTestId("answer-facts").textContent()).toContain("1.1");
    await page.keyboard.press("Escape");
  }
  const shown = () => page.getByTestId("knob-temperature").locator("input").inputValue();
  expect(await shown()).toBe("1.1");
  expect(await page.getByTestId("chat-settings-prompt").inputValue()).toBe("Be brief.");
  expect(errors).toEqual([]);
});

test("the end stays in view while both answers grow and after they end", async () => {
  const { page } = await open({ height: 420 });
  await tryIt(page);
  await pace(page, 24);
  await send(page, "Tell me a long story.");
  await page.locator("[data-role=assistant][data-state=streaming]").first().waitFor();
  await pace(page, 1);
  await expect.poll(() => page.locator("[aria-busy=true]").count(), { timeout: 60_000 }).toBe(0);
  await drawn(page);
  expect(await page.getByTestId("jump-to-latest").count()).toBe(0);
});

test("a narrow window stacks them", async () => {
  const { page } = await open({ width: 760 });
  await tryIt(page);
  await page.getByTestId("reveal").click();
  const boxes = await Promise.all([0, 1].map((i) => answers(page).nth(i).boundingBox()));
  expect(boxes[0]?.x).toBe(boxes[1]?.x);
  expect(await page.evaluate(() => document.querySelector("header")?.scrollWidth)).toBe(
    await page.evaluate(() => document.querySelector("header")?.clientWidth),
  );
});

test("both answers stop together", async () => {
  const { page } = await open();
  await tryIt(page);
  await pace(page, 20);
  await send(page, "Tell me a long story.");
  await page.locator("[data-role=assistant][data-state=streaming]").first().waitFor();
  await page.keyboard.press("Escape");
  await expect.poll(() => page.locator("[data-role=assistant][data-state=stopped]").count()).toBe(2);
  await page.getByTestId("send").waitFor();
});

test("up to four models and settings are compared, and the conversation continues with the preferred answer", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  await page.getByTestId("new-conversation").click();
  await page.getByTestId("compare").click();
  await expect.poll(() => page.getByTestId("contender").count()).toBe(2);
  await page.getByTestId("contender-add").click();
  await page.getByTestId("contender-add").click();
  expect(await page.getByTestId("contender-add").count()).toBe(0);
  await page.getByTestId("contender").nth(3).click();
  await page.getByTestId("contender-model").selectOption("");
  await page.getByTestId("contender-preset").selectOption({ label: "Creative" });
  await page.keyboard.press("Escape");
  await send(page, "What is the capital of France?");
  await expect.poll(() => page.getByTestId("vote").count()).toBe(4);
  expect(await page.getByTestId("pair").locator("h2").allTextContents()).toEqual([
    "Answer A",
    "Answer B",
    "Answer C",
    "Answer D",
  ]);
  await page.getByTestId("reveal").click();
  // Of another answer than the one that the conversation goes on from until then.
  await page.getByTestId("pair").locator("section").filter({ hasText: "Qwen3" }).getByTestId("vote").click();
  await page.getByTestId("voted").waitFor();
  await drawn(page);
  expect(await page.evaluate(() => document.activeElement?.getAttribute("data-testid"))).toBe("vote");
  const creative = page.getByTestId("pair").locator("section").filter({ hasText: "Creative" });
  await creative.getByTestId("vote").click();
  await expect.poll(() => page.getByTestId("voted").textContent()).toContain("Creative");
  await page.getByTestId("use-contender").click();
  await expect.poll(() => page.getByTestId("contenders").count()).toBe(0);
  await page.getByTestId("chat-settings-toggle").click();
  expect(await page.getByTestId("knob-temperature").locator("input").inputValue()).toBe("1.1");
  expect(errors).toEqual([]);
});

test("a blind comparison does not show that a model is loaded", async () => {
  const { page, errors } = await open();
  await page.getByTestId("new-conversation").click();
  await page.getByTestId("compare").click();
  await page.getByTestId("contender-add").click();
  await pace(page, Infinity);
  await send(page, "What is the capital of France?");
  const loading = page.locator("[data-role=assistant][data-state=loading]");
  await loading.waitFor();
  expect((await loading.getByTestId("progress").textContent())?.trim()).toMatch(/^Preparing/);
  expect(await loading.getByRole("progressbar").count()).toBe(0);
  expect(await page.getByTestId("pair").textContent()).not.toMatch(/Qwen3|opening the file|reading weights/);
  await pace(page, 0);
  await expect.poll(() => page.getByTestId("vote").count()).toBe(3);
  expect(errors).toEqual([]);
});

test("an answer that is not blind shows the stage of a load below the name of its model", async () => {
  const { page } = await open({ scene: "fresh" });
  await pace(page, Infinity);
  await send(page, "What is the capital of France?");
  const answer = await lastAnswer(page, "loading");
  expect(await answer.getByTestId("progress").textContent()).toContain(
    "Loading SmolLM2 135M Instruct: opening the file",
  );
});

test("at least two compared answers stay, and identical ones are pointed out", async () => {
  const { page } = await open();
  await page.getByTestId("compare").click();
  await page.getByTestId("contender").first().click();
  expect(await page.getByTestId("contender-remove").count()).toBe(0);
  await page.keyboard.press("Escape");
  expect(await page.getByTestId("twins").count()).toBe(0);
  await page.getByTestId("contender").nth(1).click();
  await page.getByTestId("contender-adapters").selectOption("");
  await page.keyboard.press("Escape");
  await page.getByTestId("twins").waitFor();
  await page.getByTestId("contender-add").click();
  await page.getByTestId("contender").nth(1).click();
  await page.getByTestId("contender-remove").click();
  await expect.poll(() => page.getByTestId("contender").count()).toBe(2);
  expect(await page.getByTestId("twins").count()).toBe(0);
});

test("a new conversation ends the comparison, and identical choices give one answer", async () => {
  const { page, errors } = await open();
  await tryIt(page);
  await page.getByTestId("new-conversation").click();
  await expect.poll(() => page.getByTestId("contenders").count()).toBe(0);
  expect(await page.getByTestId("adapter-pill").textContent()).toContain("No adapter");
  await page.getByTestId("compare").click();
  expect(await page.getByTestId("contender").allTextContents()).toEqual(["1 Base model", "2 With support-tone"]);
  await page.getByTestId("contender").nth(1).click();
  await page.getByTestId("contender-adapters").selectOption("");
  await page.keyboard.press("Escape");
  await send(page, "What is the capital of France?");
  await lastAnswer(page, "complete");
  expect(await page.getByTestId("pair").count()).toBe(0);
  expect(errors).toEqual([]);
});

test("an answer that failed says no reason before the vote", async () => {
  const { page } = await open();
  await tryIt(page);
  await page.evaluate(() => {
    const host = (window as unknown as { fakeHost: { pace: number; killWorker(): void } }).fakeHost;
    host.pace = 20;
  });
  await send(page, "Tell me a long story.");
  await page.locator("[data-role=assistant][data-state=streaming]").first().waitFor();
  await page.evaluate(() => (window as unknown as { fakeHost: { killWorker(): void } }).fakeHost.killWorker());
  await page.getByTestId("failed").first().waitFor();
  const text = await page.getByTestId("failed").first().textContent();
  expect(text).toContain("The reason is shown after the vote.");
  expect(await page.getByTestId("try-again").count()).toBe(0);
});

test("adapters are chosen, scaled and combined per conversation", async () => {
  const { page } = await open();
  await pace(page, 0);
  await openConversation(page, "Rye bread");
  await page.getByTestId("adapter-pill").click();
  await page.locator("[data-testid=adapter][data-id='31']").getByTestId("adapter-on").check();
  await page.locator("[data-testid=adapter][data-id='32']").getByTestId("adapter-on").check();
  const scale = page.locator("[data-testid=adapter][data-id='32']").getByTestId("adapter-scale");
  await scale.focus();
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("Escape");
  expect(await page.getByTestId("adapter-pill").textContent()).toContain("support-tone + baker 0.9");
  await send(page, "What is the capital of France?");
  const answer = await lastAnswer(page, "complete");
  expect(await answer.getByTestId("answer-adapters").textContent()).toBe("with support-tone, baker × 0.9");
  await openConversation(page, "Borrow checker");
  expect(await page.getByTestId("adapter-pill").textContent()).toContain("No adapter");
  await openConversation(page, "Rye bread");
  expect(await page.getByTestId("adapter-pill").textContent()).toContain("baker 0.9");
});

test("rated and corrected answers become a dataset", async () => {
  const { page } = await open();
  await pace(page, 0);
  await openConversation(page, "Borrow checker");
  await page.getByTestId("thumb-up").last().click();
  await expect.poll(() => page.getByTestId("thumb-up").last().getAttribute("aria-pressed")).toBe("true");
  await openConversation(page, "SQL");
  await inMenu(answers(page).last(), "correct");
  expect(await page.getByTestId("correction-save").isDisabled()).toBe(true);
  await page.getByTestId("correction-text").fill("Runs of neighbors, found by a difference that stays the same.");
  await page.getByTestId("correction-save").click();
  await expect.poll(() => page.getByTestId("thumb-down").last().getAttribute("aria-pressed")).toBe("true");
  expect(await page.getByTestId("corrected").count()).toBe(1);
  await page.getByTestId("view-tune").click();
  await expect.poll(() => page.getByText("5 answers you rated good or corrected.").count()).toBe(1);
  await page.getByTestId("from-ratings").click();
  await expect.poll(() => page.locator("h1").textContent()).toBe("From your chats");
});
