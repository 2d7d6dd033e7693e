import { expect, test } from "vitest";
import type { AutoSelection, BuildReason, Device, DeviceCheck, Mismatch } from "../../src/lib/host";
import { cpuReason, matchesDevice } from "../../src/lib/text/devices";
import { bandwidth, buildOptions, prefillThroughput, buildLabel, autoBuildReason } from "../../src/lib/text/backends";

const WRONG: Mismatch = { type: "losses", percent: "12.4" };

const checkResult = (speed: number): DeviceCheck => ({
  mismatch: speed < 0 ? WRONG : null,
  bytesPerSecond: Math.max(0, speed),
  stepSeconds: 0,
  layerSeconds: 0,
  macsPerSecond: Math.max(0, speed),
  seconds: 1,
  kernelsLaunched: 0,
  kernelsCompiled: 0,
  load: null,
});

/** A device with builds of these speeds; null: not checked, below 0: mismatch. */
function device(kind: string, speeds: Record<string, number | null>, backend = "vulkan"): Device {
  const all = Object.entries(speeds).map(([build, speed]) => ({
    build,
    backend: build === "cuda" ? "cuda" : backend,
    check: speed === null ? null : checkResult(speed),
    largestBuffer: null,
  }));
  return {
    id: "gpu0",
    identity: "0000:01:00.0",
    kind,
    name: "A GPU",
    backend,
    memoryTotal: null,
    memoryFree: null,
    usable: true,
    status: { type: "unknown" },
    driverProblem: null,
    driver: null,
    api: null,
    load: null,
    cores: null,
    performanceCores: null,
    backendNames: [backend],
    largestBuffer: null,
    backends: all,
    selection: "selected",
    buildReason: null,
  };
}

test.each([
  ["portable", "vulkan", "Portable (Vulkan)"],
  ["portable", "metal", "Portable (Metal)"],
  ["portable", "dx12", "Portable (DirectX 12)"],
  ["portable", "", "Portable"],
  ["portable", "cpu", "CPU"],
  ["vulkan", "vulkan", "Vulkan (SPIR-V)"],
  ["cuda", "cuda", "CUDA"],
  ["rocm", "rocm", "ROCm"],
  ["sycl", "sycl", "sycl"],
])("the build %s through %s is called %s", (build, backend, name) => {
  expect(buildLabel({ build, backend })).toBe(name);
});

test("speeds are shown with few digits", () => {
  const check: DeviceCheck = { ...checkResult(0), bytesPerSecond: 1.93e12, macsPerSecond: 41.2e12 };
  expect([bandwidth(check), prefillThroughput(check)]).toEqual(["1.9 TB/s", "41 TMAC/s"]);
});

test("a build is offered if it can use some GPU, and is wrong only if it is wrong on each that it can use", () => {
  const fast = device("discrete", { cuda: 9e9, vulkan: -1, portable: 2e9 });
  const other = device("discrete", { portable: -1, vulkan: null });
  const offered = (...gpus: Device[]) => buildOptions(gpus).map(({ build, mismatch }) => [build, mismatch]);
  expect(offered()).toEqual([]);
  expect(offered(fast)).toEqual([
    ["cuda", null],
    ["vulkan", WRONG],
    ["portable", null],
  ]);
  expect(offered(fast, other)).toEqual([
    ["cuda", null],
    ["vulkan", null],
    ["portable", null],
  ]);
  expect(offered(device("discrete", { portable: -1 }))).toEqual([["portable", WRONG]]);
});

test.each<[BuildReason | null, string]>([
  ["fastest", "Automatic uses CUDA: measured fastest."],
  ["onlyMeasured", "Automatic uses CUDA: no other backend has been measured yet."],
  ["only", "Automatic uses CUDA: no other backend matches the CPU's results."],
  ["unmeasured", "Automatic uses CUDA until all backends have been measured."],
  [null, ""],
])("the engine's reason for a build, %s, is a sentence", (buildReason, sentence) => {
  const gpu = { ...device("discrete", { cuda: 9e9, portable: 2e9 }), buildReason };
  expect(autoBuildReason([gpu])).toBe(sentence);
  expect(autoBuildReason([gpu, gpu])).toBe("Automatic uses the fastest for each model.");
  expect(autoBuildReason([])).toBe("");
});

test.each<[AutoSelection[], string]>([
  [[], "no usable GPU."],
  [["unusable"], "no usable GPU."],
  [["software"], "a software renderer is slower than the CPU it runs on."],
  [["software", "sharesMemory"], "a GPU that shares the CPU's memory is seldom faster."],
  [["slowerThanCpu", "sharesMemory"], "a GPU that shares the CPU's memory is seldom faster."],
  [["slowerThanCpu", "software", "unusable"], "measured faster than any GPU here."],
])("the engine's reasons against the GPUs, %s, are a sentence", (selections, sentence) => {
  const gpus = selections.map((selection) => ({
    ...device("discrete", {}),
    selection,
    usable: selection !== "unusable",
  }));
  expect(cpuReason(gpus)).toBe(`Automatic: ${sentence}`);
});

test("a device matches its identity, and its id in old settings", () => {
  const gpu = device("discrete", {});
  expect(["0000:01:00.0", "gpu0", "gpu1", "cpu"].map((name) => matchesDevice(name, gpu))).toEqual([
    true,
    true,
    false,
    false,
  ]);
});
