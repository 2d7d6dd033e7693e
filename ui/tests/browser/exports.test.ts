import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { run } from "./places/place";
import { open, pace, useBrowser } from "./window";

useBrowser();

/** Opens the export dialog of a run and chooses a merged file. */
async function openExport(page: Page): Promise<void> {
  await run(page, "21");
  await page.getByTestId("export").click();
  await page.getByTestId("format-gguf").check();
}

const focused = (page: Page) => page.evaluate(() => document.activeElement?.getAttribute("data-testid"));

test("an export shows its stage and can be cancelled", async () => {
  const { page, errors } = await open();
  await openExport(page);
  await pace(page, Number.POSITIVE_INFINITY);
  await page.getByTestId("export-write").click();
  const dialog = page.getByTestId("export-dialog");
  await expect.poll(() => dialog.getByTestId("progress").textContent()).toContain("Exporting: merging");
  expect(await dialog.getByRole("progressbar").getAttribute("aria-valuenow")).toBe("5");
  // The stage is announced, and the percentage is not.
  expect(await dialog.locator("[aria-live]").last().textContent()).toContain("Exporting: merging");
  expect(await dialog.locator("[aria-live] [role=progressbar]").count()).toBe(0);
  // The focus goes to the button that replaces the focused one.
  await expect.poll(() => focused(page)).toBe("export-cancel");
  await page.getByTestId("export-cancel").click();
  await expect.poll(() => page.getByTestId("export-cancel").textContent()).toBe("Cancelling…");
  await pace(page, 0);
  const failed = page.getByTestId("export-failed");
  await failed.waitFor();
  expect(await failed.getAttribute("class")).toContain("plain");
  await expect.poll(() => focused(page)).toBe("export-write");
  await page.getByTestId("export-write").click();
  await page.getByTestId("exported").waitFor();
  await expect.poll(() => focused(page)).toBe("export-show");
  expect(errors).toEqual([]);
});

test("a written export is shown in its folder, with its Modelfile", async () => {
  const { page } = await open();
  await pace(page, 0);
  await openExport(page);
  await page.getByTestId("export-write").click();
  await page.getByTestId("export-show").click();
  expect(await page.evaluate("fakeHost.opened")).toEqual(["/home/you/exports/support-tone.gguf"]);
  expect(await page.getByTestId("export-modelfile").textContent()).toContain("support-tone.Modelfile");
});

test("an export goes on when its dialog is closed, and ends with a toast", async () => {
  const { page, errors } = await open();
  await openExport(page);
  await pace(page, Number.POSITIVE_INFINITY);
  await page.getByTestId("export-write").click();
  await page.getByTestId("export-cancel").waitFor();
  await page.keyboard.press("Escape");
  await page.getByTestId("export").click();
  await page.getByTestId("export-cancel").waitFor();
  await page.keyboard.press("Escape");
  await pace(page, 0);
  await expect.poll(() => page.getByTestId("toast").textContent()).toContain("“support-tone” was exported.");
  await page.getByTestId("toast-action").click();
  expect(await page.evaluate("fakeHost.opened")).toEqual(["/home/you/exports/support-tone.gguf"]);
  expect(errors).toEqual([]);
});
