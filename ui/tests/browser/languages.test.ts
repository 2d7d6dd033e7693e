// The window in each language and from right to left: nothing is cut or pushed out of the page.

import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { settingsPages } from "../../src/lib/stores/view";
import { drawn, open, openConversation, openSettings, pace, settings, useBrowser } from "./window";

useBrowser();

/** The number of pixels by which the page is wider than the window. */
const overflow = (page: Page) =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

const views: [name: string, show: (page: Page) => Promise<unknown>][] = [
  ["chat", (page) => openConversation(page, "Borrow checker")],
  ["tune", (page) => page.getByTestId("view-tune").click()],
  ["models", (page) => page.getByTestId("view-models").click()],
  ["discover", (page) => page.getByTestId("tab-discover").click()],
  ...settingsPages.map(({ id }): [string, (page: Page) => Promise<unknown>] => [
    `settings ${id}`,
    (page) => openSettings(page, id),
  ]),
];

test.each(["de", "es", "zh-CN", "ar-XB"])("%s fits wide and narrow windows", async (language) => {
  const { page, errors } = await open({ language });
  await pace(page, 0);
  const english = (await page.evaluate(() => document.documentElement.lang)) === "en";
  expect(english).toBe(false);
  expect(await page.evaluate(() => document.documentElement.dir)).toBe(language === "ar-XB" ? "rtl" : "ltr");
  for (const [name, show] of views) {
    await page.setViewportSize({ width: 1180, height: 760 });
    await show(page);
    await drawn(page);
    expect(await overflow(page), `${name}, wide`).toBeLessThanOrEqual(0);
    await page.setViewportSize({ width: 480, height: 760 });
    await drawn(page);
    expect(await overflow(page), `${name}, narrow`).toBeLessThanOrEqual(0);
  }
  expect(errors).toEqual([]);
});

test.each(["en", "de", "es", "zh-CN"])("the keys below the composer are not cut in %s", async (language) => {
  const { page, errors } = await open({ language, width: 1120, height: 760 });
  await pace(page, 0);
  await openConversation(page, "Borrow checker");
  const hint = page.getByTestId("composer-keys");
  const cut = () => hint.evaluate((element) => element.scrollWidth - element.clientWidth);
  expect(await hint.textContent()).not.toBe("");
  expect(await cut()).toBeLessThanOrEqual(0);
  await pace(page, Infinity);
  await page.getByTestId("composer").fill("Tell me a long story.");
  await page.getByTestId("send").click();
  await page.getByTestId("composer").fill("And then?");
  await page.getByTestId("queue-message").waitFor();
  expect(await cut()).toBeLessThanOrEqual(0);
  expect(errors).toEqual([]);
});

test("a chosen language is shown at once, and errors are in it", async () => {
  const { page, errors } = await settings("", "general");
  await page.getByTestId("language").selectOption("de");
  // The label may break at soft hyphens.
  await expect
    .poll(async () => (await page.getByTestId("view-settings").textContent())?.replaceAll("\u00ad", ""))
    .toContain("Einstellungen");
  expect(await page.evaluate(() => document.documentElement.lang)).toBe("de");
  await page.getByTestId("view-chat").click();
  await page.getByTestId("composer").fill("/refuse");
  await page.getByTestId("send").click();
  await expect.poll(() => page.getByTestId("toast").textContent()).toContain("Hier wird noch eine Antwort erzeugt.");
  await page.getByTestId("view-settings").click();
  await page.getByTestId("language").selectOption("en");
  await expect.poll(() => page.getByTestId("view-settings").textContent()).toContain("Settings");
  expect(errors).toEqual([]);
});
