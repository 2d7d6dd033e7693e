// Dialogs of the system: one at a time.

import { expect, test } from "vitest";
import type { Host } from "../../src/lib/host";
import { inTurns } from "../../src/lib/host/inTurns";

test("a button that is pressed again while its dialog is open opens no second one", async () => {
  const opened: ((path: string | null) => void)[] = [];
  const open = () => new Promise((resolve) => opened.push(resolve));
  const host = inTurns({ chooseTextFiles: open, chooseModelFile: open } as unknown as Host);
  const first = host.chooseModelFile("Add a model", "Models");
  expect(await host.chooseModelFile("Add a model", "Models")).toBeNull();
  expect(await host.chooseTextFiles("Attach files")).toEqual([]);
  expect(opened.length).toBe(1);
  opened[0]?.("/models/a.gguf");
  expect(await first).toBe("/models/a.gguf");
  const next = host.chooseModelFile("Add a model", "Models");
  expect(opened.length).toBe(2);
  opened[1]?.(null);
  expect(await next).toBeNull();
});

test("after a dialog that failed another one opens", async () => {
  let count = 0;
  const open = () => Promise.reject(new Error(`${++count}`));
  const host = inTurns({ chooseDataFile: open } as unknown as Host);
  await expect(host.chooseDataFile("Open data", "Data")).rejects.toThrow("1");
  await expect(host.chooseDataFile("Open data", "Data")).rejects.toThrow("2");
});
