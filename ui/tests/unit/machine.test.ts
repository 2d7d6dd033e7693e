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

test("a check shows what it found, changes what is chosen, and is told", async () => {
  const { app } = await started("unchecked-gpu");
  await app.machine.look();
  const gpu = app.machine.gpus[0];
  if (!gpu) throw new Error("There is a GPU in this scene.");
  const checked = app.check(gpu);
  expect(app.machine.checking).toBe(gpu.identity);
  expect(await app.machine.check("cpu")).toBe(false);
  await checked;
  expect([app.machine.checking, app.machine.gpus[0]?.ways[0]?.build, app.announcements.said]).toEqual([null, "rocm", "AMD Radeon RX 7800 XT was checked."]);
  expect(app.machine.find("cpu")?.ways[0]?.check).not.toBe(null);
});

test("a look that began before a check ended does not undo what it found", async () => {
  const { app, host } = await started("unchecked-gpu");
  await app.machine.look();
  const before = await host.devices();
  let answer: () => void = () => {};
  const slow = new Promise<typeof before>((resolve) => (answer = () => resolve(before)));
  host.devices = () => slow;
  const look = app.machine.look();
  host.checkDevice = async () => before.map((d) => ({ ...d, why: "Checked." }));
  await app.machine.check("gpu0");
  answer();
  await look;
  expect(app.machine.devices?.map((d) => d.why)).toEqual(["Checked.", "Checked."]);
});

test("a check that fails keeps the reason until the next one", async () => {
  const { app } = await started("software-gpu");
  await app.machine.look();
  expect(await app.machine.check("0000:99:00.0")).toBe(false);
  expect(app.machine.unchecked?.device).toBe("0000:99:00.0");
  expect(app.machine.unchecked?.problem.message).toContain("There is no device");
  expect(await app.machine.check("llvmpipe")).toBe(true);
  expect(app.machine.unchecked).toBe(null);
});

test("devices are named by identity, by an old id, or as they were called", async () => {
  const { app } = await started("two-gpus");
  expect(app.machine.name("cpu")).toBe("The processor");
  await app.machine.look();
  expect(["cpu", "gpu0", "0000:01:00.0", "0000:7f:00.0"].map((name) => app.machine.name(name))).toEqual(["Intel Core i7-13700K", "NVIDIA GeForce RTX 4070", "NVIDIA GeForce RTX 4070", "0000:7f:00.0"]);
});

test("measurements say the device's identity, and each number of threads is its own", async () => {
  const { app } = await started("two-gpus");
  for (const threads of [null, 7, 7]) {
    await app.settings.change({ threads });
    await new Promise((resolve) => setTimeout(resolve, 50));
    await app.machine.measure();
  }
  expect(app.machine.measurements.map((m) => [m.device, m.threads])).toEqual([["0000:01:00.0", 7], ["0000:01:00.0", 2]]);
});

test("a build that is chosen is planned with, and kept with the rest", async () => {
  const { app, host } = await started("two-gpus");
  await app.use({ build: "vulkan" });
  expect(host.planned.at(-1)?.build).toBe("vulkan");
  app.planning.change({ threads: 3 });
  await app.planning.apply();
  expect([app.settings.value.build, app.settings.value.threads]).toEqual(["vulkan", 3]);
});
