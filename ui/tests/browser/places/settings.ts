// The places of Settings.

import { settingsPages } from "../../../src/lib/stores/view";
import { openSettings } from "../window";
import type { Place } from "./place";

export const places: Place[] = [
  ...settingsPages.map(({ id, label }): Place => [
    `Settings, ${label}`,
    "two-gpus",
    async (page) => {
      await openSettings(page, "hardware");
      await page.getByTestId("device-row").first().waitFor();
      await openSettings(page, id);
    },
  ]),
  [
    "a plan that does not fit",
    "too-big",
    async (page) => (
      await openSettings(page, "models"),
      await page.getByTestId("layers").fill("31"),
      await page.locator("[data-testid=plan-verdict][data-verdict=wontFit]").waitFor()
    ),
  ],
  [
    "devices with problems",
    "wrong-gpu",
    async (page) => (await openSettings(page, "hardware"), await page.getByTestId("device-problem").waitFor()),
  ],
  [
    "clearing a cache",
    "",
    async (page) => (
      await openSettings(page, "data"),
      await page.getByTestId("clear-cache").first().click(),
      await page.getByTestId("clear-dialog").waitFor()
    ),
  ],
  [
    "a key that is taken",
    "",
    async (page) => {
      await openSettings(page, "shortcuts");
      await page.locator("[data-testid=shortcut][data-id=search]").getByTestId("change-key").click();
      await page.keyboard.press("Control+n");
      await page.getByTestId("key-conflict").waitFor();
    },
  ],
  [
    "a report of an import",
    "",
    async (page) => (
      await openSettings(page, "data"),
      await page.getByTestId("import-file").click(),
      await page.getByTestId("import-report").waitFor()
    ),
  ],
  [
    "restoring a backup",
    "",
    async (page) => (
      await openSettings(page, "data"),
      await page.getByTestId("restore-backup").click(),
      await page.getByTestId("restore-confirm").waitFor()
    ),
  ],
  [
    "moving the data folder",
    "",
    async (page) => (
      await openSettings(page, "data"),
      await page.getByTestId("move-data").click(),
      await page.getByTestId("move-dialog").waitFor()
    ),
  ],
];
