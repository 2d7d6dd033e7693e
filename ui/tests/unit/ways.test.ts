import { expect, test } from "vitest";
import type { Device, DeviceCheck } from "../../src/lib/host";
import { byItself, means } from "../../src/lib/text/devices";
import { answers, offers, prompts, taken, turnSeconds, wayName, whyTaken } from "../../src/lib/text/ways";

const found = (speed: number): DeviceCheck => ({ wrong: speed < 0 ? "Wrong." : null, bytesPerSecond: Math.max(0, speed), productsPerSecond: Math.max(0, speed) });

/** A device with ways as fast as that; null: not checked, below 0: wrong. */
function device(kind: string, ways: Record<string, number | null>, backend = "vulkan"): Device {
  const all = Object.entries(ways).map(([build, speed]) => ({ build, backend: build === "cuda" ? "cuda" : backend, check: speed === null ? null : found(speed) }));
  return { id: "gpu0", identity: "0000:01:00.0", kind, name: "A GPU", backend, memoryTotal: null, memoryFree: null, usable: true, why: "", driver: null, api: null, load: null, cores: null, performanceCores: null, backends: [backend], ways: all };
}

const chosen = (...gpus: Device[]) => taken(offers(gpus))?.build;
function says(gpu: Device): string | null {
  const all = offers([gpu]);
  const best = taken(all);
  return best && whyTaken(all, best);
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
  expect(wayName({ build, backend })).toBe(name);
});

test("what was measured is said in few digits", () => {
  const check: DeviceCheck = { wrong: null, bytesPerSecond: 1.93e12, productsPerSecond: 41.2e12 };
  expect([answers(check), prompts(check)]).toEqual(["1.9 TB/s", "41 T weights/s"]);
});

test("a usual turn takes as long as the engine reckons", () => {
  expect(turnSeconds({ wrong: null, bytesPerSecond: 72e9, productsPerSecond: 512e9 })).toBeCloseTo(2, 10);
  expect(turnSeconds(found(-1))).toBeGreaterThan(1e11);
});

test("one build uses all devices: the one whose slowest is fastest, of equals the first, never a wrong one", () => {
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

test("why a build is taken is a sentence", () => {
  expect(says(device("discrete", { cuda: 9e9, portable: 2e9 }))).toBe("Automatic takes CUDA: it was measured fastest.");
  expect(says(device("discrete", { cuda: 9e9, portable: null }))).toBe("Automatic takes CUDA: nothing else has been measured yet.");
  expect(says(device("discrete", { cuda: 9e9, portable: -1 }))).toBe("Automatic takes CUDA: nothing else computes what the processor does.");
  expect(says(device("discrete", { portable: null, cuda: null }))).toBe("Automatic takes Portable (Vulkan) until all have been measured.");
  expect(says(device("discrete", { portable: -1 }))).toBe(null);
});

test("a GPU that is slower than the processor is not chosen by itself", () => {
  const cpu = device("cpu", { portable: 5e9 }, "cpu");
  const alone = (kind: string, speed: number | null, backend?: string) => byItself(device(kind, { portable: speed }, backend), cpu);
  expect([alone("discrete", null), alone("discrete", 6e9), alone("discrete", 4e9)]).toEqual([true, true, false]);
  expect([alone("integrated", null), alone("integrated", 6e9), alone("integrated", 4e9)]).toEqual([false, true, false]);
  expect([alone("integrated", null, "metal"), alone("integrated", 4e9, "metal")]).toEqual([true, false]);
  expect([alone("software", null), alone("software", 9e9)]).toEqual([false, false]);
  expect(byItself({ ...device("discrete", { portable: 9e9 }), usable: false }, cpu)).toBe(false);
  expect(byItself(device("discrete", { portable: 1 }), null)).toBe(true);
});

test("a device is meant by its identity, and by its id in old settings", () => {
  const gpu = device("discrete", {});
  expect(["0000:01:00.0", "gpu0", "gpu1", "cpu"].map((name) => means(name, gpu))).toEqual([true, true, false, false]);
});
