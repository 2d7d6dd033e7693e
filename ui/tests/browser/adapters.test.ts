// Adapters in Models and in a conversation.

import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { open, openConversation, pace, useBrowser } from "./window";

useBrowser();

/** Opens a part of Models. */
async function models(tab: "machine" | "discover"): Promise<{ page: Page; errors: string[] }> {
  const window = await open({ height: 900 });
  await pace(window.page, 0);
  await window.page.getByTestId("view-models").click();
  await window.page.getByTestId(`tab-${tab}`).click();
  return window;
}

const smol = "[data-testid=model-card][data-id='smollm2-135m-instruct']";
const row = (page: Page, name: string) => page.getByTestId("adapter-row").filter({ hasText: name });

/** Searches the hub for adapters. */
async function search(page: Page, query: string): Promise<void> {
  await page.getByTestId("hub-query").fill(query);
  await page.getByTestId("hub-query").press("Enter");
  await page.getByTestId("hub-kind").selectOption("adapters");
  await page.getByTestId("hub-result").first().waitFor();
}

describe("on this machine", () => {
  test("adapters lie beside the model that they fit, with the level in words", async () => {
    const { page, errors } = await models("machine");
    await page.locator(smol).getByTestId("card-adapters").click();
    const trained = page.locator(smol).getByTestId("adapter-row").first();
    expect(await trained.getByTestId("adapter-fit").textContent()).toBe("trained on this model");
    expect(await trained.textContent()).toContain("trained here");
    const terse = row(page, "terse");
    expect(await terse.getByTestId("adapter-fit").textContent()).toBe("fits by its sizes");
    expect(await terse.textContent()).toContain("imported");
    expect(await terse.getByTestId("adapter-unmatched").textContent()).toContain("^q_proj in its alpha_pattern");
    await terse.getByTestId("adapter-chat").click();
    await page.getByTestId("adapter-pill").filter({ hasText: "terse" }).waitFor();
    expect(await page.getByTestId("contenders").count()).toBe(0);
    await page.getByTestId("view-models").click();
    await page.locator(smol).getByTestId("card-adapters").click();
    await row(page, "terse").getByTestId("adapter-compare").click();
    await page.getByTestId("contenders").waitFor();
    expect(errors).toEqual([]);
  });

  test("an adapter is renamed, and its deletion says what happens to its files", async () => {
    const { page, errors } = await models("machine");
    await page.locator(smol).getByTestId("card-adapters").click();
    await row(page, "terse").getByTestId("adapter-rename").click();
    await page.getByTestId("adapter-name").fill("Short and dry");
    await page.getByTestId("adapter-name").press("Enter");
    const renamed = row(page, "Short and dry");
    await renamed.getByTestId("adapter-delete").click();
    const dialog = page.getByTestId("adapter-delete-dialog");
    expect(await dialog.textContent()).toContain("its files stay");
    await dialog.getByTestId("adapter-delete-confirm").click();
    await expect.poll(() => renamed.count()).toBe(0);
    const trained = page.locator(smol).getByTestId("adapter-row").first();
    await trained.getByTestId("adapter-delete").click();
    expect(await page.getByTestId("adapter-delete-dialog").textContent()).toContain("Deletes its files, 9.8 MB.");
    expect(errors).toEqual([]);
  });

  test("an adapter is imported without naming a model, and one without a base says what it needs", async () => {
    const { page, errors } = await models("machine");
    await page.getByTestId("import-adapter-file").click();
    await page.getByText("It fits SmolLM2 135M Instruct.").waitFor();
    expect(await page.getByTestId("waiting-adapters").count()).toBe(0);
    await page.getByTestId("import-adapter-folder").click();
    const waiting = page.getByTestId("waiting-adapters").getByTestId("adapter-row");
    expect(await waiting.getByTestId("adapter-needs").textContent()).toBe("Made for meta-llama/Llama-3.2-3B-Instruct.");
    await waiting.getByTestId("adapter-misfits").click();
    await expect
      .poll(() => waiting.getByTestId("adapter-misfit-list").locator("dt").allTextContents())
      .toEqual(["SmolLM2 135M Instruct"]);
    expect(await waiting.getByTestId("adapter-misfit-list").locator("dd").allTextContents()).toEqual([
      "It is for a model with 28 layers; this one has 30.",
    ]);
    await waiting.getByTestId("adapter-get").click();
    await page.getByTestId("hub-results").waitFor();
    expect(await page.getByTestId("hub-query").inputValue()).toBe("Llama-3.2-3B-Instruct");
    expect(await page.getByTestId("hub-result").first().getAttribute("data-id")).toBe(
      "bartowski/Llama-3.2-3B-Instruct-GGUF",
    );
    expect(errors).toEqual([]);
  });
});

test("an adapter of the hub is marked, downloaded, and joins its base", async () => {
  const { page, errors } = await models("discover");
  await search(page, "LoRA");
  expect(await page.getByTestId("hub-adapter").count()).toBe(2);
  expect(await page.getByTestId("only-supported").count()).toBe(0);
  const poet = page.locator("[data-testid=hub-result][data-id='campfire/SmolLM2-135M-Fireside-Poet-LoRA']");
  expect(await poet.textContent()).toContain("for HuggingFaceTB/SmolLM2-135M-Instruct");
  await poet.click();
  expect(await page.getByTestId("repository-base").textContent()).toBe("Made for HuggingFaceTB/SmolLM2-135M-Instruct.");
  expect(await page.getByTestId("check-variant").count()).toBe(0);
  expect(await page.getByTestId("none-fits").count()).toBe(0);
  await page.getByTestId("download").click();
  await page.getByTestId("show-adapter").click();
  await page.locator(smol).getByTestId("card-adapters").click();
  const poems = row(page, "SmolLM2-135M-Fireside-Poet-LoRA");
  expect(await poems.getByTestId("adapter-fit").textContent()).toBe("made for this model");
  expect(await poems.textContent()).toContain("hf.co/campfire/SmolLM2-135M-Fireside-Poet-LoRA");
  expect(await poems.textContent()).toContain("Apache-2.0");
  expect(errors).toEqual([]);
});

test("dropped files are imported as adapters or added as models", async () => {
  const { page, errors } = await models("discover");
  await page.evaluate(() =>
    (window as unknown as { fakeHost: { drop: (drop: object) => void } }).fakeHost.drop({
      type: "drop",
      paths: ["/x/tiny-poet-30M.Q8_0.gguf", "/x/rhymes-lora-f16.gguf"],
    }),
  );
  await page.getByText("rhymes-lora-f16 was imported. It fits SmolLM2 135M Instruct.").waitFor();
  await page.locator("[data-testid=model-card]").filter({ hasText: "tiny-poet-30M" }).waitFor();
  await page.locator(smol).getByTestId("card-adapters").click();
  await row(page, "rhymes-lora-f16").waitFor();
  // A file that is neither a model nor an adapter is refused as before.
  await page.evaluate(
    `fakeHost.addModel = (path) => Promise.reject({ code: "fileInvalid", reason: { area: "detail", detail: path + ": this is not a GGUF file." } })`,
  );
  await page.evaluate(() =>
    (window as unknown as { fakeHost: { drop: (drop: object) => void } }).fakeHost.drop({
      type: "drop",
      paths: ["/x/broken.gguf"],
    }),
  );
  await page.getByText("/x/broken.gguf: this is not a GGUF file.").waitFor();
  expect(errors).toEqual([]);
});

test("a conversation offers the adapters that fit, with the level in words", async () => {
  const { page, errors } = await models("machine");
  await page.getByTestId("import-adapter-folder").click();
  await page.getByTestId("waiting-adapters").waitFor();
  await page.getByTestId("view-chat").click();
  await page.getByTestId("open-conversation").first().click();
  await page.getByTestId("adapter-pill").click();
  expect(await page.getByTestId("adapter").filter({ hasText: "terse" }).getByTestId("picker-fit").textContent()).toBe(
    "fits by its sizes",
  );
  expect(await page.getByTestId("adapter").filter({ hasText: "plain-english" }).count()).toBe(0);
  expect(errors).toEqual([]);
});

test("a conversation switches off an adapter that does not fit, and one that was deleted", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  const conversation = await page.getByTestId("conversation").filter({ hasText: "Rye bread" }).getAttribute("data-id");
  const mismatch = await page.evaluate(`(async () => {
    const { id } = await fakeHost.importAdapter("/x/plain-english", null);
    await fakeHost.setConversationAdapters(${conversation}, [{ adapter: id, scale: 1 }, { adapter: 999, scale: 1 }]);
    return id;
  })()`);
  await openConversation(page, "Rye bread");
  await page.getByTestId("adapter-pill").click();
  const adapterById = (id: unknown) => page.locator(`[data-testid=adapter][data-id='${id}']`);
  expect(await adapterById(mismatch).textContent()).toContain("plain-english");
  expect(await adapterById(mismatch).textContent()).toContain("It is for a model with 28 layers; this one has 30.");
  expect(await adapterById(999).textContent()).toContain("deleted");
  await adapterById(999).getByTestId("adapter-on").click();
  await expect.poll(() => adapterById(999).count()).toBe(0);
  expect(await page.evaluate(() => document.activeElement?.getAttribute("data-testid"))).toBe("adapter-on");
  await adapterById(mismatch).getByTestId("adapter-on").click();
  await expect.poll(() => page.getByTestId("adapter-pill").textContent()).toContain("No adapter");
  expect(errors).toEqual([]);
});
