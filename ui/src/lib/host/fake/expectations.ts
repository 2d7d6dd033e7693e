// The expected fit and speed of a model that is not loaded, on a fake machine: from its size, the
// free memory, and a made-up bandwidth of 24 GB/s on a CPU and 300 GB/s on a GPU.

import type { Device, Expectation } from "../wire";

/** The part of the bandwidth that other programs leave on a busy machine. */
const BUSY_PART = 0.3;

export function expectationOf(bytes: number, devices: readonly Device[], wasBusy = false): Expectation {
  const isMeasured = wasBusy || devices.some((device) => device.backends.some(({ check }) => check !== null));
  const gpu = devices.find(
    (device) =>
      device.kind === "discrete" && device.selection === "selected" && (device.memoryFree ?? 0) > bytes * 1.15,
  );
  const free = devices.find((device) => device.kind === "cpu")?.memoryFree ?? 0;
  if (!gpu && bytes * 1.12 > free) return { verdict: { type: "wontFit" }, tokensPerSecond: null, isMeasured, wasBusy };
  const tokensPerSecond = ((gpu ? 300e9 : 24e9) / (bytes + 4e7)) * (wasBusy ? BUSY_PART : 1);
  if (tokensPerSecond < 5) return { verdict: { type: "slow" }, tokensPerSecond, isMeasured, wasBusy };
  const isTight = !gpu && bytes * 1.6 > free;
  return {
    verdict: isTight ? { type: "fitsWithLessContext", context: 8192 } : { type: "fits" },
    tokensPerSecond,
    isMeasured,
    wasBusy,
  };
}
