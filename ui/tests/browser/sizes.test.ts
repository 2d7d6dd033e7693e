// The chat at every text size: no control overlaps another one or leaves the window.

import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { drawn, lastAnswer, open, openConversation, pace, send, USUAL_PACE, useBrowser } from "./window";

useBrowser();

const layoutFaults = readFileSync(new URL("./layoutFaults.js", import.meta.url), "utf8");

/** Gives the models long names. */
async function lengthenNames(page: Page): Promise<void> {
  await page.evaluate(() => {
    interface FakeHost {
      world: { models: { name: string }[] };
      emit: (event: object) => void;
    }
    const { fakeHost } = window as unknown as { fakeHost: FakeHost };
    const models = fakeHost.world.models.map((model) => ({ ...model, name: `${model.name} with a quite long name` }));
    fakeHost.world.models = models;
    fakeHost.emit({ type: "modelsChanged", models });
  });
}

/** Chooses an adapter. */
async function chooseAdapter(page: Page): Promise<void> {
  await page.getByTestId("adapter-pill").click();
  await page.getByTestId("adapter-on").first().check();
  await page.keyboard.press("Escape");
  await page.getByTestId("adapter").first().waitFor({ state: "detached" });
}

const click = (name: string) => (page: Page) => page.getByTestId(name).click();

/** The states of the chat, which are opened in this order. */
const states: [what: string, show: (page: Page) => Promise<unknown>][] = [
  ["a thread", async () => {}],
  ["a long name", lengthenNames],
  ["an adapter", chooseAdapter],
  ["a comparison", click("compare")],
  ["a draft", (page) => page.getByTestId("composer").fill("A line\n".repeat(4))],
  ["the settings", click("chat-settings-toggle")],
  ["the settings without a comparison", (page) => page.getByTestId("compare").click()],
];

/** Window sizes at each text size: the window's own zoom makes the page this many pixels wide. */
const sizes = [1120, 800].flatMap((width) =>
  [100, 150, 175, 200].map((size) => ({
    what: `${width} pixels, ${size} %`,
    width: Math.round((width * 100) / size),
    height: Math.round((760 * 100) / size),
  })),
);

test.each(["en", "de", "es", "zh-CN"])("the keys below a message are named in full in %s", async (language) => {
  const { page } = await open({ language, width: 1120, height: 760 });
  await openConversation(page, "Rye bread");
  const cut = () => page.locator(".composer .hint").evaluate((e) => e.scrollWidth - e.clientWidth);
  expect(await cut()).toBe(0);
  await pace(page, USUAL_PACE);
  await send(page, "Tell me a long story.");
  await lastAnswer(page, "streaming");
  await page.getByTestId("composer").fill("And then?");
  await page.getByTestId("queue-message").waitFor();
  expect(await cut()).toBe(0);
});

test("a toast is within the window at any text size", async () => {
  const { page } = await open();
  await page.evaluate("fakeHost.lockStore(true)");
  const toast = page.getByTestId("toast");
  await toast.waitFor();
  for (const { what, ...size } of sizes) {
    await page.setViewportSize(size);
    await drawn(page);
    const box = (await toast.boundingBox())!;
    expect(box.x, what).toBeGreaterThanOrEqual(0);
    expect(box.x + box.width, what).toBeLessThanOrEqual(size.width);
  }
});

test.each(["en", "de"])(
  "no control overlaps another one or leaves the window at any text size in %s",
  async (language) => {
    const { page, errors } = await open({ language, scene: "organized", ...sizes[0] });
    await pace(page, 0);
    await page.getByTestId("folder-toggle").filter({ hasText: "Home and kitchen" }).click();
    await openConversation(page, "Rye bread");
    const found: Record<string, string[]> = {};
    for (const [state, show] of states) {
      await page.setViewportSize({ width: 1120, height: 760 });
      await show(page);
      for (const { what, ...size } of sizes) {
        await page.setViewportSize(size);
        await drawn(page);
        const faults = (await page.evaluate(`${layoutFaults}; layoutFaults()`)) as string[];
        if (faults.length > 0) found[`${state}, ${what}`] = faults;
      }
    }
    expect(found).toEqual({});
    expect(errors).toEqual([]);
  },
);
