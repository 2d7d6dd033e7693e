// The thread follows its end until the user scrolls up.

import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import {
  answers,
  compareRun,
  drawn,
  fromEnd,
  inMenu,
  lastAnswer,
  open,
  openConversation,
  opensAtEnd,
  pace,
  send,
  staysAtEnd,
  USUAL_PACE,
  useBrowser,
} from "./window";

useBrowser();

const latest = (page: Page) => page.getByTestId("jump-to-latest");
const openPanel = (page: Page) => page.getByTestId("chat-settings-toggle").click();

/** Opens a conversation that is taller than the window. */
async function openLong(page: Page): Promise<void> {
  await openConversation(page, "Everything markdown");
  await opensAtEnd(page);
}

/** Waits until an answer has grown by some lines. */
async function grows(page: Page): Promise<void> {
  const height = () => page.getByTestId("thread").evaluate((e) => e.scrollHeight);
  const before = await height();
  await expect.poll(height).toBeGreaterThan(before + 60);
}

const ends: [how: string, end: (page: Page) => Promise<unknown>][] = [
  ["is complete", (page) => pace(page, 0)],
  ["is stopped", (page) => page.getByTestId("stop").click()],
  ["is stopped by a key", (page) => page.keyboard.press("Escape")],
];

test.each(ends)("the end is in view with the actions when an answer %s beside the settings", async (_, end) => {
  const { page, errors } = await open({ width: 1120, height: 500 });
  await openLong(page);
  await openPanel(page);
  await pace(page, USUAL_PACE);
  await send(page, "Tell me a long story.");
  await lastAnswer(page, "streaming");
  await grows(page);
  await staysAtEnd(page);
  await end(page);
  await page.getByTestId("send").waitFor();
  await page.getByTestId("regenerate").last().waitFor();
  await staysAtEnd(page);
  expect(errors).toEqual([]);
});

test("the end is followed after a message taller than the window", async () => {
  const { page } = await open({ height: 500 });
  await pace(page, USUAL_PACE);
  await send(page, `Tell me a long story.\n${"A line of mine that is not short.\n".repeat(120)}`);
  await lastAnswer(page, "streaming");
  await staysAtEnd(page);
  await grows(page);
  await staysAtEnd(page);
});

test("the end is followed when two answers are stopped", async () => {
  const { page } = await open({ height: 420 });
  await compareRun(page);
  await pace(page, USUAL_PACE);
  await send(page, "Tell me a long story.");
  await page.locator("[data-role=assistant][data-state=streaming]").first().waitFor();
  await grows(page);
  await page.getByTestId("stop").click();
  await expect.poll(() => page.locator("[data-role=assistant][data-state=stopped]").count()).toBe(2);
  await page.getByTestId("vote").last().waitFor();
  await staysAtEnd(page);
});

const changes: [what: string, change: (page: Page) => Promise<unknown>, undo: (page: Page) => Promise<unknown>][] = [
  ["the settings", openPanel, openPanel],
  ["a comparison", (page) => page.getByTestId("compare").click(), (page) => page.getByTestId("compare").click()],
  [
    "the details",
    async (page) => {
      await inMenu(answers(page).last(), "details");
      await page.getByTestId("answer-details").waitFor();
    },
    (page) => page.keyboard.press("Escape"),
  ],
  [
    "a tall draft",
    (page) => page.getByTestId("composer").fill("A line\n".repeat(9)),
    (page) => page.getByTestId("composer").fill(""),
  ],
  [
    "another window size",
    (page) => page.setViewportSize({ width: 760, height: 620 }),
    (page) => page.setViewportSize({ width: 1120, height: 440 }),
  ],
];

test.each(changes)("the end is followed through %s", async (_, change, undo) => {
  const { page, errors } = await open({ width: 1120, height: 500 });
  await openLong(page);
  await change(page);
  await drawn(page);
  expect(await latest(page).count()).toBe(0);
  await undo(page);
  await staysAtEnd(page);
  expect(errors).toEqual([]);
});

test("the end is followed after a move that no input made", async () => {
  const { page } = await open({ height: 500 });
  await openLong(page);
  // Like a browser that moves the list when rows shrink, and says so after they have grown again.
  await page.getByTestId("thread").evaluate((e) => (e.scrollTop -= 200));
  await opensAtEnd(page);
});

const scrolls: [how: string, up: (page: Page) => Promise<unknown>][] = [
  [
    "the wheel",
    (page) =>
      page
        .getByTestId("thread")
        .hover()
        .then(() => page.mouse.wheel(0, -300)),
  ],
  [
    "a key",
    (page) =>
      page
        .getByTestId("thread")
        .focus()
        .then(() => page.keyboard.press("Home")),
  ],
  [
    "the focus",
    (page) =>
      page
        .getByTestId("thread")
        .locator("a, button")
        .first()
        .evaluate((e) => e.focus()),
  ],
  [
    "the pointer",
    async (page) => {
      // A selection that is drawn beyond the list scrolls it.
      const box = (await page.getByTestId("thread").boundingBox())!;
      await page.mouse.move(box.x + box.width / 2, box.y + box.height - 60);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width / 2, 2, { steps: 4 });
      await expect.poll(() => fromEnd(page)).toBeGreaterThan(100);
      await page.mouse.up();
    },
  ],
];

test.each(scrolls)("scrolling up with %s ends following, and the button to the end covers nothing", async (_, up) => {
  const { page } = await open({ height: 600 });
  await openLong(page);
  await up(page);
  await latest(page).waitFor();
  await pace(page, USUAL_PACE);
  const [thread, pill, foot] = await Promise.all(
    [page.getByTestId("thread"), latest(page), page.getByTestId("composer")].map((one) => one.boundingBox()),
  );
  expect(pill!.y).toBeGreaterThanOrEqual(thread!.y + thread!.height);
  expect(pill!.y + pill!.height).toBeLessThanOrEqual(foot!.y);
  await latest(page).click();
  await opensAtEnd(page);
});

test("an answer that grows moves nothing while the user drags or has scrolled up", async () => {
  const { page } = await open({ height: 500 });
  await openLong(page);
  await pace(page, USUAL_PACE);
  await send(page, "Tell me a long story.");
  await lastAnswer(page, "streaming");
  await grows(page);
  const thread = page.getByTestId("thread");
  const top = () => thread.evaluate((e) => e.scrollTop);
  const box = (await thread.boundingBox())!;
  await page.mouse.move(box.x + 30, box.y + 200);
  await page.mouse.down();
  const held = await top();
  await grows(page);
  expect(await top()).toBe(held);
  await page.mouse.up();
  await staysAtEnd(page);
  // A few pixels are enough.
  await page.mouse.wheel(0, -8);
  await drawn(page);
  const scrolled = await top();
  await grows(page);
  expect(await top()).toBe(scrolled);
  await latest(page).click();
  await pace(page, 0);
  await lastAnswer(page, "complete");
  await staysAtEnd(page);
});

test("a match that is found in the last rows stays in view", async () => {
  const { page } = await open({ height: 500 });
  await openLong(page);
  await page.keyboard.press("Control+f");
  await page.getByTestId("find-text").fill("a");
  await expect.poll(() => page.getByTestId("find-count").textContent()).toMatch(/ of /);
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.press("Shift+Enter");
  const inView = () =>
    page.evaluate(() => {
      const [range] = CSS.highlights.get("find-current") ?? [];
      const view = document.querySelector("[data-testid=thread]")!.getBoundingClientRect();
      const top = range instanceof Range ? range.getBoundingClientRect().top : -1;
      return top >= view.top && top <= view.bottom;
    });
  await expect.poll(inView).toBe(true);
  await drawn(page);
  expect(await inView()).toBe(true);
});
