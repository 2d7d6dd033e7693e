import { expect, test } from "vitest";
import { answers, lastAnswer, open, openConversation, pace, send, useBrowser } from "./window";

useBrowser();

type Window = Awaited<ReturnType<typeof open>>["page"];

const knob = (page: Window, key: string) => page.getByTestId(`knob-${key}`);

async function facts(page: Window): Promise<string> {
  await answers(page).last().getByTestId("details").click();
  const text = (await page.getByTestId("answer-facts").textContent()) ?? "";
  await page.keyboard.press("Escape");
  return text.replace(/\s+/g, " ");
}

test("a new conversation begins with the settings that were chosen, and remembers them", async () => {
  const { page, errors } = await open({ scene: "fresh" });
  await pace(page, 0);
  await page.getByTestId("chat-settings-toggle").click();
  const temperature = knob(page, "temperature");
  expect(await temperature.locator("input").getAttribute("placeholder")).toBe("0.2");
  expect(await temperature.textContent()).toContain("catalog");
  await temperature.locator("input").fill("0,9");
  await knob(page, "maxTokens").locator("input").fill("5");
  await page.getByTestId("chat-settings-prompt").fill("Be brief.");
  await page.keyboard.press("Tab");
  await send(page, "What is the capital of France?");
  await lastAnswer(page, "cut");
  const shown = await facts(page);
  expect(shown).toContain("Temperature 0.9");
  expect(shown).toContain("Length limit 5 tokens");
  expect(await page.getByTestId("chat-settings-prompt").inputValue()).toBe("Be brief.");

  await page.getByTestId("new-conversation").click();
  expect(await temperature.locator("input").inputValue()).toBe("");
  await page.getByTestId("open-conversation").first().click();
  await expect.poll(() => temperature.locator("input").inputValue()).toBe("0.9");
  expect(await temperature.textContent()).toContain("yours");
  await temperature.getByTestId("knob-reset").click();
  expect(await temperature.locator("input").inputValue()).toBe("");
  await page.getByTestId("chat-settings-reset").click();
  await expect.poll(() => page.getByTestId("chat-settings-reset").isDisabled()).toBe(true);
  expect(errors).toEqual([]);
});

test("what is no number or out of range is refused beside its field, and so is what the app refuses", async () => {
  const { page } = await open();
  await openConversation(page, "Borrow checker");
  await page.getByTestId("chat-settings-toggle").click();
  await page.getByTestId("chat-settings-advanced").check();
  for (const [key, text, problem] of [
    ["topP", "1.5", "Must be between 0 and 1."],
    ["topK", "2.5", "Enter a whole number."],
    ["temperature", "NaN", "Not a number."],
    ["temperature", "1e999", "Not a number."],
    ["maxTokens", "-1", "Must be between 1 and 10000000."],
  ] as const) {
    await knob(page, key).locator("input").fill(text);
    await page.keyboard.press("Tab");
    expect(await knob(page, key).getByRole("alert").textContent()).toBe(problem);
    await knob(page, key).getByTestId("knob-reset").click();
    expect(await knob(page, key).getByRole("alert").count()).toBe(0);
  }
});

test("simple or advanced is remembered, and the panel closes by keyboard", async () => {
  const { page } = await open();
  const toggle = page.getByTestId("chat-settings-toggle");
  await toggle.focus();
  await page.keyboard.press("Enter");
  expect(await knob(page, "topK").count()).toBe(0);
  await page.getByTestId("chat-settings-advanced").check();
  await knob(page, "topK").waitFor();
  await page.keyboard.press("Escape");
  expect(await page.getByTestId("chat-settings").count()).toBe(0);
  await expect.poll(() => page.evaluate(() => document.activeElement?.getAttribute("data-testid"))).toBe("chat-settings-toggle");
  await page.keyboard.press("Enter");
  await knob(page, "topK").waitFor();
});

test("stop strings are typed one a line", async () => {
  const { page } = await open();
  await pace(page, 0);
  await openConversation(page, "Borrow checker");
  await page.getByTestId("chat-settings-toggle").click();
  await page.getByTestId("chat-settings-advanced").check();
  await page.getByTestId("chat-settings-stops").fill("END\n\\nUser:\n\n");
  await page.keyboard.press("Tab");
  await expect.poll(() => page.getByTestId("chat-settings-stops").inputValue()).toBe("END\n\\nUser:");
  await send(page, "What is the capital of France?");
  await lastAnswer(page, "complete");
  expect(await facts(page)).toContain('Stop strings "END", "\\nUser:"');
});

test("thinking is switched where the template can, for this conversation", async () => {
  const { page, errors } = await open({ scene: "thinks" });
  await pace(page, 0);
  const think = page.getByTestId("thinking");
  expect(await think.getAttribute("aria-pressed")).toBe("true");
  await send(page, "Think: what is the capital of France?");
  await lastAnswer(page, "complete");
  expect(await page.getByTestId("thought-time").textContent()).toBe("for 3.2 s");
  await think.click();
  expect(await page.getByTestId("thinking-effort").count()).toBe(0);
  await send(page, "Think again: what is the capital of France?");
  await expect.poll(() => answers(page).count()).toBe(2);
  const answer = await lastAnswer(page, "complete");
  expect(await answer.getByTestId("thought").count()).toBe(0);
  expect(await facts(page)).toContain("Thinking off");
  await page.getByTestId("new-conversation").click();
  await expect.poll(() => think.getAttribute("aria-pressed")).toBe("true");
  await page.getByTestId("thinking-effort").selectOption("high");
  await send(page, "Think: what is the capital of France?");
  await lastAnswer(page, "complete");
  expect(await facts(page)).toContain("Effort high");
  expect(await page.getByTestId("thinking-effort").inputValue()).toBe("high");
  expect(errors).toEqual([]);
});

test("a model whose template cannot has no switch", async () => {
  const { page } = await open();
  await page.getByTestId("composer").waitFor();
  expect(await page.getByTestId("thinking").count()).toBe(0);
});
