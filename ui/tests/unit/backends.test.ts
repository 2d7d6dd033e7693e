import { expect, test } from "vitest";
import type { Device, DeviceCheck } from "../../src/lib/host";
import { autoSelected, matchesDevice } from "../../src/lib/text/devices";
import { bandwidth, buildOptions, prefillThroughput, autoBuild, turnSeconds, buildLabel, autoBuildReason } from "../../src/lib/text/backends";

const found = (speed: number): DeviceCheck => ({ mismatch: speed < 0 ? "Wrong." : null, bytesPerSecond: Math.max(0, speed), macsPerSecond: Math.max(0, speed) });

/** A device with builds of these speeds; null: not checked, below 0: mismatch. */
function device(kind: string, speeds: Record<string, number | null>, backend = "vulkan"): Device {
  const all = Object.entries(speeds).map(([build, speed]) => ({ build, backend: build === "cuda" ? "cuda" : backend, check: speed === null ? null : found(speed) }));
  return { id: "gpu0", identity: "0000:01:00.0", kind, name: "A GPU", backend, memoryTotal: null, memoryFree: null, usable: true, why: "", driver: null, api: null, load: null, cores: null, performanceCores: null, backendNames: [backend], backends: all };
}

const chosen = (...gpus: Device[]) => autoBuild(buildOptions(gpus))?.build;
function says(gpu: Device): string | null {
  const all = buildOptions([gpu]);
  const best = autoBuild(all);
  return best && autoBuildReason(all, best);
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
  const check: DeviceCheck = { mismatch: null, bytesPerSecond: 1.93e12, macsPerSecond: 41.2e12 };
  expect([bandwidth(check), prefillThroughput(check)]).toEqual(["1.9 TB/s", "41 TMAC/s"]);
});

test("a typical turn takes as long as in the engine", () => {
  expect(turnSeconds({ mismatch: null, bytesPerSecond: 72e9, macsPerSecond: 512e9 })).toBeCloseTo(2, 10);
  expect(turnSeconds(found(-1))).toBeGreaterThan(1e11);
});

test("one build uses all devices: the one whose slowest device is fastest, of equals the first, never one with a mismatch", () => {
  const fast = device("discrete", { cuda: 9e9, vulkan: 8e9, portable: 2e9 });
  const other = device("discrete", { vulkan: 1e9, portable: 3e9 });
  const broken = device("discrete", { portable: 1e9, cuda: -1 });
  expect(chosen()).toBe(undefined);
  expect(chosen(fast)).toBe("cuda");
  expect(chosen(fast, other)).toBe("portable");
  expect(chosen(fast, broken)).toBe("portable");
  expect(chosen(device("discrete", { portable: null, cuda: null }))).toBe("portable");
  expect(chosen(device("discrete", { portable: null, cuda: 1 }))).toBe("cuda");
  expect(chosen(device("discrete", { portable: -1 }))).toBe(undefined);
});

test("says why a build was chosen automatically", () => {
  expect(says(device("discrete", { cuda: 9e9, portable: 2e9 }))).toBe("Automatic uses CUDA: measured fastest.");
  expect(says(device("discrete", { cuda: 9e9, portable: null }))).toBe("Automatic uses CUDA: no other backend has been measured yet.");
  expect(says(device("discrete", { cuda: 9e9, portable: -1 }))).toBe("Automatic uses CUDA: no other backend matches the CPU's results.");
  expect(says(device("discrete", { portable: null, cuda: null }))).toBe("Automatic uses Portable (Vulkan) until all backends have been measured.");
  expect(says(device("discrete", { portable: -1 }))).toBe(null);
});

test("a GPU that is slower than the CPU is not selected automatically", () => {
  const cpu = device("cpu", { portable: 5e9 }, "cpu");
  const alone = (kind: string, speed: number | null, backend?: string) => autoSelected(device(kind, { portable: speed }, backend), cpu);
  expect([alone("discrete", null), alone("discrete", 6e9), alone("discrete", 4e9)]).toEqual([true, true, false]);
  expect([alone("integrated", null), alone("integrated", 6e9), alone("integrated", 4e9)]).toEqual([false, true, false]);
  expect([alone("integrated", null, "metal"), alone("integrated", 4e9, "metal")]).toEqual([true, false]);
  expect([alone("software", null), alone("software", 9e9)]).toEqual([false, false]);
  expect(autoSelected({ ...device("discrete", { portable: 9e9 }), usable: false }, cpu)).toBe(false);
  expect(autoSelected(device("discrete", { portable: 1 }), null)).toBe(true);
});

test("a device matches its identity, and its id in old settings", () => {
  const gpu = device("discrete", {});
  expect(["0000:01:00.0", "gpu0", "gpu1", "cpu"].map((name) => matchesDevice(name, gpu))).toEqual([true, true, false, false]);
});
