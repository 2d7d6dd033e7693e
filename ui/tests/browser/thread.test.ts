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
