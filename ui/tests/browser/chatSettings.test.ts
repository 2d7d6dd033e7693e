import { expect, test } from "vitest";
import { answers, inMenu, lastAnswer, open, openConversation, pace, send, useBrowser } from "./window";

useBrowser();

type Window = Awaited<ReturnType<typeof open>>["page"];

/** Opens a group of the advanced settings. */
async function group(page: Window, id: string): Promise<void> {
  const toggle = page.locator(`[data-testid=knob-group][data-id=${id}]`).getByTestId("knob-group-toggle");
  if ((await toggle.getAttribute("aria-expanded")) === "false") await toggle.click();
}

const changed = (page: Window, id: string) =>
  page.locator(`[data-testid=knob-group][data-id=${id}]`).getByTestId("knob-group-changed");

const note = (page: Window, id: string) =>
  page.locator(`[data-testid=knob-group][data-id=${id}]`).getByTestId("knob-group-note");

const knob = (page: Window, key: string) => page.getByTestId(`knob-${key}`);

async function facts(page: Window): Promise<string> {
  await inMenu(answers(page).last(), "details");
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
  await lastAnswer(page, "truncated");
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
  for (const id of ["filters", "length", "xtc", "dry"]) await group(page, id);
  for (const [key, text, problem] of [
    ["topP", "1.5", "Must be between 0 and 1."],
    ["topK", "2.5", "Enter a whole number."],
    ["temperature", "NaN", "Not a number."],
    ["temperature", "1e999", "Not a number."],
    ["xtcProbability", "2", "Must be between 0 and 1."],
    ["dryBase", "0.5", "Must be between 1 and 100."],
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
  const filters = page.locator("[data-testid=knob-group][data-id=filters]");
  expect(await filters.count()).toBe(0);
  await page.getByTestId("chat-settings-advanced").check();
  await filters.waitFor();
  expect(await knob(page, "topK").count()).toBe(0);
  await group(page, "filters");
  await knob(page, "topK").waitFor();
  await page.keyboard.press("Escape");
  expect(await page.getByTestId("chat-settings").count()).toBe(0);
  await expect
    .poll(() => page.evaluate(() => document.activeElement?.getAttribute("data-testid")))
    .toBe("chat-settings-toggle");
  await page.keyboard.press("Enter");
  await filters.waitFor();
});

test("texts are added, changed and removed one by one", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  await openConversation(page, "Borrow checker");
  await page.getByTestId("chat-settings-toggle").click();
  await page.getByTestId("chat-settings-advanced").check();
  await group(page, "length");
  const stops = knob(page, "stop");
  const items = () =>
    stops.getByTestId("text-item").evaluateAll((all) => all.map((input) => (input as HTMLInputElement).value));
  for (const text of ["END", "\\nUser:", "END", "late"]) {
    await stops.getByTestId("text-add").fill(text);
    await page.keyboard.press("Enter");
  }
  await expect.poll(items).toEqual(["END", "\\nUser:", "late"]);
  await stops.getByTestId("text-remove").last().click();
  await expect.poll(items).toEqual(["END", "\\nUser:"]);
  expect(await changed(page, "length").textContent()).toBe("1 changed");
  await stops.getByTestId("text-add").fill("é".repeat(600));
  await page.keyboard.press("Enter");
  expect(await stops.getByRole("alert").textContent()).toBe("Must have at most 1024 bytes.");
  await stops.getByTestId("text-add").fill("");
  await send(page, "What is the capital of France?");
  await lastAnswer(page, "complete");
  expect(await facts(page)).toContain('Stop strings "END", "\\nUser:"');

  await group(page, "dry");
  const breakers = knob(page, "dryBreakers");
  const shown = () =>
    breakers.getByTestId("text-item").evaluateAll((all) => all.map((input) => (input as HTMLInputElement).value));
  expect(await shown()).toEqual(["\\n", ":", '"', "*"]);
  for (let left = 4; left > 0; left--) {
    await breakers.getByTestId("text-remove").first().click();
    await expect.poll(async () => (await shown()).length).toBe(left - 1);
  }
  expect(await breakers.textContent()).toContain("None");
  expect(await changed(page, "dry").textContent()).toBe("1 changed");
  await breakers.getByTestId("knob-reset").click();
  await expect.poll(shown).toEqual(["\\n", ":", '"', "*"]);
  expect(await changed(page, "dry").count()).toBe(0);
  expect(errors).toEqual([]);
});

test("a token is biased by its text or its id, or banned", async () => {
  const { page, errors } = await open({ scene: "fresh" });
  await pace(page, 0);
  await page.getByTestId("chat-settings-toggle").click();
  await page.getByTestId("chat-settings-advanced").check();
  await group(page, "bans");
  const newBias = page.getByTestId("bias-new");
  const problem = () => knob(page, "logitBias").getByRole("alert").textContent();
  const type = async (token: string, bias: string) => {
    await newBias.getByTestId("bias-token").fill(token);
    await newBias.getByTestId("bias-amount").fill(bias);
    await page.keyboard.press("Enter");
  };
  await type(" Paris", "2000");
  expect(await problem()).toBe("Bias: Must be between -1000 and 1000.");
  await type("", "1");
  expect(await problem()).toBe("Token: enter its text.");
  await type(" Paris", "-1.5");
  await expect.poll(() => page.getByTestId("bias").count()).toBe(1);
  await newBias.getByTestId("bias-by").selectOption("id");
  await type("x", "ban");
  expect(await problem()).toBe("Token: Not a number.");
  await type("7", "ban");
  await expect.poll(() => page.getByTestId("bias").count()).toBe(2);
  await knob(page, "bannedStrings").getByTestId("text-add").fill("delve");
  await page.keyboard.press("Enter");
  await expect.poll(() => changed(page, "bans").textContent()).toBe("2 changed");
  await page.getByTestId("bias-amount").first().fill("3");
  await page.keyboard.press("Tab");
  await send(page, "What is the capital of France?");
  await lastAnswer(page, "complete");
  const shown = await facts(page);
  expect(shown).toContain('Logit bias " Paris" +3, #7 ban');
  expect(shown).toContain('Banned strings "delve"');
  await page.getByTestId("bias-remove").first().click();
  await page.getByTestId("bias-remove").first().click();
  await expect.poll(() => changed(page, "bans").textContent()).toBe("1 changed");
  expect(errors).toEqual([]);
});

test("a group says what other settings do to it, and an answer shows what made it", async () => {
  const { page, errors } = await open({ scene: "fresh" });
  await pace(page, 0);
  await page.getByTestId("chat-settings-toggle").click();
  await page.getByTestId("chat-settings-advanced").check();
  for (const id of ["filters", "xtc", "mirostat", "dry"]) await group(page, id);
  expect(await note(page, "filters").count()).toBe(0);
  expect(await note(page, "xtc").textContent()).toBe("Off: the probability is 0.");
  expect(await note(page, "dry").textContent()).toBe("Off: the multiplier is 0.");
  await knob(page, "xtcProbability").locator("input").fill("0.5");
  await knob(page, "dryMultiplier").locator("input").fill("0.8");
  await page.keyboard.press("Tab");
  await expect.poll(() => note(page, "xtc").count()).toBe(0);
  await send(page, "What is the capital of France?");
  await lastAnswer(page, "complete");
  const first = await facts(page);
  expect(first).toContain("XTC probability 0.5, threshold 0.1");
  expect(first).toContain("DRY multiplier 0.8, base 1.75");
  await knob(page, "mirostat").locator("select").selectOption("true");
  await expect.poll(() => note(page, "filters").textContent()).toBe("No effect while Mirostat is on.");
  await send(page, "And of Italy?");
  await expect.poll(() => answers(page).count()).toBe(2);
  await lastAnswer(page, "complete");
  const second = await facts(page);
  expect(second).toContain("Mirostat 2 τ 5, η 0.1");
  expect(second).not.toContain("Top-k");
  await knob(page, "temperature").locator("input").fill("0");
  await page.keyboard.press("Tab");
  await expect.poll(() => note(page, "mirostat").textContent()).toContain("temperature 0");
  expect(await page.getByTestId("temperature-note").textContent()).toContain("XTC");
  expect(errors).toEqual([]);
});

test("sampling parameters become the model's defaults, and are taken back", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  await openConversation(page, "Borrow checker");
  await page.getByTestId("chat-settings-toggle").click();
  await page.getByTestId("chat-settings-advanced").check();
  await group(page, "filters");
  const make = page.getByTestId("make-defaults");
  expect(await make.isDisabled()).toBe(true);
  await knob(page, "minP").locator("input").fill("0.2");
  await page.keyboard.press("Tab");
  await expect.poll(() => changed(page, "filters").textContent()).toBe("1 changed");
  await make.click();
  await expect.poll(() => changed(page, "filters").count()).toBe(0);
  await expect.poll(() => make.isDisabled()).toBe(true);
  await openConversation(page, "Rye bread");
  await expect.poll(() => knob(page, "minP").locator("input").getAttribute("placeholder")).toBe("0.2");
  expect(await knob(page, "minP").textContent()).toContain("your default");
  expect(await knob(page, "topP").textContent()).toContain("catalog");
  await send(page, "What is the capital of France?");
  await lastAnswer(page, "complete");
  expect(await facts(page)).toContain("Min-p 0.2");
  await page.getByTestId("forget-defaults").click();
  await expect.poll(() => knob(page, "minP").locator("input").getAttribute("placeholder")).toBe("0.05");
  await page.getByTestId("toast").filter({ hasText: "its own defaults again" }).getByTestId("toast-action").click();
  await expect.poll(() => knob(page, "minP").locator("input").getAttribute("placeholder")).toBe("0.2");
  expect(errors).toEqual([]);
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

test("an answer follows a JSON schema, which is checked as it is typed, and is shown as code", async () => {
  const { page, errors } = await open({ scene: "fresh" });
  await pace(page, 0);
  await page.getByTestId("chat-settings-toggle").click();
  await page.getByTestId("chat-settings-advanced").check();
  await group(page, "schema");
  const field = page.getByTestId("json-schema");
  const hint = page.getByTestId("json-schema-hint");
  await field.fill('{"type": "object"');
  await page.keyboard.press("Tab");
  await expect.poll(() => hint.textContent()).toContain("not valid JSON");
  expect(await changed(page, "schema").count()).toBe(0);
  await field.press("End");
  await field.pressSequentially("}");
  expect(await hint.textContent()).not.toContain("not valid JSON");
  await field.fill("[]");
  await page.keyboard.press("Tab");
  await expect.poll(() => hint.textContent()).toContain("must be a JSON object");
  const note = page.getByTestId("json-schema-note");
  await field.fill('{"required": ["name"]}');
  await page.keyboard.press("Tab");
  await expect.poll(() => note.textContent()).toContain("is read with");
  await field.fill('{"type": "object"}');
  await page.keyboard.press("Tab");
  await expect.poll(() => changed(page, "schema").textContent()).toBe("1 changed");
  await expect.poll(() => note.count()).toBe(0);
  await send(page, "What is the capital of France?");
  await lastAnswer(page, "complete");
  expect(await answers(page).last().locator("pre").count()).toBe(1);
  expect(await facts(page)).toContain('JSON schema {"type": "object"}');
  await field.fill("");
  await page.keyboard.press("Tab");
  await expect.poll(() => changed(page, "schema").count()).toBe(0);
  await send(page, "And of Spain?");
  await expect.poll(() => answers(page).count()).toBe(2);
  await lastAnswer(page, "complete");
  expect(await answers(page).last().locator("pre").count()).toBe(0);
  expect(errors).toEqual([]);
});

test("what is typed when a key opens another conversation stays with the old one", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  await openConversation(page, "Borrow checker");
  await page.getByTestId("chat-settings-toggle").click();
  const prompt = page.getByTestId("chat-settings-prompt");
  const temperature = knob(page, "temperature").locator("input");
  await page.evaluate(
    "(set => fakeHost.setSystemPrompt = (...all) => new Promise((done) => (fakeHost.reply = () => done(set.apply(fakeHost, all)))))(fakeHost.setSystemPrompt)",
  );
  await prompt.fill("Only here.");
  await page.keyboard.press("Control+n");
  await expect.poll(() => prompt.inputValue()).toBe("");
  await page.evaluate("fakeHost.reply()");
  await openConversation(page, "Borrow checker");
  await expect.poll(() => prompt.inputValue()).toBe("Only here.");
  await temperature.fill("0.9");
  await page.keyboard.press("Alt+Shift+ArrowDown");
  await expect.poll(() => temperature.inputValue()).toBe("");
  expect(await prompt.inputValue()).toBe("");
  expect(await page.getByTestId("chat-settings-reset").isDisabled()).toBe(true);
  await openConversation(page, "Borrow checker");
  await expect.poll(() => temperature.inputValue()).toBe("0.9");
  // A key that stays in the conversation leaves the focus.
  await temperature.fill("0.8");
  await page.keyboard.press("Control+=");
  await expect
    .poll(() => page.evaluate(() => Number(document.documentElement.style.getPropertyValue("zoom"))))
    .toBeGreaterThan(1);
  expect(await temperature.evaluate((field) => field === document.activeElement)).toBe(true);
  expect(errors).toEqual([]);
});

test("a conversation with a model of its own shows that model, its adapters and its prompt", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  await openConversation(page, "Rye bread");
  const composer = page.getByTestId("composer");
  const other = (await composer.getAttribute("placeholder")) ?? "";
  expect(other).toContain("SmolLM2");
  await page.getByTestId("adapter-pill").waitFor();
  await page.getByTestId("chat-settings-toggle").click();
  const model = page.getByTestId("chat-settings-model");
  const value = await model.locator("option").filter({ hasText: "Qwen3" }).first().getAttribute("value");
  await model.selectOption(value);
  await expect.poll(() => composer.getAttribute("placeholder")).toContain("Qwen3");
  // The offered adapters belong to the other model, which has none.
  expect(await page.getByTestId("adapter-pill").count()).toBe(0);
  await openConversation(page, "SQL");
  await expect.poll(() => composer.getAttribute("placeholder")).toContain("SmolLM2");
  expect(errors).toEqual([]);
});
