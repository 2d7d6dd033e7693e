import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { compareRun, drawn, open, openConversation, openSettings, pace, useBrowser } from "./window";

useBrowser();

const paper = (page: Page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
const size = async (page: Page) => (await page.getByTestId("view-chat").boundingBox())?.height ?? 0;

test("text and controls are scaled in steps, by the setting and by keys", async () => {
  const { page, errors } = await open();
  await openSettings(page, "general");
  const normal = await size(page);
  await page.getByTestId("text-size").selectOption("150");
  await expect.poll(() => size(page)).toBeCloseTo(normal * 1.5, 0);
  await page.keyboard.press("Control+-");
  await expect.poll(() => page.getByTestId("text-size").inputValue()).toBe("125");
  expect(await page.getByTestId("announcer").textContent()).toBe("Text size 125 percent.");
  await page.keyboard.press("Control+=");
  await page.keyboard.press("Control+Shift+Equal");
  await expect.poll(() => page.getByTestId("text-size").inputValue()).toBe("175");
  await page.keyboard.press("Control+0");
  await expect.poll(() => size(page)).toBeCloseTo(normal, 0);
  expect(errors).toEqual([]);
});

// The window's own zoom makes the page this many pixels wide.
test.each([
  ["85 %", 1180 / 0.85, 760 / 0.85],
  ["200 %", 1180 / 2, 760 / 2],
  ["200 % of a small window", 720 / 2, 520 / 2],
])("nothing is cut off at a text size of %s", async (_, width, height) => {
  const { page } = await open({ width: Math.round(width), height: Math.round(height) });
  if (width < 640) await page.getByTestId("toggle-list").click();
  await openConversation(page, "Borrow checker");
  const overflow = () => page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  expect(await overflow()).toBe(0);
  for (const name of ["general", "shortcuts", "about"] as const) {
    await openSettings(page, name);
    expect(await overflow()).toBe(0);
    expect(await page.getByTestId("settings-panel").evaluate((e) => e.scrollWidth - e.clientWidth)).toBe(0);
  }
  for (const view of ["tune", "models"]) {
    await page.getByTestId(`view-${view}`).click();
    expect([view, await overflow()]).toEqual([view, 0]);
  }
  await page.keyboard.press("Control+k");
  const box = await page.getByTestId("palette").boundingBox();
  expect(box?.x ?? -1).toBeGreaterThanOrEqual(0);
  expect((box?.y ?? 0) + (box?.height ?? 0)).toBeLessThanOrEqual(height);
});

test("high contrast by choice, in both themes, and by the system", async () => {
  const { page } = await open();
  await openSettings(page, "general");
  await page.getByTestId("contrast-more").check();
  await expect.poll(() => paper(page)).toBe("rgb(255, 255, 255)");
  await page.getByTestId("theme-dark").check();
  await expect.poll(() => paper(page)).toBe("rgb(0, 0, 0)");
  await page.getByTestId("contrast-system").check();
  await expect.poll(() => paper(page)).toBe("rgb(25, 23, 20)");
  await page.emulateMedia({ contrast: "more" });
  await expect.poll(() => paper(page)).toBe("rgb(0, 0, 0)");
});

test("reduced motion by choice ends every animation and transition", async () => {
  const { page } = await open({ motion: "no-preference" });
  await openSettings(page, "general");
  const slow = () =>
    page.evaluate(() =>
      Math.max(
        ...[...document.querySelectorAll("*")].map((e) => Number.parseFloat(getComputedStyle(e).transitionDuration)),
      ),
    );
  expect(await slow()).toBeGreaterThan(0.05);
  await page.getByTestId("motion-reduce").check();
  await expect.poll(slow).toBeLessThan(0.001);
});

test("in a narrow window the list of conversations opens by button and by key", async () => {
  const { page } = await open({ width: 560 });
  const list = page.getByTestId("conversations");
  expect(await list.isVisible()).toBe(false);
  await page.keyboard.press("Control+Shift+f");
  await list.waitFor();
  expect(await page.evaluate(() => document.activeElement?.getAttribute("data-testid"))).toBe("search");
  await page.keyboard.press("Escape");
  await list.waitFor({ state: "hidden" });
  expect(await page.evaluate(() => document.activeElement?.getAttribute("data-testid"))).toBe("toggle-list");
  await page.keyboard.press("Enter");
  await list.waitFor();
  await openConversation(page, "Rye bread");
  await list.waitFor({ state: "hidden" });
});

test("the buttons of a narrow top bar keep their distance, while two answers are compared", async () => {
  const { page, errors } = await open({ width: 480, height: 700 });
  await pace(page, 0);
  await compareRun(page);
  for (const width of [480, 520, 560, 600, 640, 680, 720, 800, 900, 1180]) {
    await page.setViewportSize({ width, height: 700 });
    await drawn(page);
    const boxes = await page.locator("main header").evaluate((bar) =>
      [...bar.children]
        .map((e) => e.getBoundingClientRect())
        .filter(({ width }) => width > 0)
        .map(({ left, right, top, height }) => [left, right, top + height / 2]),
    );
    const contents = await page
      .locator("main header")
      .evaluate((bar) => [...bar.querySelectorAll("button")].map((e) => e.scrollWidth - e.clientWidth));
    for (const [at, [left = 0, , middle = 0]] of boxes.entries()) {
      const [, right = 0, before = middle] = boxes[at - 1] ?? [];
      // The second row begins on the left.
      if (at > 0 && middle < before + 10) expect([width, at, left - right >= 2]).toEqual([width, at, true]);
    }
    expect([width, Math.max(...contents)]).toEqual([width, 0]);
  }
  expect(errors).toEqual([]);
});
