import { expect, test } from "vitest";
import { importedAdapter } from "../../src/lib/host/fake/runs";
import { bestModel, doesFit, fitHint, fitLabel } from "../../src/lib/text/adapters";

test("an adapter is not offered on the model that it was merged into, and says why", () => {
  const adapter = importedAdapter(1, "poet", "/poet.gguf");
  adapter.matches = [
    { model: "merged", fit: { type: "merged" } },
    { model: "base", fit: { type: "sizes" } },
  ];
  expect([doesFit(adapter, "merged"), doesFit(adapter, "base")]).toEqual([false, true]);
  expect(bestModel(adapter)).toBe("base");
  expect(fitLabel({ type: "merged" })).toBe("already in this model");
  expect(fitHint({ type: "merged" })).toContain("twice");
});
