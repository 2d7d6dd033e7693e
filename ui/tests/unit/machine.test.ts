import { expect, test } from "vitest";
import type { Plan, PlannedDevice, LoadSettings } from "../../src/lib/host";
import { detailed } from "../../src/lib/host/fake/problems";
import { App } from "../../src/lib/stores/app.svelte";
import { memoryText, verdictLabel, layersLabel, memoryParts } from "../../src/lib/text/devices";
import { started } from "./started";
import { until } from "./until";

const device = (change: Partial<PlannedDevice>): PlannedDevice => ({
  id: "gpu0",
  identity: "0000:01:00.0",
  name: "A GPU",
  weights: 3e9,
  kv: 1e9,
  snapshots: 0,
  draft: 0,
  compute: 5e8,
  margin: 5e8,
  total: 8e9,
  free: 7e9,
  layers: [],
  fits: true,
  ...change,
});

test("the parts of a bar add up to the device's memory", () => {
  const sum = (d: PlannedDevice) => memoryParts(d).reduce((all, part) => all + part.bytes, 0);
  expect(sum(device({}))).toBe(8e9);
  expect(memoryParts(device({})).map((part) => part.kind)).toEqual([
    "others",
    "weights",
    "kv",
    "compute",
    "margin",
    "free",
  ]);
  expect(sum(device({ weights: 9e9 }))).toBe(12e9);
  expect(memoryParts(device({ weights: 9e9 })).some((part) => part.kind === "free")).toBe(false);
  expect(sum(device({ total: null, free: null }))).toBe(5e9);
  expect(memoryText(device({ fits: false }))).toBe(
    "A GPU of 8 GB: Other programs 1 GB, Weights 3 GB, KV cache 1 GB, Compute 500 MB, Reserved 500 MB, Free 2 GB. It does not fit.",
  );
});

test("snapshots are a part of the cache, and a draft is apart from it", () => {
  const parts = memoryParts(device({ snapshots: 3e8, draft: 5e8 }));
  expect(parts.map(({ name, bytes }) => [name, bytes])).toEqual([
    ["Other programs", 1e9],
    ["Weights", 3e9],
    ["KV cache", 7e8],
    ["Snapshots", 3e8],
    ["Draft", 5e8],
    ["Compute", 5e8],
    ["Reserved", 5e8],
    ["Free", 1.5e9],
  ]);
});

test.each([
  [[], "no layers"],
  [["token_embd", "blk.0", "blk.1", "blk.2"], "token embedding, layers 0 to 2"],
  [["blk.29", "output"], "layer 29, output layer"],
])("labels the layers of a device: %j", (layers, label) => {
  expect(layersLabel(layers)).toBe(label);
});

test("a moving slider requests one plan at a time and ends with the newest", async () => {
  const { app, host } = await started("two-gpus");
  let open = 0;
  let maxInFlight = 0;
  let requests = 0;
  const plan = host.plan.bind(host);
  host.plan = async (model: string, loadSettings: LoadSettings): Promise<Plan> => {
    maxInFlight = Math.max(maxInFlight, ++open);
    requests += 1;
    const made = await plan(model, loadSettings);
    open -= 1;
    return made;
  };
  const moves = Array.from({ length: 25 }, (_, count) => count);
  for (const count of moves) app.planning.change({ gpuLayers: { type: "count", count } });
  await until(() => !app.planning.busy && app.planning.plan?.gpuLayers === 24);
  expect([maxInFlight, requests]).toEqual([1, 2]);
  expect(app.settings.value.gpuLayers).toEqual({ type: "auto" });
});

test("a value equal to the settings is no change", async () => {
  const { app } = await started("two-gpus");
  app.planning.change({ kv: "q8_0", gpuLayers: { type: "count", count: 3 } });
  expect(app.planning.changed).toBe(true);
  app.planning.change({ kv: "f16", gpuLayers: { type: "auto" } });
  expect(app.planning.changed).toBe(false);
  app.planning.change({ threads: 3 });
  await app.planning.apply();
  expect([app.planning.changed, app.settings.value.threads]).toEqual([false, 3]);
});

test("a failed plan leaves its error and no plan of another model", async () => {
  const { app, host } = await started("two-gpus");
  await app.planning.refresh();
  expect(verdictLabel(app.planning.plan as Plan).text).toBe("Fits");
  host.plan = () => Promise.reject(detailed("fileInvalid", "The file is corrupt."));
  await app.planning.refresh();
  expect([app.planning.plan, app.planning.problem]).toEqual([null, detailed("fileInvalid", "The file is corrupt.")]);
});

test("a check shows its results, changes the automatic choice and is announced", async () => {
  const { app } = await started("unchecked-gpu");
  await app.machine.look();
  const gpu = app.machine.gpus[0];
  if (!gpu) throw new Error("There is a GPU in this scene.");
  const checked = app.checkDevice(gpu);
  expect(app.machine.checking).toBe(gpu.identity);
  expect(await app.machine.check("cpu")).toBe(false);
  await checked;
  expect([app.machine.checking, app.machine.gpus[0]?.backends[0]?.build, app.announcements.text]).toEqual([
    null,
    "rocm",
    "AMD Radeon RX 7800 XT was checked.",
  ]);
  expect(app.machine.find("cpu")?.backends[0]?.check).not.toBe(null);
});

test("a poll that began before a check ended does not undo its results", async () => {
  const { app, host } = await started("unchecked-gpu");
  await app.machine.look();
  const before = await host.devices();
  let answer: () => void = () => {};
  const slow = new Promise<typeof before>((resolve) => (answer = () => resolve(before)));
  host.devices = () => slow;
  const look = app.machine.look();
  host.checkDevice = async () => before.map((d) => ({ ...d, name: "Checked" }));
  await app.machine.check("gpu0");
  answer();
  await look;
  expect(app.machine.devices?.map((d) => d.name)).toEqual(["Checked", "Checked"]);
});

test("a failed check keeps its error until the next one", async () => {
  const { app } = await started("software-gpu");
  await app.machine.look();
  expect(await app.machine.check("0000:99:00.0")).toBe(false);
  expect(app.machine.checkProblem?.device).toBe("0000:99:00.0");
  expect(app.machine.checkProblem?.problem.reason).toMatchObject({ type: "noSuchDevice", name: "0000:99:00.0" });
  expect(await app.machine.check("llvmpipe")).toBe(true);
  expect(app.machine.checkProblem).toBe(null);
});

test("devices are found by identity or old id; others keep the given name", async () => {
  const { app } = await started("two-gpus");
  expect(app.machine.name("cpu")).toBe("CPU");
  await app.machine.look();
  expect(["cpu", "gpu0", "0000:01:00.0", "0000:7f:00.0"].map((name) => app.machine.name(name))).toEqual([
    "Intel Core i7-13700K",
    "NVIDIA GeForce RTX 4070",
    "NVIDIA GeForce RTX 4070",
    "0000:7f:00.0",
  ]);
});

/** The loaded model's number of threads. */
function threadsOf(app: App): number | null {
  return app.models.state.type === "ready" ? app.models.state.info.threads : null;
}

test("measurements store the device's identity, one per thread count", async () => {
  const { app } = await started("two-gpus");
  for (const threads of [null, 7, 7]) {
    await app.settings.change({ threads });
    await until(() => threadsOf(app) === (threads ?? 2));
    await app.machine.measure();
  }
  expect(app.machine.measurements.map((m) => [m.device, m.threads])).toEqual([
    ["0000:01:00.0", 7],
    ["0000:01:00.0", 2],
  ]);
});

test("the chosen build is part of the plan and is saved", async () => {
  const { app, host } = await started("two-gpus");
  await app.changeSettings({ build: "vulkan" });
  expect(host.planned.at(-1)?.build).toBe("vulkan");
  app.planning.change({ threads: 3 });
  await app.planning.apply();
  expect([app.settings.value.build, app.settings.value.threads]).toEqual(["vulkan", 3]);
});

test("a draft belongs to its model, on trial and saved", async () => {
  const { app, host } = await started("drafts");
  const draft = { type: "model" as const, model: "qwen3-draft-120m" };
  app.planning.change({ draft, threads: 3 });
  await until(() => !app.planning.busy);
  expect(host.planned.at(-1)).toMatchObject({ draft, threads: 3 });
  expect(app.planning.plan?.devices.at(-1)?.draft).toBe(127_401_984);
  // Another model has its own draft; the other changes stay.
  await app.models.load("smollm2-135m-instruct");
  expect([app.planning.loadSettings.draft, app.planning.changes]).toEqual([{ type: "auto" }, { threads: 3 }]);
  app.planning.change({ draft: { type: "none" } });
  await app.planning.apply();
  expect(app.settings.value.drafts).toEqual({ "smollm2-135m-instruct": { type: "none" } });
  await app.models.load("qwen3-0.6b");
  app.planning.change({ draft });
  await app.planning.apply();
  expect(app.settings.value).toMatchObject({
    threads: 3,
    drafts: { "smollm2-135m-instruct": { type: "none" }, "qwen3-0.6b": draft },
  });
  app.planning.change({ draft: { type: "auto" } });
  await app.planning.apply();
  expect(app.settings.value.drafts).toEqual({ "smollm2-135m-instruct": { type: "none" } });
});
