import { expect, test } from "vitest";
import { FakeHost } from "../../src/lib/host/fake";
import { App } from "../../src/lib/stores/app.svelte";
import { uniqueName } from "../../src/lib/text/uniqueName";

test.each([
  [[], "tales"],
  [["tales"], "tales 2"],
  [["Tales", "tales 2", "tales 4"], "tales 3"],
  [["tales 2"], "tales"],
])("a name that is taken gets the first free number", (taken, expected) => {
  expect(uniqueName("tales", taken)).toBe(expected);
});

test("a run is named after its dataset with a free number, or as the user types", async () => {
  const host = new FakeHost(null);
  const app = new App(host, { schedule: (callback) => callback() });
  await app.start();
  await app.tune.prepare(await host.addDataset("/home/you/terse.jsonl"));
  expect(app.preparation.defaultName).toBe("terse 2");
  expect(app.preparation.newRun()?.name).toBe("terse 2");
  app.preparation.name = " keeper ";
  expect(app.preparation.newRun()?.name).toBe("keeper");
  app.preparation.name = "  ";
  expect(app.preparation.newRun()?.name).toBe("terse 2");
});
