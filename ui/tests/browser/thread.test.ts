import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { answers, drawn, lastAnswer, open, openConversation, pace, send, useBrowser } from "./window";

useBrowser();

const fromEnd = (page: Page) => page.getByTestId("thread").evaluate((e) => e.scrollHeight - e.scrollTop - e.clientHeight);
const kill = (page: Page) => page.evaluate(() => (window as unknown as { fakeHost: { killWorker: () => void } }).fakeHost.killWorker());

async function stays(page: Page): Promise<void> {
  for (let i = 0; i < 4; i++) {
    await drawn(page);
    expect(await fromEnd(page)).toBeLessThan(2);
  }
  expect(await page.getByTestId("jump-to-latest").count()).toBe(0);
}

test("a thread that was at its end stays there when an error notice appears and goes", async () => {
  const { page } = await open({ scene: "many", height: 500 });
  await page.getByTestId("open-conversation").first().click();
  await page.getByTestId("message").first().waitFor();
  await stays(page);
  await kill(page);
  await page.getByTestId("worker-died").waitFor();
  await stays(page);
  expect(await answers(page).last().isVisible()).toBe(true);
  await page.getByRole("button", { name: "Dismiss" }).click();
  await page.getByTestId("worker-died").waitFor({ state: "detached" });
  await stays(page);
});

test("a thread that was at its end stays there when its answer fails", async () => {
  const { page } = await open({ height: 500 });
  await pace(page, 5);
  await openConversation(page, "Everything markdown");
  await send(page, "Tell me a long story.");
  await lastAnswer(page, "streaming");
  await page.locator("[data-role=assistant] .markdown").last().waitFor();
  await kill(page);
  const failed = await lastAnswer(page, "failed");
  await stays(page);
  expect(await failed.getByTestId("failed").isVisible()).toBe(true);
  // A thread that was scrolled up is left alone.
  await page.getByTestId("thread").evaluate((e) => (e.scrollTop = 100));
  await page.getByTestId("jump-to-latest").waitFor();
  await pace(page, 0);
  await failed.getByTestId("try-again").click();
  await drawn(page);
});

test("every message has a name in the feed, and Page Up and Page Down go from one to the next", async () => {
  const { page } = await open({ scene: "many", height: 500 });
  await page.getByTestId("open-conversation").first().click();
  await page.getByTestId("message").first().waitFor();
  const articles = page.getByTestId("thread").getByRole("article");
  const focused = () => page.evaluate(() => document.activeElement?.getAttribute("aria-label"));
  await expect.poll(() => articles.last().getAttribute("aria-label")).toBe("Answer by SmolLM2 135M Instruct, 10,000 of 10,000");
  expect(await page.getByRole("article", { name: "You, 9,999 of 10,000", exact: true }).count()).toBe(1);
  // From a control of a message, to the messages above it, also those that were not rendered.
  await articles.last().getByTestId("copy").focus();
  for (const position of ["9,999", "9,998", "9,997", "9,996", "9,995", "9,994", "9,993"]) {
    await page.keyboard.press("PageUp");
    expect(await focused()).toContain(`, ${position} of 10,000`);
    await expect.poll(() => page.locator("article:focus").evaluate((e) => e.getBoundingClientRect().top - (e.closest("[role=feed]")?.getBoundingClientRect().top ?? 0))).toBeLessThan(500);
  }
  for (const position of ["9,994", "9,995"]) {
    await page.keyboard.press("PageDown");
    expect(await focused()).toContain(`, ${position} of 10,000`);
  }
  // In a text field the keys belong to the field.
  await page.locator("article:focus").getByTestId("edit").first().click();
  await page.getByTestId("edit-text").waitFor();
  await page.keyboard.press("PageDown");
  expect(await page.evaluate(() => document.activeElement?.tagName)).toBe("TEXTAREA");
});

test("Page Up and Page Down scroll a thread that was clicked, and enter it from the keyboard", async () => {
  const { page } = await open({ scene: "many", height: 500 });
  await page.getByTestId("open-conversation").first().click();
  await page.getByTestId("message").first().waitFor();
  await stays(page);
  const thread = page.getByTestId("thread");
  const inArticle = () => page.evaluate(() => document.activeElement?.matches("article"));
  await thread.click({ position: { x: 4, y: 200 } });
  await page.keyboard.press("PageUp");
  await expect.poll(() => fromEnd(page)).toBeGreaterThan(100);
  expect(await inArticle()).toBe(false);
  await page.getByTestId("composer").focus();
  await thread.focus();
  await page.keyboard.press("PageDown");
  expect(await inArticle()).toBe(true);
});
