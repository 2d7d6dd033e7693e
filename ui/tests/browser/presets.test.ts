import { expect, test } from "vitest";
import { answers, inMenu, lastAnswer, open, openConversation, pace, send, useBrowser } from "./window";

useBrowser();

type Window = Awaited<ReturnType<typeof open>>["page"];

const temperature = (page: Window) => page.getByTestId("knob-temperature").locator("input");

const chosen = (page: Window) =>
  page.getByTestId("preset").evaluate((select) => (select as HTMLSelectElement).selectedOptions[0]?.textContent);

const names = (page: Window) => page.getByTestId("preset").locator("option").allTextContents();

async function act(page: Window, id: string): Promise<void> {
  await page.getByTestId("preset-menu").click();
  await page.getByTestId(`preset-${id}`).click();
}

async function type(page: Window, name: string): Promise<void> {
  await page.getByTestId("preset-name").fill(name);
  await page.keyboard.press("Enter");
}

test("a new conversation begins with a preset, which says when it is modified", async () => {
  const { page, errors } = await open({ scene: "fresh" });
  await pace(page, 0);
  await page.getByTestId("chat-settings-toggle").click();
  expect(await chosen(page)).toBe("None");
  await page.getByTestId("preset").selectOption({ label: "Creative" });
  await expect.poll(() => temperature(page).inputValue()).toBe("1.1");
  expect(await page.getByTestId("preset-modified").count()).toBe(0);
  await send(page, "What is the capital of France?");
  await lastAnswer(page, "complete");
  await inMenu(answers(page).last(), "details");
  expect(await page.getByTestId("answer-facts").textContent()).toContain("1.1");
  expect(await page.getByTestId("answer-facts").textContent()).toMatch(/Top-k\s*Off/);
  await page.keyboard.press("Escape");
  expect(await chosen(page)).toBe("Creative");
  await temperature(page).fill("0.9");
  await page.keyboard.press("Tab");
  await page.getByTestId("preset-modified").waitFor();
  // Hearth's own cannot be changed or deleted.
  await page.getByTestId("preset-menu").click();
  for (const id of ["update", "rename", "delete"]) expect(await page.getByTestId(`preset-${id}`).count()).toBe(0);
  await page.getByTestId("preset-revert").click();
  await expect.poll(() => temperature(page).inputValue()).toBe("1.1");
  expect(await page.getByTestId("preset-modified").count()).toBe(0);
  await page.getByTestId("preset").selectOption("");
  await expect.poll(() => chosen(page)).toBe("None");
  expect(await temperature(page).inputValue()).toBe("1.1");
  expect(errors).toEqual([]);
});

test("a preset is saved, updated, renamed, deleted and restored", async () => {
  const { page, errors } = await open({ scene: "fresh" });
  await page.getByTestId("chat-settings-toggle").click();
  await temperature(page).fill("0.33");
  await page.getByTestId("chat-settings-prompt").fill("Be brief.");
  await page.keyboard.press("Tab");
  await act(page, "save");
  await type(page, "creative");
  expect(await page.getByTestId("preset-name-problem").textContent()).toContain("already");
  await type(page, "Mine");
  await expect.poll(() => chosen(page)).toBe("Mine");
  expect(await page.getByTestId("preset-name").count()).toBe(0);
  await temperature(page).fill("0.44");
  await page.keyboard.press("Tab");
  await page.getByTestId("preset-modified").waitFor();
  await act(page, "update");
  await expect.poll(() => page.getByTestId("preset-modified").count()).toBe(0);
  await act(page, "rename");
  expect(await page.getByTestId("preset-name").inputValue()).toBe("Mine");
  await page.keyboard.press("Escape");
  expect(await page.getByTestId("chat-settings").count()).toBe(1);
  await act(page, "rename");
  await type(page, "Ours");
  await expect.poll(() => chosen(page)).toBe("Ours");
  await page.getByTestId("chat-settings-reset").click();
  await expect.poll(() => chosen(page)).toBe("None");
  expect(await temperature(page).inputValue()).toBe("");
  await page.getByTestId("preset").selectOption({ label: "Ours" });
  await expect.poll(() => temperature(page).inputValue()).toBe("0.44");
  expect(await page.getByTestId("chat-settings-prompt").inputValue()).toBe("Be brief.");
  // Another preset takes the prompt of this one away.
  await page.getByTestId("preset").selectOption({ label: "Code" });
  await expect.poll(() => page.getByTestId("chat-settings-prompt").inputValue()).toBe("");
  await page.getByTestId("preset").selectOption({ label: "Ours" });
  await act(page, "delete");
  await expect.poll(() => names(page)).not.toContain("Ours");
  expect(await temperature(page).inputValue()).toBe("0.44");
  await page.getByTestId("toast-action").click();
  await expect.poll(() => chosen(page)).toBe("Ours");
  expect(errors).toEqual([]);
});

test("presets are imported and exported, and files that are none are named", async () => {
  const { page, errors } = await open({ scene: "presets" });
  await openConversation(page, "Borrow checker");
  await page.getByTestId("chat-settings-toggle").click();
  await expect
    .poll(() => names(page))
    .toEqual(["None", "Precise", "Balanced", "Creative", "Code", "Short mails", "Storyteller"]);
  expect(await page.getByTestId("preset-broken").textContent()).toMatch(
    /old\.json is no preset\.\s+It was written by a newer Hearth\./,
  );
  await act(page, "import");
  await expect.poll(() => names(page)).toContain("Imported");
  await page.evaluate(() =>
    Object.assign((window as unknown as { fakeHost: object }).fakeHost, { presetFile: "/x/broken.json" }),
  );
  await act(page, "import");
  await page.getByTestId("toast").filter({ hasText: "could not be read as a preset" }).waitFor();
  await page.getByTestId("preset").selectOption({ label: "Short mails" });
  await expect.poll(() => chosen(page)).toBe("Short mails");
  await act(page, "export");
  await page.getByTestId("toast").filter({ hasText: "Written to /home/you/Short mails.json" }).waitFor();
  expect(errors).toEqual([]);
});

test("the command palette applies and saves presets", async () => {
  const { page, errors } = await open({ scene: "presets" });
  await openConversation(page, "Borrow checker");
  await page.keyboard.press("Control+k");
  await page.keyboard.type("preset storyteller");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Control+k");
  await page.keyboard.type("settings as a preset");
  await page.keyboard.press("Enter");
  await page.getByTestId("preset-name").waitFor();
  await expect.poll(() => chosen(page)).toBe("Storyteller");
  await expect.poll(() => page.evaluate(() => document.activeElement?.getAttribute("data-testid"))).toBe("preset-name");
  await type(page, "From the palette");
  await expect.poll(() => chosen(page)).toBe("From the palette");
  expect(errors).toEqual([]);
});
