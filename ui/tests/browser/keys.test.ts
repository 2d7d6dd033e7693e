import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import {
  answers,
  lastAnswer,
  open,
  openConversation,
  openSettings,
  pace,
  send,
  useBrowser,
  USUAL_PACE,
} from "./window";

useBrowser();

const focused = (page: Page) => page.evaluate(() => document.activeElement?.getAttribute("data-testid"));

/** The title of the option that `aria-activedescendant` names. */
const active = (page: Page) =>
  page.evaluate(() => {
    const id = document.querySelector("[data-testid=palette-query]")?.getAttribute("aria-activedescendant");
    const option = id ? document.getElementById(id) : null;
    return option?.getAttribute("aria-selected") === "true" ? option.querySelector(".title")?.textContent : null;
  });

async function command(page: Page, query: string): Promise<void> {
  await page.keyboard.press("Control+k");
  await page.getByTestId("palette-query").waitFor();
  await page.keyboard.type(query);
  await page.keyboard.press("Enter");
  await page.getByTestId("palette").waitFor({ state: "detached" });
}

test("the palette finds an action, runs it, and shows it first the next time", async () => {
  const { page, errors } = await open();
  await page.keyboard.press("Control+k");
  expect(await focused(page)).toBe("palette-query");
  const field = page.getByRole("combobox", { name: "Find an action, a model or a conversation" });
  expect(await field.getAttribute("aria-expanded")).toBe("true");
  expect(await page.getByRole("listbox", { name: "Results" }).getAttribute("id")).toBe(
    await field.getAttribute("aria-controls"),
  );
  expect(await active(page)).toBe("New conversation");
  await page.keyboard.press("ArrowDown");
  await expect.poll(() => active(page)).toBe("Search conversations");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("ArrowUp");
  await expect.poll(() => active(page)).toBe("Switch reduced motion");
  await page.keyboard.type("hardw");
  await expect.poll(() => active(page)).toBe("Settings: Hardware");
  expect(await page.getByTestId("palette").getByRole("status").textContent()).toMatch(/^\d results?\.$/);
  expect(await page.getByTestId("palette-item").first().locator("b").textContent()).toBe("Hardw");
  await page.keyboard.press("Enter");
  await page.getByTestId("devices").waitFor();
  await page.keyboard.press("Control+k");
  await expect.poll(() => active(page)).toBe("Settings: Hardware");
  await page.keyboard.type("nothing is called so");
  await page.getByTestId("palette").getByText("Nothing matches").waitFor();
  expect(await field.getAttribute("aria-expanded")).toBe("false");
  await page.keyboard.press("Enter");
  expect(await page.getByTestId("palette").count()).toBe(1);
  await page.keyboard.press("Control+k");
  await page.getByTestId("palette").waitFor({ state: "detached" });
  expect(errors).toEqual([]);
});

test("the palette opens conversations, loads models, and acts on the answer", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  await command(page, "rye");
  await expect.poll(() => answers(page).last().textContent()).toContain("400 g");
  await command(page, "load qwen");
  await expect.poll(() => page.getByTestId("model-pill").textContent()).toContain("Qwen3 0.6B");
  await command(page, "copy last");
  await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toContain("400 g");
  await command(page, "regenerate");
  await expect.poll(() => page.getByTestId("branch").last().textContent()).toContain("2 of 2");
  await lastAnswer(page, "complete");
  await command(page, "light and dark");
  await expect.poll(() => page.evaluate(() => document.documentElement.dataset.theme)).toBe("dark");
  await command(page, "search conv");
  expect(await focused(page)).toBe("search");
  await command(page, "write a m");
  expect(await focused(page)).toBe("composer");
  expect(errors).toEqual([]);
});

test("an action that cannot be done now is not offered", async () => {
  const { page } = await open({ scene: "fresh" });
  await pace(page, USUAL_PACE);
  await page.keyboard.press("Control+k");
  for (const id of ["stop", "regenerate", "copy-answer", "pause-run", "delete-conversation"])
    expect(await page.locator(`[data-testid=palette-item][data-id=${id}]`).count()).toBe(0);
  await page.keyboard.press("Escape");
  await send(page, "Tell me a long story.");
  await lastAnswer(page, "streaming");
  await page.keyboard.press("Control+k");
  await page.locator("[data-testid=palette-item][data-id=stop]").waitFor();
  // Escape closes the palette, and stops the answer only then.
  await page.keyboard.press("Escape");
  await page.getByTestId("palette").waitFor({ state: "detached" });
  await lastAnswer(page, "streaming");
  expect(await focused(page)).toBe("composer");
  await page.keyboard.press("Escape");
  await lastAnswer(page, "stopped");
});

test("shortcuts work from any field and open every view", async () => {
  const { page } = await open();
  await pace(page, 0);
  for (const [key, view] of [
    ["2", "tune"],
    ["3", "models"],
    [",", "settings"],
    ["1", "chat"],
  ]) {
    await page.keyboard.press(`Control+${key}`);
    await expect.poll(() => page.getByTestId(`view-${view}`).getAttribute("aria-current")).toBe("page");
    // The focus is in the view, not lost.
    await expect.poll(() => page.evaluate(() => document.activeElement?.closest("main") !== null)).toBe(true);
  }
  await openConversation(page, "Rye bread");
  const title = () => page.locator("[data-testid=open-conversation][aria-current=true]").textContent();
  const first = await title();
  await page.keyboard.press("Alt+Shift+ArrowDown");
  await expect.poll(title).not.toBe(first);
  await page.keyboard.press("Alt+Shift+ArrowUp");
  await expect.poll(title).toBe(first);
});

const row = (page: Page, id: string) => page.locator(`[data-testid=shortcut][data-id=${id}]`);

test("a key is recorded, and works", async () => {
  const { page, errors } = await open();
  await openSettings(page, "shortcuts");
  await row(page, "new-conversation").getByTestId("change-key").focus();
  await page.keyboard.press("Enter");
  expect(await focused(page)).toBe("record-key");
  await page.keyboard.press("Control+j");
  await expect.poll(() => row(page, "new-conversation").locator("kbd").textContent()).toBe("Ctrl J");
  expect(await page.getByTestId("announcer").textContent()).toBe("New conversation: Ctrl J.");
  expect(await focused(page)).toBe("change-key");
  await page.getByTestId("view-models").click();
  await page.keyboard.press("Control+n");
  expect(await page.getByTestId("view-models").getAttribute("aria-current")).toBe("page");
  await page.keyboard.press("Control+j");
  await page.getByTestId("welcome").waitFor();
  expect(await page.getByTestId("new-conversation").getAttribute("title")).toBe("New conversation (Ctrl J)");
  expect(await page.getByTestId("new-conversation").getAttribute("aria-keyshortcuts")).toBe("Control+J");
  await openSettings(page, "shortcuts");
  await row(page, "new-conversation").getByTestId("reset-key").click();
  await expect.poll(() => row(page, "new-conversation").locator("kbd").textContent()).toBe("Ctrl N");
  expect(errors).toEqual([]);
});

test("a key that is needed or taken is refused or swapped, and Escape changes nothing", async () => {
  const { page } = await open();
  await openSettings(page, "shortcuts");
  const search = row(page, "search");
  const key = (id: string) => row(page, id).locator("kbd").textContent();
  await search.getByTestId("change-key").click();
  await page.keyboard.press("Control+c");
  await expect.poll(() => search.getByTestId("key-refused").textContent()).toContain("Ctrl C copies.");
  await search.getByTestId("change-key").click();
  await page.keyboard.press("Escape");
  expect(await key("search")).toBe("Ctrl Shift F");
  await search.getByTestId("change-key").click();
  await page.keyboard.press("Control+n");
  await expect
    .poll(() => search.getByTestId("key-conflict").textContent())
    .toContain("Ctrl N is the key of “New conversation”. Swap: that action gets Ctrl Shift F.");
  expect(await key("search")).toBe("Ctrl Shift F");
  await search.getByTestId("swap-keys").click();
  await expect.poll(() => key("search")).toBe("Ctrl N");
  expect(await key("new-conversation")).toBe("Ctrl Shift F");
  await search.getByTestId("change-key").click();
  await page.keyboard.press("Backspace");
  await expect.poll(() => search.textContent()).toContain("No key");
  await page.getByTestId("reset-keys").click();
  await expect.poll(() => key("search")).toBe("Ctrl Shift F");
  expect(await page.getByTestId("reset-keys").isDisabled()).toBe(true);
});

test("Enter sends, or begins a line if so chosen", async () => {
  const { page } = await open({ scene: "fresh" });
  await pace(page, 0);
  await openSettings(page, "chat");
  await page.getByTestId("send-modified").check();
  await page.getByTestId("view-chat").click();
  await page.getByTestId("composer").focus();
  await page.keyboard.type("One");
  await page.keyboard.press("Enter");
  await page.keyboard.type("Two");
  expect(await page.getByTestId("composer").inputValue()).toBe("One\nTwo");
  expect(await page.getByText("to send").textContent()).toBe("Ctrl Enter to send, Enter for a new line");
  await page.keyboard.press("Control+Enter");
  await lastAnswer(page, "complete");
});

test("one key press skips the rail and the list, and the focus is not lost when a page opens", async () => {
  const { page } = await open();
  await page.evaluate(() => (document.activeElement as HTMLElement).blur());
  await page.getByTestId("skip").focus();
  expect((await page.getByTestId("skip").boundingBox())?.width).toBeGreaterThan(80);
  await page.keyboard.press("Enter");
  await expect.poll(() => focused(page)).toBe("composer");
  await openSettings(page, "general");
  await page.getByTestId("text-size").focus();
  await command(page, "settings data");
  await page.getByTestId("caches").waitFor();
  await expect.poll(() => page.evaluate(() => document.activeElement?.tagName)).toBe("MAIN");
});

const composed = (page: Page) => page.getByTestId("composer").inputValue();

test("what is typed or pasted anywhere in Chat is written into the message", async () => {
  const { page, errors } = await open();
  await openConversation(page, "Rye bread");
  await page.getByTestId("open-conversation").first().focus();
  await page.keyboard.type("Hi ");
  expect(await composed(page)).toBe("Hi ");
  await page.evaluate(() => navigator.clipboard.writeText("pasted"));
  await page.evaluate(() => (document.activeElement as HTMLElement).blur());
  await page.keyboard.press("Control+v");
  await expect.poll(() => composed(page)).toBe("Hi pasted");
  // A control that has the focus gets its keys.
  await page.getByTestId("chat-settings-toggle").focus();
  await page.keyboard.press("Space");
  await page.getByTestId("chat-settings").waitFor();
  await page.getByTestId("preset").focus();
  await page.keyboard.type("c");
  await page.getByTestId("search").focus();
  await page.keyboard.type("x");
  await page.keyboard.press("Escape");
  expect(await composed(page)).toBe("Hi pasted");
  await page.getByTestId("view-models").click();
  await page.keyboard.type("y");
  await page.getByTestId("view-chat").click();
  expect(await composed(page)).toBe("Hi pasted");
  expect(errors).toEqual([]);
});

test("a new conversation has the focus in its message, also if none was begun", async () => {
  const { page } = await open({ scene: "fresh" });
  await page.getByTestId("new-conversation").focus();
  await page.keyboard.press("Control+n");
  await expect.poll(() => focused(page)).toBe("composer");
});

test("a reload returns to the same place, and a new window begins with a new conversation", async () => {
  const { page, errors } = await open();
  await openConversation(page, "Rye bread");
  await page.reload();
  await expect.poll(() => answers(page).last().textContent()).toContain("400 g");
  await openSettings(page, "shortcuts");
  await page.reload();
  await page.getByTestId("reset-keys").waitFor();
  await page.getByTestId("view-models").click();
  await page.getByTestId("tab-discover").click();
  await page.reload();
  await page.getByTestId("hub-query").waitFor();
  await page.getByTestId("view-tune").click();
  await page.locator("[data-testid=run][data-id='21']").getByTestId("open-run").click();
  await page.getByTestId("run-page").waitFor();
  await page.reload();
  await page.getByTestId("run-page").waitFor();
  await page.getByTestId("view-chat").click();
  await expect.poll(() => answers(page).last().textContent()).toContain("400 g");
  await page.evaluate(() => sessionStorage.clear());
  await page.reload();
  await page.getByTestId("welcome").waitFor();
  expect(errors).toEqual([]);
});
