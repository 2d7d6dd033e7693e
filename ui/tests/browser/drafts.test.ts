import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { lastAnswer, open, openSettings, pace, send, useBrowser } from "./window";

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
  await expect.poll(() => page.getByTestId("context-warning").innerText()).toContain("about 4,000 tokens");
  // Announced once, whatever the number becomes.
  const announced = page.getByTestId("announcer");
  await expect.poll(() => announced.textContent()).toContain("about 4,000 tokens");
  await composer.fill("word ".repeat(3_600));
  await expect.poll(() => page.getByTestId("context-warning").innerText()).toContain("about 4,500 tokens");
  expect(await announced.textContent()).toContain("about 4,000 tokens");
  await composer.fill("word ".repeat(3_200));
  await expect.poll(() => page.getByTestId("context-warning").innerText()).toContain("about 4,000 tokens");
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
