import { expect, test } from "vitest";
import { run } from "./places/place";
import { open, useBrowser } from "./window";

useBrowser();

test("the legend names the lines that are drawn", async () => {
  const { page } = await open();
  await run(page, "21");
  const legend = page.getByTestId("curve-legend");
  await expect.poll(() => legend.textContent()).toMatch(/training\s+unsmoothed\s+validation/);
  await page.getByTestId("smooth").uncheck();
  expect(await legend.textContent()).not.toContain("unsmoothed");
});

test("a run without validation has no line for it in the legend", async () => {
  const { page } = await open();
  await page.evaluate("void (fakeHost.points = fakeHost.runPoints.bind(fakeHost))");
  await page.evaluate(
    "void (fakeHost.runPoints = async (id) => ({ ...(await fakeHost.points(id)), evaluations: [] }))",
  );
  await run(page, "21");
  const legend = page.getByTestId("curve-legend");
  await expect.poll(() => legend.textContent()).toContain("training");
  expect(await legend.textContent()).not.toContain("validation");
});
