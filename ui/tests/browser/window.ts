// One browser per test file, and the helpers that tests share.

import type { Browser, Locator, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, inject } from "vitest";
import { openPage, showPage, startBrowser, type WindowOptions } from "../../scripts/browser.mjs";
import type { SettingsPage } from "../../src/lib/stores/view";
import { recordRendered } from "./rendered";
import { ReusedPage } from "./reuse";

/**
 * The default of the page in milliseconds per token and step (`src/lib/host/fake/base.ts`). A long
 * story then takes 18 seconds, so that a test can act meanwhile.
 */
export const USUAL_PACE = 24;

let browser: Browser;
/** Whether each page has a separate context. */
let isolated = false;
let reused: ReusedPage | undefined;
/** Whether the running test has the reused page. */
let isTaken = false;
const closing: (() => Promise<void>)[] = [];

/**
 * Starts a browser for the file. Its tests use one page in turn, or new contexts if they are about
 * what a page keeps.
 */
export function useBrowser(pages: "reused" | "isolated" = "reused"): void {
  isolated = pages === "isolated";
  recordRendered();
  beforeAll(async () => {
    browser = await startBrowser();
  });
  afterEach(async () => {
    isTaken = false;
    await Promise.all(closing.splice(0).map((close) => close()));
  });
  afterAll(() => browser.close());
}

/**
 * Opens the page on a scene; `errors` collects the console errors for the test to check. The fake
 * host answers at once unless the scene or the test sets a pace.
 */
export async function open(options: WindowOptions = {}): Promise<{ page: Page; errors: string[] }> {
  const opened = await show(options);
  await opened.page.evaluate((defaults) => {
    const { fakeHost } = window as unknown as { fakeHost: { pace: number } };
    if (fakeHost.pace === defaults) fakeHost.pace = 0;
  }, USUAL_PACE);
  return opened;
}

async function show(options: WindowOptions): Promise<{ page: Page; errors: string[] }> {
  const address = inject("address");
  if (isolated || isTaken) {
    const { page, errors, close } = await openPage(browser, address, options);
    closing.push(close);
    return { page, errors };
  }
  isTaken = true;
  if (!(await reused?.reset(options))) {
    await reused?.close();
    reused = await ReusedPage.open(browser, address, options);
  }
  const { page } = reused!;
  return { page, errors: await showPage(page, address, options) };
}

/**
 * Opens the page on another scene or in another language, instead of the page that the test has.
 */
export function reopen(options: WindowOptions): ReturnType<typeof open> {
  isTaken = false;
  return open(options);
}

export async function send(page: Page, text: string): Promise<void> {
  await page.getByTestId("composer").fill(text);
  await page.getByTestId("send").click();
}

/** Opens a past run and compares its adapter with the base model. */
export async function compareRun(page: Page): Promise<void> {
  await page.getByTestId("view-tune").click();
  await page.locator("[data-testid=run][data-id='21']").getByTestId("open-run").click();
  await page.getByTestId("try-it").click();
  await page.getByTestId("compare-welcome").waitFor();
  await send(page, "My order is late, what now?");
  await expect.poll(() => page.getByTestId("vote").count()).toBe(2);
}

export function answers(page: Page): Locator {
  return page.locator("[data-testid=message][data-role=assistant]");
}

/** Chooses an action in the menu of a message. */
export async function inMenu(message: Locator, action: string): Promise<void> {
  await message.getByTestId("message-menu").click();
  await message.getByTestId(action).click();
}

/** Waits until the last answer is in a state. */
export async function lastAnswer(page: Page, state: string): Promise<Locator> {
  const last = answers(page).last();
  await expect.poll(() => last.getAttribute("data-state"), { timeout: 60_000 }).toBe(state);
  return last;
}

export async function openConversation(page: Page, title: string): Promise<void> {
  await page.getByTestId("open-conversation").filter({ hasText: title }).click();
  await page.getByTestId("message").first().waitFor();
}

/**
 * Sets the milliseconds per token and step; `Infinity` holds the host's work, which a later pace
 * continues.
 */
export async function pace(page: Page, ms: number): Promise<void> {
  await page.evaluate(
    (value) => Object.assign((window as unknown as { fakeHost: object }).fakeHost, { pace: value }),
    ms,
  );
}

/**
 * Waits until the page has drawn what it knows: a frame begins before it is drawn, so two of them.
 */
export async function drawn(page: Page): Promise<void> {
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
}

/** Waits until nothing moves but what never ends, such as a spinner. */
export async function still(page: Page): Promise<void> {
  await page.waitForFunction(() =>
    document
      .getAnimations()
      .every(({ playState, effect }) => playState !== "running" || effect?.getComputedTiming().iterations === Infinity),
  );
}

/** Opens a page of Settings. */
export async function openSettings(page: Page, name: SettingsPage): Promise<void> {
  await page.getByTestId("view-settings").click();
  await page.getByTestId(`settings-page-${name}`).click();
}

/** Opens a page of Settings on a scene, after Hardware has found the devices. */
export async function settings(
  scene: string,
  name: SettingsPage = "hardware",
): Promise<{ page: Page; errors: string[] }> {
  const window = await open({ scene, height: 1400 });
  await pace(window.page, 0);
  await openSettings(window.page, "hardware");
  await window.page.getByTestId("device-row").first().waitFor();
  if (name !== "hardware") await openSettings(window.page, name);
  return window;
}

/** The card of a device. */
export function row(page: Page, id: string): Locator {
  return page.locator(`[data-testid=device-row][data-id=${id}]`);
}

/** The distance of the thread from its end in pixels. */
export function fromEnd(page: Page): Promise<number> {
  return page.getByTestId("thread").evaluate((e) => e.scrollHeight - e.scrollTop - e.clientHeight);
}

/** Checks that the thread is at its end and stays there. */
export async function staysAtEnd(page: Page): Promise<void> {
  for (let i = 0; i < 4; i++) {
    await drawn(page);
    expect(await fromEnd(page)).toBeLessThan(2);
  }
  expect(await page.getByTestId("jump-to-latest").count()).toBe(0);
}

/** Waits until a thread that was opened is at its end: its rows are measured in the first frames. */
export async function opensAtEnd(page: Page): Promise<void> {
  await expect.poll(() => fromEnd(page)).toBeLessThan(2);
  await staysAtEnd(page);
}
