import { expect, test } from "vitest";
import { affected, components, rendered, testNames } from "../../scripts/affected.mjs";

test("every component and every test file of the browser is in the table of what is rendered", () => {
  const table = rendered();
  expect(Object.keys(table)).toEqual(components());
  expect([...new Set(Object.values(table).flat())].sort()).toEqual(testNames());
});

test("a component affects the files that render it, and a module those of what imports it", () => {
  const table = {
    "src/lib/charts/LossChart.svelte": ["tune"],
    "src/lib/charts/CurveTable.svelte": ["look"],
    "src/lib/tune/RunPage.svelte": ["axe.tune"],
  };
  const affectedBy = (...paths: string[]) => affected(paths, table);
  expect(affectedBy("src/lib/charts/LossChart.svelte")).toEqual(["tune"]);
  expect(affectedBy("src/lib/charts/rows.ts")).toContain("look");
  expect(affectedBy("src/lib/charts/LossChart.svelte", "tests/browser/keys.test.ts")).toEqual(["keys", "tune"]);
  expect(affectedBy("tests/browser/places/models.ts")).toEqual(["axe.models", "untranslated"]);
  expect(affectedBy("tests/unit/curve.test.ts", "README.md")).toEqual([]);
});

test.each([
  "src/main.ts",
  "src/App.svelte",
  "src/lib/stores/app.svelte.ts",
  "src/lib/host/fake/base.ts",
  "src/styles/base.css",
  "messages/en/chat.json",
  "vite.config.ts",
  "index.html",
  "scripts/browser.mjs",
  "src/lib/gone.ts",
  "unknown",
])("everything depends on %s", (path) => {
  expect(affected([path])).toEqual(testNames());
});
