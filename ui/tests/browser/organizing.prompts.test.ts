// Saved prompts.

import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { inMenu, open, openConversation, openSettings, useBrowser } from "./window";

useBrowser();

const composer = (page: Page) => page.getByTestId("composer");

/** Saves prompts as the app would have them from before. */
async function save(page: Page, ...prompts: [name: string, text: string][]): Promise<void> {
  for (const [name, text] of prompts)
    await page.evaluate(
      ([name, text]) =>
        (
          window as unknown as { fakeHost: { savePrompt: (id: null, name: string, text: string) => Promise<unknown> } }
        ).fakeHost.savePrompt(null, name, text),
      [name, text] as const,
    );
}

const names = (page: Page) => page.getByTestId("prompt-option").locator("b").allTextContents();

test("a slash lists the prompts by name, and keys choose one", async () => {
  const { page, errors } = await open();
  await save(
    page,
    ["shorten", "Make this shorter."],
    ["summary", "Summarize this in three sentences."],
    ["resume", "Write a resume."],
  );
  await composer(page).pressSequentially("/");
  await expect.poll(() => names(page)).toEqual(["/resume", "/shorten", "/summary"]);
  const menu = page.getByRole("listbox", { name: "Saved prompts" });
  expect(await composer(page).getAttribute("aria-controls")).toBe(await menu.getAttribute("id"));
  await composer(page).pressSequentially("su");
  // Those that begin with it come first.
  await expect.poll(() => names(page)).toEqual(["/summary", "/resume"]);
  const active = () => composer(page).getAttribute("aria-activedescendant");
  const first = await active();
  await page.keyboard.press("ArrowDown");
  expect(await active()).not.toBe(first);
  expect(await page.locator(`[id="${await active()}"]`).textContent()).toContain("/resume");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  expect(await composer(page).inputValue()).toBe("Summarize this in three sentences.");
  expect(await page.getByTestId("message").count()).toBe(0);
  expect(await page.getByTestId("prompt-menu").count()).toBe(0);
  // Tab inserts, too.
  await composer(page).fill("/sho");
  await page.keyboard.press("Tab");
  await expect.poll(() => composer(page).inputValue()).toBe("Make this shorter.");
  // Escape closes the list; the text is a message then.
  await composer(page).fill("/s");
  await page.getByTestId("prompt-menu").waitFor();
  await page.keyboard.press("Escape");
  expect(await page.getByTestId("prompt-menu").count()).toBe(0);
  expect(await composer(page).getAttribute("aria-activedescendant")).toBe(null);
  await composer(page).fill("and/or /s");
  expect(await page.getByTestId("prompt-menu").count()).toBe(0);
  expect(errors).toEqual([]);
});

test("variables are asked for, one field each", async () => {
  const { page, errors } = await open();
  await save(page, [
    "translate",
    "Translate into {{language}}, in a {{ tone }} tone. Only {{language}}, and $& stays:\n",
  ]);
  await composer(page).pressSequentially("/tra");
  await page.getByTestId("prompt-option").click();
  const dialog = page.getByTestId("variables-dialog");
  expect(await dialog.locator("label").allTextContents()).toEqual(["language", "tone"]);
  await page.keyboard.type("$& Welsh");
  await page.keyboard.press("Enter");
  await page.keyboard.type("stern");
  await page.keyboard.press("Enter");
  await dialog.waitFor({ state: "detached" });
  expect(await composer(page).inputValue()).toBe(
    "Translate into $& Welsh, in a stern tone. Only $& Welsh, and $& stays:\n",
  );
  await expect.poll(() => page.evaluate(() => document.activeElement?.getAttribute("data-testid"))).toBe("composer");
  // Cancelled, what was typed stays.
  await composer(page).fill("/tra");
  await page.keyboard.press("Enter");
  await dialog.waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  expect(await composer(page).inputValue()).toBe("/tra");
  expect(errors).toEqual([]);
});

test("prompts are made, changed, deleted and restored in their dialog", async () => {
  const { page, errors } = await open();
  await openSettings(page, "chat");
  await page.getByTestId("edit-prompts").click();
  await page.getByTestId("prompt-new").click();
  await page.getByTestId("prompt-name").fill("no/slash");
  await page.getByTestId("prompt-text").fill("Review this {{language}} code.");
  await expect.poll(() => page.getByTestId("prompt-text-hint").textContent()).toContain("language");
  await page.getByTestId("prompt-save").click();
  await expect.poll(() => page.getByTestId("prompt-name-hint").getAttribute("role")).toBe("alert");
  await page.getByTestId("prompt-name").fill("/code review");
  await page.keyboard.press("Enter");
  await page.getByTestId("saved-prompt").waitFor();
  expect(await page.getByTestId("saved-prompt").textContent()).toContain("/code-review");
  await page.getByTestId("prompt-edit").click();
  await page.getByTestId("prompt-name").fill("review");
  await page.getByTestId("prompt-save").click();
  await expect.poll(() => page.getByTestId("saved-prompt").textContent()).toContain("/review");
  await page.getByTestId("prompt-delete").click();
  await expect.poll(() => page.getByTestId("saved-prompt").count()).toBe(0);
  await page.getByTestId("prompt-undo").click();
  await expect.poll(() => page.getByTestId("saved-prompt").count()).toBe(1);
  await page.getByTestId("prompt-insert").click();
  await page.getByTestId("variable").fill("Rust");
  await page.keyboard.press("Enter");
  await expect.poll(() => composer(page).inputValue()).toBe("Review this Rust code.");
  expect(errors).toEqual([]);
});

test("a message becomes a prompt, which the palette inserts after what is typed", async () => {
  const { page, errors } = await open();
  await openConversation(page, "Haiku");
  await inMenu(page.locator("[data-testid=message][data-role=user]"), "save-as-prompt");
  expect(await page.getByTestId("prompt-name").inputValue()).toBe("a-haiku-about");
  await page.keyboard.press("Enter");
  await page.getByTestId("prompt-editor").waitFor({ state: "detached" });
  await composer(page).fill("Please:");
  await page.keyboard.press("Control+k");
  await page.getByTestId("palette-query").fill("a-haiku-about");
  await page.keyboard.press("Enter");
  await expect.poll(() => composer(page).inputValue()).toBe("Please:\nA haiku about a kettle.");
  expect(errors).toEqual([]);
});
