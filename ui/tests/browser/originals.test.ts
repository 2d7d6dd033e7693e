import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { open, useBrowser } from "./window";

useBrowser();

async function search(page: Page, query: string): Promise<void> {
  await page.getByTestId("view-models").click();
  await page.getByTestId("tab-discover").click();
  await page.getByTestId("hub-query").fill(query);
  await page.getByTestId("hub-query").press("Enter");
  await page.getByTestId("hub-kind").selectOption("originals");
  await page.getByTestId("hub-result").first().waitFor();
}

test("an original model leads to its GGUF conversions, and these to their files", async () => {
  const { page, errors } = await open();
  await search(page, "Qwen3-4B");
  expect(await page.getByTestId("hub-result").count()).toBe(1);
  await page.getByTestId("hub-result").click();
  await page.getByTestId("conversions").waitFor();
  expect(await page.getByTestId("no-files").textContent()).toContain("Hearth runs GGUF files");
  await page.getByTestId("conversions").getByTestId("hub-result").click();
  await page.getByTestId("variants").waitFor();
  expect(await page.getByTestId("repository").getAttribute("data-id")).toBe("unsloth/Qwen3-4B-Instruct-2507-GGUF");
  expect(errors).toEqual([]);
});

test("a model without conversions says how one is made", async () => {
  const { page } = await open();
  await search(page, "unconverted");
  await page.getByTestId("hub-result").click();
  expect(await page.getByTestId("no-conversions").textContent()).toContain("convert_hf_to_gguf.py");
});
