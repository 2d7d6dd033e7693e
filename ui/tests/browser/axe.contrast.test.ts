import type { RunOptions } from "axe-core";
import { expect, test } from "vitest";
import { violations } from "./axe";
import { open, openConversation, useBrowser } from "./window";

useBrowser();

test("with high contrast, text has a contrast of 7 to 1 on every view", async () => {
  const { page } = await open();
  await page.emulateMedia({ contrast: "more", reducedMotion: "reduce" });
  const enhanced: RunOptions = {
    resultTypes: ["violations"],
    runOnly: { type: "rule", values: ["color-contrast-enhanced"] },
    rules: { "color-contrast-enhanced": { enabled: true } },
  };
  await openConversation(page, "Borrow checker");
  for (const view of ["chat", "tune", "models", "settings"]) {
    await page.getByTestId(`view-${view}`).click();
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      expect([view, colorScheme, await violations(page, enhanced)]).toEqual([view, colorScheme, []]);
    }
  }
});
