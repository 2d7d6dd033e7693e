import { expect, test } from "vitest";
import { asProblem, type LoadSettings, type Plan, type Problem } from "../../src/lib/host";
import { FakeHost } from "../../src/lib/host/fake";
import { problemText } from "../../src/lib/text/problem";

const SMOL = "smollm2-135m-instruct";

function plan(scene: string, change: Partial<LoadSettings>, model = SMOL): Promise<Plan> {
  const host = new FakeHost(scene);
  host.pace = 0;
  return host.plan(model, {
    threads: null,
    context: null,
    device: null,
    build: null,
    gpuLayers: { type: "auto" },
    kv: "f16",
    draft: { type: "auto" },
    ...change,
  });
}

test("the token embedding stays on the CPU, as in the engine", async () => {
  const all = await plan("two-gpus", { gpuLayers: { type: "all" } });
  expect(all.devices.map((d) => [d.id, d.layers[0], d.layers.at(-1), d.layers.length])).toEqual([
    ["cpu", "token_embd", "token_embd", 1],
    ["gpu0", "blk.0", "output", 31],
  ]);
  const some = await plan("two-gpus", { gpuLayers: { type: "count", count: 15 } });
  expect(some.devices.map((d) => [d.id, d.layers[0], d.layers.at(-1), d.layers.length])).toEqual([
    ["cpu", "token_embd", "blk.15", 17],
    ["gpu0", "blk.16", "output", 15],
  ]);
});

test("a context between recorded ones is answered with the one below it, one below all with the shortest", async () => {
  const contexts = [1024, 2048, 5000, 8192, 131_072].map(
    async (context) => (await plan("two-gpus", { context })).context,
  );
  expect(await Promise.all(contexts)).toEqual([2048, 2048, 2048, 8192, 32_768]);
  expect((await plan("no-gpu", { context: null })).context).toBe(8192);
});

test("more layers than the model has are all, and none without a GPU", async () => {
  expect((await plan("two-gpus", { gpuLayers: { type: "count", count: 99 } })).gpuLayers).toBe(31);
  expect((await plan("no-gpu", { gpuLayers: { type: "count", count: 99 } })).gpuLayers).toBe(0);
});

test("the automatic device depends on the checks, and an old id is understood", async () => {
  const used = async (scene: string, device: string | null) => (await plan(scene, { device })).devices.map((d) => d.id);
  expect(await used("two-gpus", null)).toEqual(["cpu", "gpu0"]);
  expect(await used("two-gpus", "gpu1")).toEqual(["cpu", "gpu1"]);
  expect(await used("wrong-gpu", null)).toEqual(["cpu"]);
  expect(await used("software-gpu", null)).toEqual(["cpu"]);
});

test.each([
  ["wrong-gpu", "gpu0", "A model cannot be loaded on AMD Radeon RX 6600: Its driver's results differ"],
  ["driver-crashed", "gpu0", "crashed (signal 11)"],
  ["no-gpu", "0000:99:00.0", "There is no device “0000:99:00.0”. Choose one of: cpu."],
])("a device that cannot be used is refused with the engine's problem: %s", async (scene, device, text) => {
  const refused = await plan(scene, { device }).catch(asProblem);
  expect(refused).toMatchObject({ code: "noDevice" });
  expect(problemText(refused as Problem)).toContain(text);
});

test("an added model has the plans of the recorded one", async () => {
  const host = new FakeHost("too-big");
  host.pace = 0;
  const model = await host.addModel("/models/new.gguf");
  expect(
    (
      await host.plan(model.id, {
        threads: null,
        context: null,
        device: null,
        build: null,
        gpuLayers: { type: "auto" },
        kv: "f16",
        draft: { type: "auto" },
      })
    ).layersTotal,
  ).toBe(13);
});

test("a model that fits nowhere is recorded where it is shown", async () => {
  expect((await plan("too-big", {}, "llama-3.3-70b")).verdict).toEqual({ type: "wontFit" });
});

test("a sample dataset has the engine's inspection", async () => {
  const host = new FakeHost("fresh");
  host.pace = 0;
  const [hearthside] = await host.sampleDatasets();
  const dataset = await host.addDataset(hearthside?.path ?? "");
  const inspection = await host.inspectDataset(dataset.id, SMOL, null, false, null, null);
  expect([inspection.examples, inspection.previews[0]?.pieces[1]?.text]).toEqual([
    66,
    "What is the capital of France?",
  ]);
});
