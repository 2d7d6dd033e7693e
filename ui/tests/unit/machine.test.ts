import { expect, test } from "vitest";
import type { Plan, PlannedDevice, WhatIf } from "../../src/lib/host";
import { FakeHost } from "../../src/lib/host/fake";
import { App } from "../../src/lib/stores/app.svelte";
import { barText, judge, lying, parts } from "../../src/lib/text/devices";

async function started(scene: string): Promise<{ app: App; host: FakeHost }> {
  const host = new FakeHost(scene);
  host.pace = 0;
  const app = new App(host, { schedule: (callback) => callback() });
  await app.start();
  return { app, host };
}

const device = (change: Partial<PlannedDevice>): PlannedDevice => ({ id: "gpu0", name: "A GPU", weights: 3e9, kv: 1e9, compute: 5e8, margin: 5e8, total: 8e9, free: 7e9, layers: [], fits: true, ...change });

test("the parts of a bar are the whole memory, and never more of it than there is", () => {
  const sum = (d: PlannedDevice) => parts(d).reduce((all, part) => all + part.bytes, 0);
  expect(sum(device({}))).toBe(8e9);
  expect(parts(device({})).map((part) => part.kind)).toEqual(["others", "weights", "kv", "compute", "margin", "free"]);
  expect(sum(device({ weights: 9e9 }))).toBe(12e9);
  expect(parts(device({ weights: 9e9 })).some((part) => part.kind === "free")).toBe(false);
  expect(sum(device({ total: null, free: null }))).toBe(5e9);
  expect(barText(device({ fits: false }))).toBe("A GPU of 8 GB: Other programs 1 GB, Weights 3 GB, KV cache 1 GB, Compute 500 MB, Kept free 500 MB, Free 2 GB. It does not fit.");
});

test.each([
  [[], "nothing"],
  [["token_embd", "blk.0", "blk.1", "blk.2"], "token embedding, blocks 0 to 2"],
  [["blk.29", "output"], "block 29, the output layer"],
])("what lies on a device is said in few words", (layers, said) => {
  expect(lying(layers)).toBe(said);
});

test("a slider that moves has one plan asked for at a time, and ends with the newest", async () => {
  const { app, host } = await started("two-gpus");
  let open = 0;
  let most = 0;
  let asked = 0;
  const plan = host.plan.bind(host);
  host.plan = async (model: string, wish: WhatIf): Promise<Plan> => {
    most = Math.max(most, ++open);
    asked += 1;
    const made = await plan(model, wish);
    open -= 1;
    return made;
  };
  const moves = Array.from({ length: 25 }, (_, count) => count);
  for (const count of moves) app.planning.change({ gpuLayers: { type: "count", count } });
  for (let i = 0; i < 500 && (app.planning.busy || app.planning.plan?.gpuLayers !== 24); i++) await new Promise((resolve) => setTimeout(resolve, 1));
  expect(app.planning.plan?.gpuLayers).toBe(24);
  expect([most, asked]).toEqual([1, 2]);
  expect(app.settings.value.gpuLayers).toEqual({ type: "auto" });
});

test("what is as the settings have it is no change", async () => {
  const { app } = await started("two-gpus");
  app.planning.change({ kv: "q8_0", gpuLayers: { type: "count", count: 3 } });
  expect(app.planning.changed).toBe(true);
  app.planning.change({ kv: "f16", gpuLayers: { type: "auto" } });
  expect(app.planning.changed).toBe(false);
  app.planning.change({ threads: 3 });
  await app.planning.apply();
  expect([app.planning.changed, app.settings.value.threads]).toEqual([false, 3]);
});

test("a plan that cannot be made leaves the reason, and none of another model", async () => {
  const { app, host } = await started("two-gpus");
  await app.planning.refresh();
  expect(judge(app.planning.plan as Plan).text).toBe("Fits");
  host.plan = () => Promise.reject({ code: "fileInvalid", message: "The file is damaged." });
  await app.planning.refresh();
  expect([app.planning.plan, app.planning.problem?.message]).toEqual([null, "The file is damaged."]);
});
