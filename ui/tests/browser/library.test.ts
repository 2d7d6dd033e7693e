import { expect, test } from "vitest";
import { answers, lastAnswer, open, openConversation, openSettings, pace, send, useBrowser } from "./window";

useBrowser();

test("search finds words in messages, marks them and opens the message", async () => {
  const { page } = await open();
  await page.keyboard.press("Control+Shift+f");
  expect(await page.evaluate(() => document.activeElement?.getAttribute("data-testid"))).toBe("search");
  await page.keyboard.type("heating");
  const hit = page.getByTestId("search-hit").first();
  await expect.poll(() => hit.locator("mark").first().textContent()).toBe("heating");
  await page.keyboard.press("Enter");
  await page.getByTestId("message").first().waitFor();
  expect(await answers(page).last().textContent()).toContain("Dear Ms Abel");
  await page.getByTestId("search").fill("nothing has these words");
  await expect.poll(() => page.locator(".state").textContent()).toContain("No results");
  await page.getByTestId("search").press("Escape");
  await expect.poll(() => page.getByTestId("conversation").count()).toBe(8);
});

test("search counts conversations and messages", async () => {
  const { page } = await open();
  const state = page.locator(".state");
  for (const text of ["Say: A zebra.", "Say: One more zebra."]) {
    await page.getByTestId("composer").fill(text);
    await page.keyboard.press("Enter");
    await lastAnswer(page, "complete");
  }
  await page.getByTestId("search").fill("zebra");
  await expect
    .poll(() => state.textContent().then((text) => text?.trim()))
    .toBe("1 conversation found, 4 matching messages");
  await page.getByTestId("search").fill("one more zebra");
  await expect
    .poll(() => state.textContent().then((text) => text?.trim()))
    .toBe("1 conversation found, 2 matching messages");
  // A title alone is no message.
  await page.getByTestId("search").fill("landlord");
  await expect.poll(() => state.textContent().then((text) => text?.trim())).toMatch(/^1 conversation found/);
});

test("search opens the branch of the match", async () => {
  const { page } = await open();
  await page.getByTestId("search").fill("may move while you look");
  await page.getByTestId("search-hit").first().click();
  await expect.poll(() => page.getByTestId("branch").textContent()).toContain("3 of 3");
});

test("deleting can be undone", async () => {
  const { page } = await open();
  await openConversation(page, "Rye bread");
  const item = page.getByTestId("conversation").filter({ hasText: "Rye bread" });
  await item.hover();
  await item.getByTestId("delete").click();
  await expect.poll(() => page.getByTestId("conversation").count()).toBe(7);
  await page.getByTestId("welcome").waitFor();
  await page.getByTestId("toast-action").click();
  await expect.poll(() => page.getByTestId("conversation").count()).toBe(8);
  expect(await answers(page).last().textContent()).toContain("400 g");
});

test("a conversation is renamed in place", async () => {
  const { page } = await open();
  const item = page.getByTestId("open-conversation").filter({ hasText: "Rye bread" });
  await item.focus();
  await page.keyboard.press("F2");
  await page.getByTestId("rename-text").fill("Bread");
  await page.keyboard.press("Enter");
  await expect.poll(() => page.evaluate(() => document.activeElement?.textContent?.trim())).toBe("Bread");
  await page.keyboard.press("F2");
  await page.getByTestId("rename-text").fill("Something else");
  await page.keyboard.press("Escape");
  expect(await page.getByRole("button", { name: "Bread", exact: true }).count()).toBe(1);
});

test("F2 in the empty message field renames the open conversation", async () => {
  const { page, errors } = await open();
  await openConversation(page, "Rye bread");
  await page.getByTestId("search").fill("rye");
  const composer = page.getByTestId("composer");
  await composer.fill("x");
  await composer.press("F2");
  expect(await page.getByTestId("rename-text").count()).toBe(0);
  await composer.fill("");
  await composer.press("Delete");
  await composer.press("F2");
  await page.getByTestId("rename-text").fill("Bread");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Bread", exact: true }).waitFor();
  expect(await page.getByTestId("toast").count()).toBe(0);
  expect(errors).toEqual([]);
});

test("everything works by keyboard alone", async () => {
  const { page } = await open();
  await pace(page, 0);
  await page.keyboard.press("Control+n");
  await page.keyboard.type("What is the capital of France?");
  await page.keyboard.press("Enter");
  await lastAnswer(page, "complete");
  await page.keyboard.press("Control+Shift+f");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await expect.poll(() => answers(page).last().textContent()).toContain("shared borrow");
  await page.getByTestId("search").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Delete");
  await page.getByTestId("toast-action").focus();
  await page.keyboard.press("Enter");
  await expect.poll(() => page.getByTestId("conversation").count()).toBe(9);
  await page.keyboard.press("Control+,");
  await page.getByTestId("theme-dark").waitFor();
});

test("models are loaded, unloaded and added in the picker", async () => {
  const { page } = await open();
  await pace(page, 1);
  const pill = page.getByTestId("model-pill");
  await pill.click();
  await page.locator("[data-testid=model-choice][data-id='qwen3-0.6b']").click();
  await expect.poll(() => pill.textContent()).toContain("Qwen3 0.6B");
  await expect.poll(() => pill.getAttribute("data-state")).toBe("ready");
  await pill.click();
  await page.getByTestId("unload").click();
  await expect.poll(() => pill.getAttribute("data-state")).toBe("none");
  await pill.click();
  await page.keyboard.press("Escape");
  expect(await page.getByTestId("unload").count()).toBe(0);
  expect(await page.getByTestId("add-model").count()).toBe(0);
  await pill.click();
  await page.getByTestId("add-model").click();
  await expect.poll(() => pill.textContent()).toContain("tiny-poet");
});

test("models show their problem and can be removed", async () => {
  const { page } = await open();
  await page.getByTestId("view-models").click();
  const missingModel = page.locator("[data-testid=model-card][data-id='gemma-3-270m']");
  expect(await missingModel.getByTestId("card-problem").textContent()).toContain("cannot be read");
  // It has neither a Load button nor metadata.
  expect(await missingModel.getByTestId("card-load").count()).toBe(0);
  expect(await missingModel.locator("dl").count()).toBe(0);
  await missingModel.getByTestId("card-remove").click();
  await page.getByTestId("remove-confirm").click();
  await expect.poll(() => page.getByTestId("model-card").count()).toBe(2);
  await page.locator("[data-testid=model-card][data-id='qwen3-0.6b']").getByTestId("card-load").click();
  await page.getByText("Loaded in").waitFor();
});

test("asks for a model if there is none", async () => {
  const { page } = await open({ scene: "no-model" });
  await page.getByTestId("composer").fill("Hello");
  expect(await page.getByTestId("send").isDisabled()).toBe(true);
  await page.getByTestId("add-first-model").click();
  await expect.poll(() => page.getByTestId("send").isEnabled()).toBe(true);
  expect(await page.getByTestId("composer").inputValue()).toBe("Hello");
});

test("the theme follows the system until the user chooses one", async () => {
  const { page } = await open({ scheme: "dark" });
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  expect(await paper()).toBe("rgb(25, 23, 20)");
  await page.getByTestId("view-settings").click();
  await page.getByTestId("theme-light").check();
  await expect.poll(paper).toBe("rgb(250, 248, 244)");
  await page.getByTestId("theme-system").check();
  await expect.poll(paper).toBe("rgb(25, 23, 20)");
});

test("settings are saved, and the model can be reloaded with them", async () => {
  const { page } = await open();
  await pace(page, 0);
  await openSettings(page, "models");
  await page.getByTestId("threads").fill("7");
  await page.getByTestId("threads").press("Enter");
  await page.getByTestId("reload-model").click();
  await page.getByTestId("view-chat").click();
  await expect.poll(() => page.getByTestId("device").textContent()).toBe("CPU, 7 threads");
});

test("the system prompt belongs to the conversation", async () => {
  const { page } = await open();
  // Also of a new one, before its first message.
  await page.getByTestId("instructions").click();
  const prompt = page.getByTestId("chat-settings-prompt");
  const isFocused = () => prompt.evaluate((field) => field === document.activeElement);
  await expect.poll(isFocused).toBe(true);
  await page.getByTestId("chat-settings-close").click();
  await openConversation(page, "Rye bread");
  await page.getByTestId("instructions").click();
  await prompt.fill("Answer like a baker.");
  // It stays one place: the button leads to the field of the open panel.
  await page.getByTestId("composer").focus();
  await page.getByTestId("instructions").click();
  await expect.poll(isFocused).toBe(true);
  await openConversation(page, "Borrow checker");
  await expect.poll(() => prompt.inputValue()).toBe("");
  await openConversation(page, "Rye bread");
  await expect.poll(() => prompt.inputValue()).toBe("Answer like a baker.");
});

test("a problem stays until it is dismissed, alone or with all others", async () => {
  const { page } = await open();
  await pace(page, 0);
  await page.clock.install();
  await page.evaluate("fakeHost.lockStore(true)");
  const toasts = page.getByTestId("toast");
  await toasts.waitFor();
  await page.clock.fastForward(60_000);
  expect(await toasts.count()).toBe(1);
  expect(await page.getByTestId("dismiss-problems").count()).toBe(0);
  await toasts.getByRole("button", { name: "Dismiss" }).click();
  await expect.poll(() => toasts.count()).toBe(0);
  await page.evaluate("fakeHost.lockStore(true)");
  await send(page, "/refuse me");
  await expect.poll(() => toasts.count()).toBe(2);
  await page.getByTestId("dismiss-problems").click();
  await expect.poll(() => toasts.count()).toBe(0);
});
