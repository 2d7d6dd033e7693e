import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { open, pace, useBrowser } from "./window";
import { drop, run } from "./places/place";

useBrowser();

const adapterNames = (page: Page) =>
  page.evaluate("fakeHost.adapters().then((adapters) => adapters.map((adapter) => adapter.name))");

test("a run is named before it starts; its adapter has the name, also after a change", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  await drop(page, { type: "drop", paths: ["/home/you/replies.jsonl"] });
  const name = page.getByTestId("train-name");
  expect(await name.inputValue()).toBe("replies");
  await name.fill("baker");
  await page.getByTestId("train").click();
  await page.getByTestId("verdict").waitFor();
  expect(await page.locator("h1").textContent()).toContain("baker 2");
  expect(await adapterNames(page)).toContain("baker 2");
  await page.getByTestId("rename-run").click();
  await page.getByTestId("run-name").fill("pastry cook");
  await page.keyboard.press("Enter");
  await expect.poll(() => adapterNames(page)).toContain("pastry cook");
  await page.getByTestId("tune-back").click();
  const row = page.getByTestId("run").first();
  expect(await row.textContent()).toMatch(/pastry cook.*SmolLM2.*Today, .* validation loss 1\.\d\d/s);
  expect(errors).toEqual([]);
});

test("an adapter's row has its base, validation loss and date, and renames the run", async () => {
  const { page } = await open();
  await page.getByTestId("view-models").click();
  await page.getByTestId("tab-machine").click();
  await page.locator("[data-testid=model-card][data-id='smollm2-135m-instruct']").getByTestId("card-adapters").click();
  const row = page.getByTestId("adapter-row").filter({ hasText: "support-tone" }).first();
  expect(await row.textContent()).toMatch(/SmolLM2 135M Instruct.*validation loss 1\.\d\d/s);
  await row.getByTestId("adapter-rename").click();
  await page.getByTestId("adapter-name").fill("help desk");
  await page.getByTestId("adapter-name").press("Enter");
  await page.getByTestId("view-tune").click();
  await expect.poll(() => page.getByTestId("open-run").first().textContent()).toContain("help desk");
});

test("a merged export is added to the models under the adapter's name, also after a change", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  await run(page, "21");
  await page.getByTestId("export").click();
  await page.getByTestId("format-gguf").check();
  await page.getByTestId("export-write").click();
  await page.getByTestId("export-add").click();
  await expect.poll(() => page.getByTestId("export-add").textContent()).toBe("Added to my models");
  await page.keyboard.press("Escape");
  await page.getByTestId("rename-run").click();
  await page.getByTestId("run-name").fill("help desk");
  await page.keyboard.press("Enter");
  await page.getByTestId("view-models").click();
  await page.getByTestId("tab-machine").click();
  await expect.poll(() => page.locator("[data-testid=model-card] h2 bdi").allTextContents()).toContain("help desk");
  expect(errors).toEqual([]);
});
