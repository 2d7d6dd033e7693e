import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import {
  answers,
  drawn,
  fromEnd,
  lastAnswer,
  open,
  openConversation,
  opensAtEnd,
  pace,
  send,
  staysAtEnd,
  useBrowser,
} from "./window";

useBrowser();

const kill = (page: Page) =>
  page.evaluate(() => (window as unknown as { fakeHost: { killWorker: () => void } }).fakeHost.killWorker());

test("a thread that was at its end stays there when an error notice appears and goes", async () => {
  const { page } = await open({ scene: "many", height: 500 });
  await page.getByTestId("open-conversation").first().click();
  await page.getByTestId("message").first().waitFor();
  await opensAtEnd(page);
  await kill(page);
  await page.getByTestId("worker-died").waitFor();
  await staysAtEnd(page);
  expect(await answers(page).last().isVisible()).toBe(true);
  await page.getByRole("button", { name: "Dismiss" }).click();
  await page.getByTestId("worker-died").waitFor({ state: "detached" });
  await staysAtEnd(page);
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
  await staysAtEnd(page);
  expect(await failed.getByTestId("failed").isVisible()).toBe(true);
  // A thread that was scrolled up is left alone.
  await page.getByTestId("thread").hover();
  await page.mouse.wheel(0, -300);
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
  await expect
    .poll(() => articles.last().getAttribute("aria-label"))
    .toBe("Answer by SmolLM2 135M Instruct, 10,000 of 10,000");
  expect(await page.getByRole("article", { name: "You, 9,999 of 10,000", exact: true }).count()).toBe(1);
  // From a control of a message, to the messages above it, also those that were not rendered.
  await articles.last().getByTestId("copy").focus();
  for (const position of ["9,999", "9,998", "9,997", "9,996", "9,995", "9,994", "9,993"]) {
    await page.keyboard.press("PageUp");
    expect(await focused()).toContain(`, ${position} of 10,000`);
    await expect
      .poll(() =>
        page
          .locator("article:focus")
          .evaluate(
            (e) => e.getBoundingClientRect().top - (e.closest("[role=feed]")?.getBoundingClientRect().top ?? 0),
          ),
      )
      .toBeLessThan(500);
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
  await opensAtEnd(page);
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

/** Gives a message of the open library's second conversation a text, and opens it. */
async function openWith(
  page: Page,
  texts: Partial<Record<"user" | "assistant", [piece: string, times: number]>>,
): Promise<void> {
  await page.evaluate((texts) => {
    interface StoredConversation {
      title: string;
      messages: { role: string; parts: object[] }[];
    }
    const { world } = (window as unknown as { fakeHost: { world: { conversations: Map<number, StoredConversation> } } })
      .fakeHost;
    const conversation = [...world.conversations.values()].find(({ title }) => title.startsWith("Rye bread"));
    for (const message of conversation?.messages ?? []) {
      const text = texts[message.role as "user" | "assistant"];
      if (text) message.parts = [{ type: "text", text: text[0].repeat(text[1]) }];
    }
  }, texts);
  await openConversation(page, "Rye bread");
}

test("an answer of many megabytes opens as quickly as a long one, and is copied whole", async () => {
  const { page, errors } = await open();
  const section =
    "## Rye\n\nA **dense** bread that is kept for a week, with a [link](https://example.com/rye) and `code` in its long lines, as answers have them.\n\n- first **item**\n- second item\n\n";
  await openWith(page, { assistant: [section, 30_000] });
  const answer = answers(page).last();
  const more = answer.getByTestId("long-text");
  expect(await more.textContent()).toMatch(/The first 1[12]\d,\d{3} of [45],\d{3},\d{3} characters/);
  const first = await answer.locator(".markdown > p strong").count();
  expect(first).toBeGreaterThan(600);
  expect(first).toBeLessThan(800);
  // All of it is copied.
  await answer.getByTestId("copy").click();
  await expect
    .poll(() => page.evaluate(() => navigator.clipboard.readText().then(({ length }) => length)))
    .toBe(section.length * 30_000);

  await page.keyboard.press("Control+f");
  await page.getByTestId("find-text").fill("dense");
  await expect.poll(() => page.getByTestId("find-count").textContent()).toBe(`1 of ${first}`);
  expect(await page.getByTestId("find-partial").isVisible()).toBe(true);
  expect(await more.getByTestId("show-more").isDisabled()).toBe(true);
  await page.keyboard.press("Escape");
  expect(await more.getByTestId("show-more").isEnabled()).toBe(true);
  expect(errors).toEqual([]);
});

test("a pasted message of many megabytes is shown in steps", async () => {
  const { page, errors } = await open();
  await openWith(page, {
    user: ["A line of a file that was pasted as a message.\n", 700_000],
    assistant: ["Thanks.", 1],
  });
  await page.getByTestId("thread").evaluate((list) => (list.scrollTop = 0));
  const mine = page.locator("[data-testid=message][data-role=user]");
  await mine.waitFor();
  await mine.getByTestId("fold-message").click();
  const shown = async () => (await mine.locator(".markdown").textContent())?.length ?? 0;
  expect(await shown()).toBeLessThanOrEqual(120_000);
  await mine.getByTestId("show-more").click();
  await expect.poll(shown).toBeGreaterThan(200_000);
  expect(errors).toEqual([]);
});

test("an answer of a hundred kilobytes is shown whole, and one that is cut in its code cannot copy part of that", async () => {
  const { page, errors } = await open();
  const paragraph = `${"A sentence of an answer that goes on. ".repeat(12)}\n\n`;
  await openWith(page, { assistant: [paragraph, 230] });
  expect(await answers(page).last().locator("p").count()).toBe(230);
  expect(await page.getByTestId("long-text").count()).toBe(0);
  await page.getByTestId("new-conversation").click();
  await openWith(page, { assistant: [`\`\`\`rust\n${"let dough = knead(&flour, &water);\n".repeat(4_000)}`, 1] });
  await page.getByTestId("long-text").waitFor();
  expect(await page.getByRole("button", { name: "Copy code" }).count()).toBe(0);
  while ((await page.getByTestId("show-more").count()) > 0) await page.getByTestId("show-more").click();
  await page.getByRole("button", { name: "Copy code" }).waitFor();
  expect(errors).toEqual([]);
});
