// The places of Tune, and the comparison of answers.

import { pace, send } from "../window";
import { drop, pair, run, tune, type Place } from "./place";

export const places: Place[] = [
  [
    "the adapters",
    "",
    async (page) => (
      await pair(page),
      await page.getByTestId("adapter-pill").click(),
      await page.getByTestId("adapter").first().waitFor()
    ),
  ],
  ["two answers", "", pair],
  [
    "answers whose model is loaded",
    "",
    async (page) => (
      await page.getByTestId("compare").click(),
      await page.getByTestId("contender-add").click(),
      await pace(page, Number.POSITIVE_INFINITY),
      await send(page, "What is the capital of France?"),
      await page.locator("[data-state=loading]").waitFor()
    ),
  ],
  [
    "a compared answer",
    "",
    async (page) => (
      await pair(page),
      await page.getByTestId("contender").nth(1).click(),
      await page.getByTestId("contender-preset").waitFor()
    ),
  ],
  ["Tune", "", async (page) => (await tune(page), await page.getByTestId("tune-start").waitFor())],
  [
    "Tune with runs that ended unseen",
    "",
    async (page) => (
      await tune(page),
      await page.evaluate("fakeHost.unsee(21), fakeHost.unsee(23), fakeHost.unsee(24)"),
      await page.getByTestId("unseen-run").nth(2).waitFor()
    ),
  ],
  ["Tune without runs", "fresh", async (page) => (await tune(page), await page.getByTestId("tune-start").waitFor())],
  ...["replies.jsonl", "orders.csv", "broken.jsonl"].map((name): Place => [
    `the data ${name}`,
    "",
    async (page) => {
      await drop(page, { type: "drop", paths: [`/home/you/${name}`] });
      await page.getByTestId("data-page").waitFor();
      await page.locator("[data-testid=facts], [data-testid=mapping], [data-testid=broken]").first().waitFor();
      if (name === "replies.jsonl") await page.getByTestId("advanced").click();
    },
  ]),
  ["a run", "", (page) => run(page, "21")],
  ["a run as a table", "", async (page) => (await run(page, "21"), await page.getByTestId("as-table").click())],
  [
    "an export",
    "",
    async (page) => (
      await run(page, "21"),
      await page.getByTestId("export").click(),
      await page.getByTestId("export-dialog").waitFor()
    ),
  ],
  [
    "an export in progress",
    "",
    async (page) => (
      await run(page, "21"),
      await page.getByTestId("export").click(),
      await pace(page, Number.POSITIVE_INFINITY),
      await page.getByTestId("export-write").click(),
      await page.getByTestId("export-cancel").waitFor()
    ),
  ],
  [
    "two answers after a vote",
    "",
    async (page) => (
      await pair(page),
      await page.getByTestId("vote").first().click(),
      await page.getByTestId("voted").waitFor()
    ),
  ],
  [
    "a run that is about to pause",
    "",
    async (page) => {
      await drop(page, { type: "drop", paths: ["/home/you/endless.jsonl"] });
      await page.getByTestId("facts").waitFor();
      await page.getByTestId("train").click();
      await page.locator("[data-testid=run-page][data-state=running]").waitFor();
      await pace(page, Number.POSITIVE_INFINITY);
      await page.getByTestId("pause-run").click();
      await page.getByTestId("pending").waitFor();
    },
  ],
  ["a file over the window", "", (page) => drop(page, { type: "over", paths: ["x"] })],
  [
    "a run that failed",
    "",
    async (page) => (
      await tune(page),
      await page.locator('[data-testid=run][data-id="23"]').getByTestId("open-run").click(),
      await page.getByTestId("run-page").waitFor()
    ),
  ],
  [
    "a verified export",
    "",
    async (page) => (
      await run(page, "21"),
      await page.getByTestId("export").click(),
      await page.getByTestId("format-gguf").check(),
      await page.getByTestId("export-write").click(),
      await page.getByTestId("verification").waitFor()
    ),
  ],
  [
    "closing during a run",
    "",
    async (page) => {
      await drop(page, { type: "drop", paths: ["/home/you/replies.jsonl"] });
      await page.getByTestId("facts").waitFor();
      await pace(page, Number.POSITIVE_INFINITY);
      await page.getByTestId("train").click();
      await page.getByTestId("run-page").waitFor();
      await page.evaluate("fakeHost.runs().then((runs) => fakeHost.close(runs[0].id))");
      await page.getByTestId("closing").waitFor();
    },
  ],
];
