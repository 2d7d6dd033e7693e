import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { lastAnswer, open, openConversation, openSettings, pace, row, send, settings, useBrowser } from "./window";

useBrowser();

const bar = (page: Page, id: string) => page.locator(`[data-testid=plan-device][data-id=${id}]`).getByRole("img");

/** Width of a part of a device's bar, in pixels. */
const width = (page: Page, id: string, part: string) =>
  bar(page, id)
    .locator(`[data-part=${part}]`)
    .evaluate((e) => e.getBoundingClientRect().width);

test("moving the slider redraws the bars and loads nothing", async () => {
  const { page, errors } = await settings("two-gpus", "models");
  const slider = page.getByTestId("layers");
  await slider.focus();
  const all = await width(page, "gpu0", "weights");
  for (let i = 0; i < 16; i++) await page.keyboard.press("ArrowLeft");
  await expect.poll(() => page.getByTestId("layers-value").textContent()).toBe("15 of 31 layers on the GPU");
  expect(await slider.getAttribute("aria-valuetext")).toBe("15 of 31 layers on the GPU");
  // Plans of the positions on the way may be drawn first.
  await expect
    .poll(() => bar(page, "gpu0").getAttribute("aria-label"))
    .toMatch(/^NVIDIA GeForce RTX 4070 of 12\.9 GB: .*Weights 61 MB.* It fits\.$/);
  expect(await bar(page, "cpu").getAttribute("aria-label")).toContain("Weights 66 MB");
  await expect.poll(() => width(page, "gpu0", "weights")).toBeLessThan(all * 0.8);
  await page.keyboard.press("Home");
  await expect.poll(() => page.getByTestId("plan-device").count()).toBe(1);
  await openSettings(page, "hardware");
  expect(await page.getByTestId("choice-device").textContent()).toContain("31 of 31 layers");
  // Settings that are not applied are marked in the list of pages.
  await page.getByTestId("settings-page-models").getByLabel("not applied").waitFor();
  await openSettings(page, "models");
  await page.getByTestId("layers-auto").check();
  await expect.poll(() => page.getByTestId("reload-model").count()).toBe(0);
  expect(errors).toEqual([]);
});

test("one click reloads the model with the changes and keeps the conversation", async () => {
  const { page } = await open({ scene: "two-gpus" });
  await pace(page, 0);
  await openConversation(page, "Rye bread");
  await openSettings(page, "models");
  await page.getByTestId("layers").fill("12");
  await page.getByTestId("kv-q8_0").check();
  await page.getByTestId("reload-model").click();
  await page.getByTestId("reload-model").waitFor({ state: "detached" });
  await page.getByTestId("view-chat").click();
  await expect
    .poll(() => page.getByTestId("device").textContent())
    .toBe("NVIDIA GeForce RTX 4070, 12 of 31 layers, 2 threads");
  await send(page, "And salt?");
  await lastAnswer(page, "complete");
  expect(await page.getByTestId("message").count()).toBe(4);
});

test("a draft is chosen for a model, planned, and applied with the reload", async () => {
  const { page, errors } = await settings("drafts", "models");
  const draft = page.getByTestId("draft");
  const hint = () => page.getByTestId("draft-hint").textContent();
  expect(await draft.locator("option").allTextContents()).toEqual([
    "Automatic",
    "Off",
    "Own first layers",
    "Qwen3 Draft 120M (120M)",
  ]);
  expect(await draft.inputValue()).toBe("auto");
  expect(await hint()).toContain("N-gram lookup drafts the next tokens");
  await page.getByTestId("plan-verdict").waitFor();
  expect(await bar(page, "cpu").locator("[data-part=draft]").count()).toBe(0);
  await draft.selectOption("model:qwen3-draft-120m");
  await expect.poll(() => bar(page, "cpu").getAttribute("aria-label")).toContain("Draft 127 MB");
  expect(await hint()).toContain("Qwen3 Draft 120M drafts the next tokens");
  await page.getByTestId("reload-model").click();
  await page.getByTestId("reload-model").waitFor({ state: "detached" });
  await page.getByTestId("view-models").click();
  const card = (id: string) => page.locator(`[data-testid=model-card][data-id='${id}']`);
  await expect.poll(() => card("qwen3-0.6b").textContent()).toContain("speculative decoding: draft model.");
  expect(await card("qwen3-0.6b").getByTestId("card-drafts").textContent()).toContain("Drafts: Qwen3 Draft 120M.");
  expect(await card("qwen3-draft-120m").getByTestId("card-drafts").textContent()).toContain(
    "Can draft for: Qwen3 0.6B.",
  );
  expect(await card("smollm2-135m-instruct").getByTestId("card-drafts").count()).toBe(0);
  // Another model has its own choice.
  await card("smollm2-135m-instruct").getByTestId("card-load").click();
  await page.getByTestId("view-settings").click();
  await expect.poll(() => draft.inputValue()).toBe("auto");
  await expect.poll(hint).toContain("Saved for SmolLM2 135M Instruct.");
  expect(errors).toEqual([]);
});

test("a draft model that was removed is reported, and the model is loaded without it", async () => {
  const { page, errors } = await settings("drafts", "models");
  await page.getByTestId("draft").selectOption("model:qwen3-draft-120m");
  await page.getByTestId("reload-model").click();
  await page.getByTestId("reload-model").waitFor({ state: "detached" });
  await page.getByTestId("view-models").click();
  const card = (id: string) => page.locator(`[data-testid=model-card][data-id='${id}']`);
  await card("qwen3-draft-120m").getByTestId("card-remove").click();
  await page.getByTestId("remove-confirm").click();
  await card("qwen3-0.6b").getByTestId("card-unload").click();
  await card("qwen3-0.6b").getByTestId("card-load").click();
  await expect
    .poll(() => card("qwen3-0.6b").getByTestId("draft-problem").textContent())
    .toContain("no longer in the library");
  expect(await card("qwen3-0.6b").textContent()).toContain("speculative decoding: n-gram lookup.");
  await page.getByTestId("view-settings").click();
  await expect.poll(() => page.getByTestId("draft-problem").textContent()).toContain("N-gram lookup is used instead.");
  expect(await page.getByTestId("draft").locator("option:checked").textContent()).toBe("Missing model (not usable)");
  expect(errors).toEqual([]);
});

test("a plan that does not fit says so and offers a fix", async () => {
  const { page } = await settings("too-big", "models");
  const verdict = page.getByTestId("plan-verdict");
  await page.getByTestId("layers").fill("31");
  await expect.poll(() => verdict.getAttribute("data-verdict")).toBe("wontFit");
  expect(await page.locator("[data-testid=plan-device][data-id=gpu0]").textContent()).toContain(
    "over its total memory",
  );
  await page.getByTestId("view-models").click();
  const fit = (id: string) =>
    page.locator(`[data-testid=model-card][data-id='${id}']`).getByTestId("card-fit").getAttribute("data-verdict");
  await expect.poll(() => fit("llama-3.3-70b")).toBe("wontFit");
  await expect.poll(() => fit("qwen3-0.6b")).toBe("fits");
});

test.each(["less-context", "fewer-layers"])("one click makes an almost fitting plan fit: %s", async (offer) => {
  const { page } = await settings("too-big", "models");
  await page.getByTestId("view-models").click();
  await page.locator("[data-testid=model-card][data-id='qwen3-0.6b']").getByTestId("card-load").click();
  await page.getByTestId("view-settings").click();
  await page.getByTestId("context").selectOption("65536");
  await page.getByTestId("layers").fill("29");
  const verdict = page.getByTestId("plan-verdict");
  await expect.poll(() => verdict.getAttribute("data-verdict")).toBe("fitsWithLessContext");
  await page.getByTestId(offer).click();
  await expect.poll(() => verdict.getAttribute("data-verdict")).toBe("fits");
});

test("one click chooses a device, and another returns to Automatic", async () => {
  const { page } = await settings("two-gpus");
  const chat = page.getByTestId("choice-device");
  expect(await chat.textContent()).toContain("NVIDIA GeForce RTX 4070 (CUDA)");
  await row(page, "cpu").getByTestId("use-for-chat").click();
  await expect.poll(() => chat.textContent()).toMatch(/Intel Core i7-13700K\s*Chosen by you/);
  await openSettings(page, "models");
  await expect.poll(() => page.getByTestId("layers").count()).toBe(0);
  await openSettings(page, "hardware");
  await row(page, "gpu1").getByTestId("use-for-training").click();
  await expect.poll(() => page.getByTestId("choice-trainingDevice").textContent()).toContain("Intel UHD Graphics 770");
  await chat.getByTestId("choose-auto").click();
  await expect.poll(() => chat.textContent()).toContain("31 of 31 layers on a GPU");
  expect(await row(page, "gpu1").getByTestId("use-for-training").getAttribute("aria-pressed")).toBe("true");
});

test("memory and load are live", async () => {
  const { page } = await settings("two-gpus");
  const load = row(page, "gpu0").getByRole("meter", { name: "Load" });
  const before = await load.getAttribute("aria-valuetext");
  await expect.poll(() => load.getAttribute("aria-valuetext")).not.toBe(before);
});

test("a measurement shows progress, is saved and can be stopped", async () => {
  const { page } = await settings("two-gpus", "models");
  await pace(page, Number.POSITIVE_INFINITY);
  await page.getByTestId("measure").click();
  await page.getByTestId("stop-measuring").click();
  await pace(page, 0);
  await expect.poll(() => page.getByTestId("measure-failed").textContent()).toContain("Nothing was saved");
  await page.getByTestId("measure").click();
  await page.getByTestId("measurements").waitFor();
  const rows = () => page.getByTestId("measurements").locator("tbody tr").allTextContents();
  const first = /SmolLM2.*RTX 4070 *2 *f16.*4,630 tokens\/s.*352 tokens\/s.*Today/s;
  expect(await rows()).toEqual([expect.stringMatching(first)]);
  // Another thread count is another measurement.
  await page.getByTestId("threads").fill("7");
  await page.keyboard.press("Tab");
  await page.getByTestId("reload-model").click();
  await page.getByTestId("reload-model").waitFor({ state: "detached" });
  await expect.poll(() => page.getByTestId("measure").isEnabled()).toBe(true);
  await page.getByTestId("measure").click();
  await expect.poll(rows).toEqual([expect.stringMatching(/RTX 4070 *7 *f16/), expect.stringMatching(first)]);
});

test("clearing a cache asks for confirmation, and the prompt cache respects its limit", async () => {
  const { page, errors } = await settings("two-gpus", "data");
  const cache = (id: string) => page.locator(`[data-testid=cache][data-cache=${id}]`);
  const size = (id: string) => cache(id).getByTestId("cache-size").textContent();
  await expect.poll(() => size("prompts")).toBe("1.3 GB used");
  await page.getByTestId("prompt-cache-limit").selectOption("1000000000");
  await expect.poll(() => size("prompts")).toBe("1 GB used");
  await cache("prompts").getByTestId("clear-cache").click();
  expect(await page.getByTestId("clear-dialog").textContent()).toContain("frees 1 GB. No conversation is deleted.");
  await page.keyboard.press("Escape");
  expect(await size("prompts")).toBe("1 GB used");
  await cache("prompts").getByTestId("clear-cache").click();
  await page.getByTestId("clear-confirm").click();
  await expect.poll(() => size("prompts")).toBe("Empty");
  expect(await size("weights")).toBe("92 MB used");
  await cache("weights").getByTestId("clear-cache").click();
  await page.getByTestId("clear-confirm").click();
  await expect.poll(() => cache("weights").getByTestId("clear-cache").isDisabled()).toBe(true);
  await page.getByTestId("prompt-cache-limit").selectOption("0");
  await page.getByTestId("view-chat").click();
  await page.getByTestId("view-settings").click();
  expect(await page.getByTestId("prompt-cache-limit").inputValue()).toBe("0");
  expect(errors).toEqual([]);
});

test("copies the report", async () => {
  const { page } = await settings("software-gpu", "about");
  await page.getByTestId("copy-report").click();
  await expect.poll(() => page.getByTestId("copy-report").textContent()).toBe("Copied");
  expect(await page.evaluate(() => navigator.clipboard.readText())).toContain("llvmpipe");
});

test.each([
  ["no-gpu", "no-gpu", "No usable GPU found"],
  ["software-gpu", "devices", "never selected automatically."],
  ["driver-crashed", "device-problem", "crashed (signal 11)"],
])("says what kind of machine it is: %s", async (scene, id, text) => {
  const { page } = await settings(scene);
  expect(await page.getByTestId(id).textContent()).toContain(text);
  expect(await page.getByTestId("choice-device").textContent()).toContain("AMD Ryzen 7 7840U");
  expect(await page.getByTestId("choice-trainingDevice").textContent()).toContain("AMD Ryzen 7 7840U");
  await openSettings(page, "models");
  expect(await page.getByTestId("layers").count()).toBe(0);
  await expect.poll(() => page.getByTestId("plan-verdict").getAttribute("data-verdict")).toBe("fits");
});

test("a software renderer is used only when chosen", async () => {
  const { page } = await settings("software-gpu");
  await row(page, "gpu0").getByTestId("use-for-chat").click();
  await openSettings(page, "models");
  await page.getByTestId("layers").waitFor();
  await openSettings(page, "hardware");
  await expect.poll(() => page.getByTestId("choice-device").textContent()).toMatch(/llvmpipe.*Chosen by you/);
});

test("shows a slow plan, a worker that does not answer, and a missing model", async () => {
  const { page } = await open({ scene: "slow" });
  await openSettings(page, "models");
  expect(await page.getByTestId("plan-waiting").textContent()).toContain("SmolLM2");
  await page.getByTestId("plan-verdict").waitFor();
  const none = await settings("no-model", "models");
  await none.page.getByTestId("plan-none").waitFor();
  expect(await none.page.getByTestId("measure").isDisabled()).toBe(true);
  await openSettings(none.page, "hardware");
  await none.page.evaluate(() =>
    Object.assign((window as unknown as { fakeHost: object }).fakeHost, {
      devices: () =>
        Promise.reject({ code: "workerDied", reason: { area: "detail", detail: "The driver of the GPU crashed." } }),
    }),
  );
  await expect
    .poll(() => none.page.getByTestId("devices-failed").textContent())
    .toContain("The driver of the GPU crashed.");
});

test("the pages open by click and by arrow keys, and the last one opens again", async () => {
  const { page, errors } = await open();
  await page.getByTestId("view-settings").click();
  const on = () => page.getByTestId("settings-panel").getAttribute("data-page");
  expect(await on()).toBe("general");
  // The General page does not detect devices.
  expect(await page.getByTestId("devices").count()).toBe(0);
  await page.getByRole("tab", { name: "General" }).focus();
  const seen = [];
  for (const key of ["ArrowUp", "Home", "ArrowDown", "ArrowRight", "ArrowLeft", "End"]) {
    await page.keyboard.press(key);
    const focused = await page.evaluate(() => document.activeElement?.textContent?.trim());
    expect(focused).toBe(await page.getByRole("tab", { selected: true }).innerText());
    seen.push(await on());
  }
  expect(seen).toEqual(["about", "general", "chat", "models", "chat", "about"]);
  // One stop of Tab for the list, then the page.
  await page.keyboard.press("Tab");
  expect(await page.evaluate(() => document.activeElement?.getAttribute("role"))).toBe("tabpanel");
  expect(await page.getByRole("tabpanel", { name: "About" }).getByTestId("version").textContent()).toBe("Hearth 0.1.0");
  await page.getByTestId("view-chat").click();
  await page.getByTestId("view-settings").click();
  expect(await on()).toBe("about");
  expect(errors).toEqual([]);
});

test("on a narrow window the pages are a row of tabs above the page", async () => {
  const { page } = await open({ width: 600 });
  await openSettings(page, "shortcuts");
  const list = page.getByTestId("settings-pages");
  expect(await list.getAttribute("aria-orientation")).toBe("horizontal");
  const [tabs, panel] = [await list.boundingBox(), await page.getByTestId("settings-panel").boundingBox()];
  expect((tabs?.y ?? 0) + (tabs?.height ?? 0)).toBeLessThanOrEqual(panel?.y ?? 0);
  expect(await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)).toBe(0);
});

test("the tray says what runs, and the setting says if the desktop has none", async () => {
  const { page, errors } = await settings("default", "general");
  const trays = () =>
    page.evaluate(
      () => (window as unknown as { fakeHost: { trays: ({ running: string[] } | null)[] } }).fakeHost.trays,
    );
  await expect.poll(async () => (await trays()).at(-1)?.running).toEqual(["Nothing is running"]);
  await page.getByTestId("tray").selectOption("off");
  await expect.poll(async () => (await trays()).at(-1)).toBeNull();
  const row = page.locator(".row", { has: page.getByTestId("tray") });
  expect(await row.textContent()).toContain("Shows what is running");
  await page.evaluate(() =>
    Object.assign((window as unknown as { fakeHost: { hasTray: boolean } }).fakeHost, { hasTray: false }),
  );
  await page.getByTestId("tray").selectOption("keepRunning");
  await expect.poll(() => row.textContent()).toContain("This desktop has no tray");
  expect(errors).toEqual([]);
});

test("the limit of repeated tokens is saved, and an invalid one is refused", async () => {
  const { page, errors } = await settings("two-gpus", "chat");
  const limit = page.getByTestId("repetition-limit");
  const type = async (text: string) => {
    await limit.fill(text);
    await page.keyboard.press("Tab");
  };
  expect(await limit.inputValue()).toBe("300");
  await type("-1");
  expect(await limit.getAttribute("aria-invalid")).toBe("true");
  expect(await page.getByText("Must be between 0 and").count()).toBe(1);
  await type("0");
  expect(await limit.getAttribute("aria-invalid")).toBe("false");
  await openSettings(page, "general");
  await openSettings(page, "chat");
  expect(await limit.inputValue()).toBe("0");
  await type("");
  await expect.poll(() => limit.inputValue()).toBe("300");
  expect(errors).toEqual([]);
});

test("titles from the model can be turned off", async () => {
  const { page, errors } = await settings("two-gpus", "chat");
  const off = page.getByTestId("titles-off");
  expect(await page.getByTestId("titles-on").isChecked()).toBe(true);
  await off.check();
  await openSettings(page, "general");
  await openSettings(page, "chat");
  expect(await off.isChecked()).toBe(true);
  expect(errors).toEqual([]);
});
