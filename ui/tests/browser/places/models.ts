// The places of Models, the hub and opened links.

import { pace } from "../window";
import { discover, find, repository, type Place } from "./place";

export const places: Place[] = [
  ["Models", "drafts", (page) => page.getByTestId("view-models").click()],
  [
    "the context menu of a model",
    "",
    async (page) => (
      await page.getByTestId("view-models").click(),
      await page
        .getByTestId("model-card")
        .last()
        .click({ button: "right", position: { x: 4, y: 4 } }),
      await page.getByTestId("menu-copy-path").waitFor()
    ),
  ],
  [
    "models that do not fit",
    "too-big",
    async (page) => (
      await page.getByTestId("view-models").click(),
      await page.getByTestId("card-fit").nth(2).waitFor()
    ),
  ],
  ["the catalog", "discover", discover],
  [
    "an update of a model",
    "discover",
    async (page) => (
      await page.getByTestId("view-models").click(),
      await page.getByTestId("check-updates").click(),
      await page.getByTestId("card-update").waitFor()
    ),
  ],
  [
    "downloads",
    "downloads",
    async (page) => (
      await page.getByTestId("view-models").click(),
      await page.getByTestId("tab-downloads").click(),
      await page.getByTestId("download-row").first().waitFor()
    ),
  ],
  [
    "the first start",
    "busy-first-run",
    async (page) => (await pace(page, 0), await page.getByTestId("first-models-busy").waitFor()),
  ],
  [
    "a link that was dropped",
    "",
    async (page) => {
      await page.evaluate(() => {
        const data = new DataTransfer();
        data.setData("text/plain", "hf.co/unsloth/Qwen3-0.6B-GGUF");
        document
          .querySelector("nav")
          ?.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
      });
      await page.getByTestId("link-dialog").waitFor();
    },
  ],
  ["a link that was opened", "link", (page) => page.getByTestId("link-place").waitFor()],
  [
    "an address that was checked",
    "link",
    async (page) => (await page.getByTestId("link-agree").click(), await page.getByTestId("checked-verdict").waitFor()),
  ],
  [
    "removing a model",
    "discover",
    async (page) => (
      await page.getByTestId("view-models").click(),
      await page.getByTestId("card-remove").nth(1).click(),
      await page.getByTestId("remove-dialog").waitFor()
    ),
  ],
  [
    "removing a download",
    "downloads",
    async (page) => (
      await page.getByTestId("view-models").click(),
      await page.getByTestId("tab-downloads").click(),
      await page
        .locator("[data-testid=download-row][data-state=paused]")
        .getByTestId("remove-download")
        .first()
        .click(),
      await page.getByTestId("remove-download-dialog").waitFor()
    ),
  ],
  [
    "the conversions of an original model",
    "discover",
    async (page) => (
      await find(page, "Qwen3-4B"),
      await page.getByTestId("hub-kind").selectOption("originals"),
      await page.locator("[data-testid=hub-result][data-id='Qwen/Qwen3-4B-Instruct-2507']").click(),
      await page.getByTestId("conversions").waitFor()
    ),
  ],
  [
    "the hub's results",
    "discover",
    async (page) => (await find(page, ""), await page.getByTestId("only-supported").uncheck()),
  ],
  ["the catalog in a search", "discover", (page) => find(page, "qwen3")],
  [
    "a repository",
    "discover",
    async (page) => (
      await repository(page, "qwen3-4b"),
      await page.getByTestId("check-variant").nth(5).click(),
      await page.getByTestId("checked-verdict").waitFor()
    ),
  ],
  [
    "adapters",
    "",
    async (page) => (
      await page.getByTestId("view-models").click(),
      await page.getByTestId("import-adapter-folder").click(),
      await page.getByTestId("waiting-adapters").waitFor(),
      await page.getByTestId("card-adapters").click(),
      await page.getByTestId("adapter-misfits").click(),
      await page.getByTestId("adapter-misfit-list").waitFor()
    ),
  ],
  [
    "a chat template",
    "",
    async (page) => (
      await page.getByTestId("view-models").click(),
      await page.getByTestId("card-details").first().click(),
      await page.getByTestId("card-template").first().click(),
      await page.getByTestId("template-text").waitFor()
    ),
  ],
];
