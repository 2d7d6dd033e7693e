import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { lastAnswer, open, openSettings, pace, send, USUAL_PACE, useBrowser } from "./window";

useBrowser();

/** Pastes a text into the composer, as the clipboard does. */
async function paste(page: Page, text: string): Promise<void> {
  await page.getByTestId("composer").focus();
  await page.evaluate((text) => {
    const clipboard = new DataTransfer();
    clipboard.setData("text/plain", text);
    const event = new ClipboardEvent("paste", { clipboardData: clipboard, bubbles: true, cancelable: true });
    // A browser inserts no text for an event of a script.
    if (document.activeElement?.dispatchEvent(event)) document.execCommand("insertText", false, text);
  }, text);
}

/** Loads the bundled model with a context of 2,048 tokens. */
async function withSmallContext(page: Page): Promise<void> {
  await openSettings(page, "models");
  await page.getByTestId("context").selectOption("2048");
  await page.getByTestId("reload-model").click();
  await page.getByTestId("view-chat").click();
  await expect.poll(() => page.getByTestId("context-meter").innerText()).toContain("of 2,048");
}

const long = "A line of a log that is pasted into a message.\n".repeat(201);

test("a long pasted text becomes a file, and text at the caret on request", async () => {
  const { page, errors } = await open({ scene: "fresh" });
  await paste(page, "short");
  const composer = page.getByTestId("composer");
  expect(await composer.inputValue()).toBe("short");
  await composer.fill("before after");
  await composer.evaluate((area) => (area as HTMLTextAreaElement).setSelectionRange(7, 7));
  await paste(page, long);
  await paste(page, long);
  const names = () => page.getByTestId("attached").locator("b").allTextContents();
  expect(await names()).toEqual(["Pasted text.txt", "Pasted text 2.txt"]);
  expect(await composer.inputValue()).toBe("before after");
  const toast = page.getByTestId("toast").filter({ hasText: "Pasted text 2.txt" });
  await toast.getByRole("button", { name: "Paste as text" }).click();
  expect(await names()).toEqual(["Pasted text.txt"]);
  expect(await composer.inputValue()).toBe(`before ${long}after`);
  expect(await composer.evaluate((area) => (area as HTMLTextAreaElement).selectionEnd)).toBe(7 + long.length);
  expect(await composer.evaluate((area) => area === document.activeElement)).toBe(true);
  expect(errors).toEqual([]);
});

test("the meter counts the draft, and a larger context takes one that does not fit", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  await withSmallContext(page);
  const meter = page.getByTestId("context-meter");
  const composer = page.getByTestId("composer");
  await composer.fill("word ".repeat(400));
  await expect.poll(() => meter.innerText()).toContain("0 + 500 of 2,048");
  expect(await page.getByTestId("context-warning").count()).toBe(0);
  await composer.fill("word ".repeat(3_200));
  await expect.poll(() => page.getByTestId("context-warning").innerText()).toContain("has 4,000 tokens");
  // Announced once, whatever the number becomes.
  const announced = page.getByTestId("announcer");
  await expect.poll(() => announced.textContent()).toContain("has 4,000 tokens");
  await composer.fill("word ".repeat(3_600));
  await expect.poll(() => page.getByTestId("context-warning").innerText()).toContain("has 4,500 tokens");
  expect(await page.getByTestId("context-warning").innerText()).toContain("256 are kept free for the answer");
  expect(await announced.textContent()).toContain("has 4,000 tokens");
  await composer.fill("word ".repeat(3_200));
  await expect.poll(() => page.getByTestId("context-warning").innerText()).toContain("has 4,000 tokens");
  expect(await meter.getAttribute("class")).toContain("near");
  await page.getByTestId("larger-context").click();
  await expect.poll(() => meter.innerText()).toContain("0 + 4,000 of 8,192");
  expect(await page.getByTestId("context-warning").count()).toBe(0);
  await expect.poll(() => composer.evaluate((area) => area === document.activeElement)).toBe(true);
  await composer.fill("");
  await expect.poll(() => meter.innerText()).toContain("0 of 8,192");
  expect(errors).toEqual([]);
});

test("a message that is too long can be edited or sent again with a larger context", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  await withSmallContext(page);
  await send(page, `Say: Yes. ${"word ".repeat(3_200)}`);
  const answer = await lastAnswer(page, "failed");
  expect(await answer.getByTestId("try-again").count()).toBe(0);
  await answer.getByTestId("edit-question").click();
  await expect.poll(() => page.getByTestId("edit-text").evaluate((area) => area === document.activeElement)).toBe(true);
  await page.keyboard.press("Escape");
  await answer.getByTestId("larger-context").click();
  await answer.getByTestId("try-again").click();
  await lastAnswer(page, "complete");
  expect(errors).toEqual([]);
});

test("a key in a draft of 1 MB causes a bounded amount of work", async () => {
  const { page, errors } = await open();
  await withSmallContext(page);
  const composer = page.getByTestId("composer");
  // The browser takes minutes to insert so long a text by an editing command.
  await composer.evaluate((area) => {
    (area as HTMLTextAreaElement).value = `${"word ".repeat(1_000)}\n`.repeat(200);
    area.dispatchEvent(new Event("input", { bubbles: true }));
  });
  const work = () =>
    page.evaluate(() => {
      const { work } = window as unknown as { work: { measured: number; saved: number; sent: number[] } };
      return work;
    });
  const meter = page.getByTestId("context-meter");
  await expect.poll(() => meter.innerText()).toMatch(/^Context\s+0 \+ 2\d\d,\d{3} of/);
  await page.evaluate(() => {
    const work = { measured: 0, saved: 0, sent: [] as number[] };
    const { fakeHost } = window as unknown as {
      fakeHost: {
        saveUnsent: (...named: unknown[]) => Promise<void>;
        countUnsent: (draft: { text: { inserted: string } }) => Promise<unknown>;
      };
    };
    const [save, count] = [fakeHost.saveUnsent.bind(fakeHost), fakeHost.countUnsent.bind(fakeHost)];
    fakeHost.saveUnsent = (...named) => {
      work.saved++;
      return save(...named);
    };
    fakeHost.countUnsent = (draft) => {
      work.sent.push(draft.text.inserted.length);
      return count(draft);
    };
    const { get } = Object.getOwnPropertyDescriptor(Element.prototype, "scrollHeight")!;
    const area = document.querySelector("[data-testid=composer]")!;
    Object.defineProperty(area, "scrollHeight", {
      get() {
        work.measured++;
        return get!.call(area) as number;
      },
    });
    Object.assign(window, { work });
  });
  await composer.focus();
  await page.keyboard.press("ControlOrMeta+End");
  const start = Date.now();
  for (const key of "twenty keys and more") await page.keyboard.press(key === " " ? "Space" : key);
  await expect.poll(async () => (await work()).sent.reduce((sum, length) => sum + length, 0)).toBe(22);
  const { measured, saved, sent } = await work();
  expect(measured).toBe(0);
  // One save a second, and one in progress.
  expect(saved).toBeLessThanOrEqual(2 + (Date.now() - start) / 1_000);
  expect(sent.length).toBeLessThanOrEqual(20);
  expect(errors).toEqual([]);
});

test("the meter follows an answer, and marks an estimate after an edit without a model", async () => {
  const { page, errors } = await open({ scene: "fresh" });
  await pace(page, USUAL_PACE);
  const meter = page.getByTestId("context-meter");
  const used = async () => Number(/([\d,]+) of/.exec(await meter.innerText())?.[1]?.replace(",", ""));
  await send(page, "Tell me a long story");
  await expect.poll(used).toBeGreaterThan(216);
  const before = await used();
  await expect.poll(used).toBeGreaterThan(before);
  await pace(page, 0);
  const answer = await lastAnswer(page, "complete");
  await expect.poll(() => meter.innerText()).not.toContain("about");
  const complete = await used();
  await answer.getByTestId("edit-answer").click();
  await page.getByTestId("edit-answer-text").fill("A short story.");
  await page.getByTestId("edit-answer-save").click();
  await expect.poll(() => meter.innerText()).toMatch(/(^|\s)9 of/);
  await page.getByTestId("branch-previous").click();
  await expect.poll(used).toBe(complete);
  await page.evaluate(() => {
    const { fakeHost } = window as unknown as { fakeHost: { countUnsent: () => Promise<unknown> } };
    fakeHost.countUnsent = () => Promise.resolve({ type: "unavailable" });
  });
  await answer.getByTestId("edit-answer").click();
  await page.getByTestId("edit-answer-text").fill("Another short story.");
  await page.getByTestId("edit-answer-save").click();
  await expect.poll(() => meter.innerText()).toContain("about 10 of");
  await expect.poll(() => meter.getByRole("meter").getAttribute("aria-valuetext")).toMatch(/^About 10 of/);
  expect(errors).toEqual([]);
});
