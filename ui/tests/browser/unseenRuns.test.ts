import { expect, test } from "vitest";
import { drop } from "./places/place";
import { open, pace, useBrowser } from "./window";

useBrowser();

test("a run that ended out of view has a badge and a line in Tune until it is opened", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  await drop(page, { type: "drop", paths: ["/home/you/replies.jsonl"] });
  await expect.poll(() => page.getByTestId("train").isEnabled()).toBe(true);
  await pace(page, Number.POSITIVE_INFINITY);
  await page.getByTestId("train").click();
  await page.getByTestId("run-page").waitFor();
  await page.getByTestId("view-chat").click();
  await pace(page, 0);
  const badge = page.getByTestId("runs-unseen");
  await badge.waitFor();
  expect(await badge.getAttribute("aria-label")).toBe("1 run has ended");
  await page.getByTestId("view-tune").click();
  await page.getByTestId("tune-back").click();
  await expect.poll(() => badge.count()).toBe(0);
  expect(await page.getByTestId("unseen-run").count()).toBe(0);
  expect(errors).toEqual([]);
});

test("a run that the closing of the app interrupted is no error, and is resumed from its line", async () => {
  const { page, errors } = await open();
  await page.evaluate("fakeHost.unsee(21), fakeHost.unsee(24)");
  await page.getByTestId("view-tune").click();
  const lines = page.getByTestId("unseen-run");
  await expect.poll(() => lines.count()).toBe(2);
  const interrupted = lines.filter({ hasText: "notes, at length" });
  expect(await interrupted.textContent()).toContain("Interrupted at step 48 of 90");
  expect(await interrupted.getAttribute("class")).toContain("plain");
  await lines.filter({ hasText: "support-tone" }).getByTestId("unseen-dismiss").click();
  expect(await interrupted.getByTestId("unseen-dismiss").evaluate((e) => e === document.activeElement)).toBe(true);
  await expect.poll(() => lines.count()).toBe(1);
  await pace(page, Number.POSITIVE_INFINITY);
  await interrupted.getByTestId("unseen-resume").click();
  await page.locator("[data-testid=run-page][data-state=preparing]").waitFor();
  expect(errors).toEqual([]);
});

test("an interrupted run is resumed from its row", async () => {
  const { page } = await open();
  await page.getByTestId("view-tune").click();
  await pace(page, Number.POSITIVE_INFINITY);
  await page.locator("[data-testid=run][data-id='24']").getByTestId("row-resume").click();
  await page.locator("[data-testid=run-page][data-state=preparing]").waitFor();
});

test("a run says at once that it pauses or stops after its step, and a pause can be taken back", async () => {
  const { page, errors } = await open();
  await pace(page, 4);
  await drop(page, { type: "drop", paths: ["/home/you/endless.jsonl"] });
  await page.getByTestId("train").click();
  await page.locator("[data-testid=run-page][data-state=running]").waitFor();
  await pace(page, Number.POSITIVE_INFINITY);
  await page.getByTestId("pause-run").click();
  const pending = page.getByTestId("pending");
  await expect.poll(() => pending.textContent()).toContain("Pausing after this step…");
  await page.getByTestId("resume-run").click();
  await expect.poll(() => pending.count()).toBe(0);
  await page.getByTestId("stop-run").click();
  await expect.poll(() => pending.textContent()).toContain("Stopping after this step");
  await pace(page, 0);
  await page.getByTestId("verdict").waitFor();
  expect(errors).toEqual([]);
});
