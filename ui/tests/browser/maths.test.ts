import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { attacks, SHOWN } from "../../src/lib/host/fake/formulas";
import { answers, lastAnswer, open, openConversation, pace, send, useBrowser } from "./window";

useBrowser();

/**
 * Milliseconds of the longest time in which the page did nothing else; the whole attack took
 * minutes.
 */
const STALL_LIMIT = 5_000;

/** Begins to watch for times in which the page does not answer. */
async function watch(page: Page): Promise<() => Promise<number>> {
  await page.evaluate(() => {
    const state = { longest: 0, last: performance.now() };
    Object.assign(window, { stalls: state });
    setInterval(() => {
      const now = performance.now();
      state.longest = Math.max(state.longest, now - state.last);
      state.last = now;
    }, 20);
  });
  return () => page.evaluate(() => (window as unknown as { stalls: { longest: number } }).stalls.longest);
}

describe("a stored conversation with formulas that have no end", () => {
  test("opens at once, shows their sources and all others, and opens again", async () => {
    const { page, errors } = await open({ scene: "formulas" });
    const longest = await watch(page);
    await openConversation(page, "Formulas");
    const shown = page.getByTestId("maths");
    await expect.poll(() => shown.count(), { timeout: 120_000 }).toBe(SHOWN);
    expect(await page.locator(".tex").allTextContents()).toEqual(attacks.map((source) => `$$${source}$$`));
    await openConversation(page, "Other");
    await openConversation(page, "Formulas");
    // Typeset formulas are cached, so that the text does not move.
    expect(await shown.count()).toBe(SHOWN);
    expect(await longest()).toBeLessThan(STALL_LIMIT);
    expect(errors).toEqual([]);
  });

  test("leaves the window usable while they are tried", async () => {
    const { page } = await open({ scene: "formulas" });
    const longest = await watch(page);
    await openConversation(page, "Formulas");
    await send(page, "Say: and \\(z^2\\)");
    const answer = await lastAnswer(page, "complete");
    await expect.poll(() => answer.getByTestId("maths").count(), { timeout: 120_000 }).toBe(1);
    expect(await longest()).toBeLessThan(STALL_LIMIT);
  });
});

test("a formula that was shown stays while the answer grows", async () => {
  const { page, errors } = await open({ scene: "fresh" });
  await pace(page, 5);
  await send(page, `Say: First $x^2$ then ${"word ".repeat(60)}`);
  await answers(page).getByTestId("maths").waitFor();
  await page.evaluate(() => {
    const seen: number[] = [];
    Object.assign(window, { seen });
    const look = () => {
      seen.push(document.querySelectorAll("[data-role=assistant] [data-testid=maths]").length);
      requestAnimationFrame(look);
    };
    look();
  });
  await lastAnswer(page, "complete");
  const seen = await page.evaluate(() => (window as unknown as { seen: number[] }).seen);
  expect(seen.length).toBeGreaterThan(1);
  expect(new Set(seen)).toEqual(new Set([1]));
  expect(errors).toEqual([]);
});
