import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { drawn, open, pace, useBrowser } from "./window";

useBrowser();

/** Drops a file on the window. */
async function drop(page: Page, path: string): Promise<void> {
  await page.evaluate(
    (one) =>
      (window as unknown as { fakeHost: { drop(drop: object): void } }).fakeHost.drop({ type: "drop", paths: [one] }),
    path,
  );
}

/** Starts a run on a dropped file. */
async function train(page: Page, path: string): Promise<void> {
  await drop(page, path);
  await page.getByTestId("train").click();
  await page.getByTestId("run-page").waitFor();
}

/** Starts a run that makes no step until the pace is set. */
async function holdAndTrain(page: Page, path: string): Promise<void> {
  await pace(page, 0);
  await drop(page, path);
  await expect.poll(() => page.getByTestId("train").isEnabled()).toBe(true);
  await pace(page, Number.POSITIVE_INFINITY);
  await page.getByTestId("train").click();
  await page.getByTestId("run-page").waitFor();
}

const state = (page: Page) => page.getByTestId("run-page").getAttribute("data-state");
const runIs = (page: Page, expected: string) => expect.poll(() => state(page)).toBe(expected);
const step = async (page: Page) =>
  Number.parseInt((await page.getByTestId("run-tiles").locator("dd").first().textContent()) ?? "", 10);

async function openRun(page: Page, name: string): Promise<void> {
  await page.getByTestId("view-tune").click();
  await page.getByTestId("open-run").filter({ hasText: name }).first().click();
  await page.getByTestId("run-page").waitFor();
}

describe("data", () => {
  test("dropped on any view is inspected, and its loss mask shown", async () => {
    const { page, errors } = await open();
    await pace(page, 0);
    await page.evaluate(() =>
      (window as unknown as { fakeHost: { drop(drop: object): void } }).fakeHost.drop({ type: "over", paths: [] }),
    );
    await page.getByTestId("drop-overlay").waitFor();
    await drop(page, "/home/you/replies.jsonl");
    await expect.poll(() => page.getByTestId("facts").textContent()).toContain("JSONL, messages");
    expect(await page.getByTestId("drop-overlay").count()).toBe(0);
    const preview = page.getByTestId("preview");
    expect(await preview.locator("[data-kind=trained]").allTextContents()).toEqual([
      "Sorry about the wait. I have looked it up: it left Lyon this morning and should reach you on Tuesday.",
      "<|im_end|>",
    ]);
    expect(await preview.locator("[data-kind=masked]").allTextContents()).toContain("My order is late, what now?");
    await page.getByTestId("preview-next").click();
    await page.getByTestId("preview-next").click();
    expect(await preview.locator("[data-kind=truncated]").count()).toBeGreaterThan(0);
    expect(errors).toEqual([]);
  });

  test("with broken lines trains only when they are skipped", async () => {
    const { page } = await open();
    await pace(page, 0);
    await drop(page, "/home/you/broken.jsonl");
    const kinds = page.getByTestId("finding");
    await expect.poll(() => kinds.first().getAttribute("data-kind")).toBe("broken");
    expect(await page.getByTestId("broken").textContent()).toContain("it is not UTF-8, but probably");
    expect(await page.getByTestId("train").isDisabled()).toBe(true);
    await page.getByTestId("skip-broken").check();
    await expect.poll(() => page.getByTestId("train").isEnabled()).toBe(true);
    expect(await page.getByTestId("forecast").textContent()).toContain("349 examples");
  });

  test("with guessed columns can be mapped", async () => {
    const { page } = await open();
    await pace(page, 0);
    await drop(page, "/home/you/recipes.csv");
    await page.getByTestId("map-input").selectOption("ingredients");
    await expect.poll(() => page.getByTestId("mapping").textContent()).toContain("Set by you.");
    expect(await page.getByTestId("map-prompt").inputValue()).toBe("title");
    expect(await page.getByTestId("map-input").inputValue()).toBe("ingredients");
  });

  test("that cannot be read says why, and a sample is offered", async () => {
    const { page } = await open({ scene: "fresh" });
    await pace(page, 0);
    await drop(page, "/home/you/empty.jsonl");
    await expect
      .poll(() => page.getByTestId("inspection-failed").textContent())
      .toContain("empty.jsonl: the file is empty");
    await page.getByTestId("tune-back").click();
    await page.getByTestId("sample").first().click();
    await page.getByTestId("facts").waitFor();
  });

  test("is removed from the list and restored", async () => {
    const { page } = await open();
    await page.getByTestId("view-tune").click();
    await page.getByTestId("remove-dataset").first().click();
    await expect.poll(() => page.getByTestId("dataset").count()).toBe(3);
    await page.getByTestId("toast-action").click();
    await expect.poll(() => page.getByTestId("dataset").count()).toBe(4);
  });
});

describe("settings", () => {
  test("are changed, validated and reset one by one", async () => {
    const { page } = await open();
    await pace(page, 0);
    await drop(page, "/home/you/replies.jsonl");
    await page.getByTestId("advanced").click();
    const epochs = page.getByTestId("setting-epochs");
    await epochs.locator("input").fill("1");
    await epochs.locator("input").press("Tab");
    await expect.poll(() => page.getByTestId("forecast").textContent()).toContain("371 examples for 1 epoch");
    await epochs.locator("input").fill("-1");
    await epochs.locator("input").press("Tab");
    expect(await epochs.getByRole("alert").textContent()).toContain("between 0.01 and 1000");
    await epochs.getByTestId("reset").click();
    expect(await epochs.locator("input").inputValue()).toBe("");
    await page.getByTestId("setting-sequence").locator("input").fill("2048");
    await page.getByTestId("setting-sequence").locator("input").press("Tab");
    await expect.poll(() => page.getByTestId("facts").textContent()).toContain("none");
    await page.getByTestId("reset-all").click();
    await expect.poll(() => page.getByTestId("facts").textContent()).toContain("after 512");
  });
});

describe("a run", () => {
  test("trains in view, pauses, resumes, stops and saves its adapter", async () => {
    const { page, errors } = await open();
    await pace(page, 4);
    await train(page, "/home/you/endless.jsonl");
    await runIs(page, "running");
    await expect.poll(() => step(page)).toBeGreaterThan(30);
    await expect.poll(() => page.getByTestId("announcer").textContent()).toContain("validation loss");
    await page.getByTestId("pause-run").click();
    await page.getByTestId("paused").waitFor();
    const heldStep = await step(page);
    // A check takes as long as sixty steps.
    await page.evaluate("fakeHost.checkDevice('cpu')");
    await drawn(page);
    expect(await step(page)).toBe(heldStep);
    await page.getByTestId("resume-run").click();
    await expect.poll(() => step(page)).toBeGreaterThan(heldStep + 5);
    await page.getByTestId("stop-run").click();
    await runIs(page, "stopped");
    expect(await page.getByTestId("verdict").textContent()).toMatch(/improve/i);
    expect(await page.getByTestId("try-it").isEnabled()).toBe(true);
    expect(errors).toEqual([]);
  });

  test("a double click stops it only once", async () => {
    const { page, errors } = await open();
    await holdAndTrain(page, "/home/you/replies.jsonl");
    await page.evaluate("fakeHost.stops = 0; fakeHost.stopRun = async () => void fakeHost.stops++");
    const stops = () => page.evaluate("fakeHost.stops");
    await page.getByTestId("stop-run").dblclick();
    await expect.poll(() => page.getByTestId("stop-run").textContent()).toContain("Force stop");
    expect(await stops()).toBe(1);
    await page.getByTestId("stop-run").press("Enter");
    await expect.poll(stops).toBe(2);
    expect(errors).toEqual([]);
  });

  test("pauses while chat answers, says so, and resumes", async () => {
    const { page } = await open();
    await train(page, "/home/you/endless.jsonl");
    await runIs(page, "running");
    await page.evaluate("void fakeHost.send(null, null, 'Tell me a long story.')");
    await expect.poll(() => page.getByTestId("paused").textContent()).toContain("while chat is answering");
    await pace(page, 4);
    await runIs(page, "running");
  });

  test("shows a toast when it ends out of view", async () => {
    const { page } = await open();
    await holdAndTrain(page, "/home/you/replies.jsonl");
    await page.getByTestId("view-chat").click();
    await pace(page, 2);
    await expect
      .poll(() => page.getByTestId("toast").textContent())
      .toContain("is done: the validation loss went from");
    await page.getByTestId("toast-action").click();
    await runIs(page, "finished");
  });

  test("that diverges says at which step, and can be resumed", async () => {
    const { page } = await open();
    await pace(page, 1);
    await train(page, "/home/you/explodes.jsonl");
    await runIs(page, "failed");
    expect(await page.getByTestId("run-problem").textContent()).toContain("became 61.800 in step 25");
    await page.getByTestId("resume-run").click();
    await runIs(page, "failed");
  });

  test("whose worker crashes resumes from its checkpoint", async () => {
    const { page } = await open();
    await pace(page, 8);
    await train(page, "/home/you/endless.jsonl");
    await expect.poll(() => step(page)).toBeGreaterThan(20);
    await page.evaluate("fakeHost.killTrainer()");
    await runIs(page, "interrupted");
    const killed = await step(page);
    await page.getByTestId("resume-run").click();
    await runIs(page, "running");
    await expect.poll(() => step(page)).toBeGreaterThan(killed);
    await page.getByTestId("stop-run").click();
    await runIs(page, "stopped");
    await page.getByTestId("as-table").click();
    const steps = (await page.getByTestId("loss-table").locator("tbody th").allTextContents()).map(Number);
    expect(steps).toEqual([...new Set(steps)].sort((a, b) => a - b));
    expect(steps.at(-1)).toBe(await step(page));
  });

  test("is readable by keyboard and as a table", async () => {
    const { page } = await open();
    await openRun(page, "support-tone");
    const chart = page.getByTestId("loss-chart");
    await chart.focus();
    await page.keyboard.press("Home");
    await expect.poll(() => chart.getAttribute("aria-valuetext")).toContain("Step 1, training loss");
    await page.keyboard.press("ArrowRight");
    expect(await chart.getAttribute("aria-valuenow")).toBe("2");
    expect(await page.getByTestId("loss-read").textContent()).toContain("Step 2");
    await page.getByTestId("as-table").click();
    const best = page.getByTestId("loss-table").locator("tr").filter({ hasText: "best" });
    expect(await best.locator("th").textContent()).toBe("49");
    expect(await page.getByRole("columnheader", { name: "Validation loss" }).count()).toBe(1);
  });

  test("is renamed, deleted and restored", async () => {
    const { page } = await open();
    await openRun(page, "baker");
    await page.getByTestId("rename-run").click();
    await page.getByTestId("run-name").fill("pastry cook");
    await page.keyboard.press("Enter");
    await expect.poll(() => page.locator("h1").textContent()).toContain("pastry cook");
    await page.getByTestId("delete-run").click();
    await expect.poll(() => page.getByTestId("run").count()).toBe(3);
    await page.getByTestId("toast-action").click();
    await expect.poll(() => page.locator("h1").textContent()).toContain("pastry cook");
    await page.getByTestId("tune-back").click();
    await expect.poll(() => page.getByTestId("run").count()).toBe(4);
  });

  test("is started, stopped and left by keyboard alone", async () => {
    const { page } = await open();
    await pace(page, 0);
    const focused = () => page.evaluate(() => document.activeElement?.getAttribute("data-testid"));
    const reach = async (id: string) => {
      for (let i = 0; i < 40 && (await focused()) !== id; i++) await page.keyboard.press("Tab");
      expect(await focused()).toBe(id);
    };
    await page.getByTestId("view-tune").focus();
    await page.keyboard.press("Enter");
    await reach("choose-data");
    await page.keyboard.press("Enter");
    await page.getByTestId("train").waitFor();
    await reach("train");
    await pace(page, Number.POSITIVE_INFINITY);
    await page.keyboard.press("Enter");
    await page.getByTestId("stop-run").waitFor();
    await reach("stop-run");
    await page.keyboard.press("Enter");
    await pace(page, 0);
    await runIs(page, "stopped");
    await page.getByTestId("tune-back").focus();
    await page.keyboard.press("Enter");
    await page.getByTestId("tune-start").waitFor();
  });
});

test("the system prompt of the training is chosen beside the preview", async () => {
  const { page } = await open({ scene: "fresh" });
  await page.getByTestId("view-tune").click();
  await page.getByTestId("sample").first().click();
  const choice = page.getByTestId("training-prompt-choice");
  expect(await choice.inputValue()).toBe("model");
  await choice.selectOption("own");
  await page.getByTestId("training-prompt-text").fill("Answer like a sailor.");
  await page.getByTestId("training-prompt-text").blur();
  await choice.selectOption("template");
  expect(await page.getByTestId("training-prompt-text").count()).toBe(0);
  await choice.selectOption("none");
  expect(await choice.inputValue()).toBe("none");
});

test("an adapter is exported and verified", async () => {
  const { page } = await open();
  await openRun(page, "support-tone");
  await pace(page, 0);
  await page.getByTestId("export").click();
  await page.getByTestId("format-peft").check();
  await page.getByTestId("export-write").click();
  await expect.poll(() => page.getByTestId("verification").getAttribute("data-passed")).toBe("true");
  await page.getByTestId("format-gguf").check();
  await page.getByTestId("export-kind").selectOption("IQ4_XS");
  expect(await page.getByTestId("export-kind-hint").textContent()).toContain("become IQ4_NL");
  await page.getByTestId("export-kind").selectOption("NVFP4");
  expect(await page.getByTestId("export-kind-hint").textContent()).toContain("become MXFP4");
  await page.getByTestId("export-kind").selectOption("Q4_0");
  await page.getByTestId("export-write").click();
  await expect.poll(() => page.getByTestId("verification").getAttribute("data-passed")).toBe("false");
  expect(await page.getByTestId("verification").textContent()).toContain("too coarse");
  await page.keyboard.press("Escape");
  expect(await page.getByTestId("export-dialog").count()).toBe(0);
  expect(await page.evaluate(() => document.activeElement?.getAttribute("data-testid"))).toBe("export");
});

test("a closing window says that the run is being saved", async () => {
  const { page, errors } = await open();
  await holdAndTrain(page, "/home/you/replies.jsonl");
  expect(await page.getByTestId("closing").count()).toBe(0);
  await page.evaluate("fakeHost.runs().then((runs) => fakeHost.close(runs[0].id))");
  const closing = page.getByTestId("closing");
  await expect.poll(() => closing.textContent()).toContain("Saving the run…");
  expect(await closing.textContent()).toContain("replies");
  expect(errors).toEqual([]);
});
