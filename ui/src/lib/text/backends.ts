// Labels of the backends of a device, and of the reasons for which the engine chooses one.

import { m } from "$messages";
import type { BackendOption, Device, DeviceCheck, Mismatch } from "../host";
import { scaled } from "./format";

// not text: names
const backends: Record<string, string> = {
  cpu: "CPU",
  vulkan: "Vulkan",
  metal: "Metal",
  dx12: "DirectX 12",
  cuda: "CUDA",
  rocm: "ROCm",
};
// not text: names
const builds: Record<string, string> = { vulkan: "Vulkan (SPIR-V)", cuda: "CUDA", rocm: "ROCm" };

export function backendName(name: string): string {
  return backends[name] ?? name;
}

/** `CUDA`, `Vulkan (SPIR-V)`, `Portable (Metal)`; `CPU` for the CPU. */
export function buildLabel({ build, backend }: Pick<BackendOption, "build" | "backend">): string {
  if (backend === "cpu") return backendName(backend);
  const name = build === "portable" ? m.text_backend_portable() : (builds[build] ?? build);
  return build === "portable" && backend !== "" ? `${name} (${backendName(backend)})` : name;
}

/** `1.9 TB/s`: bytes of weights read per second in decode. */
export function bandwidth(check: DeviceCheck): string {
  return `${scaled(check.bytesPerSecond)}B/s`;
}

/** `41 TMAC/s`: multiply-accumulates per second in prefill. */
export function prefillThroughput(check: DeviceCheck): string {
  return `${scaled(check.macsPerSecond)}MAC/s`;
}

/** A build that can use some of the GPUs. */
export interface BuildOption {
  build: string;
  name: string;
  /**
   * The difference between its results and the CPU's, on every GPU that it can use; `null` if the
   * results match on one GPU, or were not checked.
   */
  mismatch: Mismatch | null;
}

/** The builds that can use at least one of these GPUs. */
export function buildOptions(gpus: readonly Device[]): BuildOption[] {
  const all = gpus.flatMap((gpu) => gpu.backends);
  const names = [...new Set(all.map(({ build }) => build))];
  return names.flatMap((build): BuildOption[] => {
    const [first, ...others] = all.filter((option) => option.build === build);
    if (first === undefined) return [];
    const matches = [first, ...others].some(({ check }) => (check?.mismatch ?? null) === null);
    return [{ build, name: buildLabel(first), mismatch: matches ? null : (first.check?.mismatch ?? null) }];
  });
}

/**
 * The reason for the automatic choice of a build, or a note that it depends on the model. Empty if
 * no build can use a GPU.
 */
export function autoBuildReason(gpus: readonly Device[]): string {
  const [gpu, ...others] = gpus;
  const best = gpu?.backends[0];
  if (gpu === undefined || best === undefined) return "";
  if (others.length > 0) return m.text_backend_auto_each_model();
  const inputs = { build: buildLabel(best) };
  switch (gpu.buildReason) {
    case "only":
      return m.text_backend_auto_only(inputs);
    case "unmeasured":
      return m.text_backend_auto_unmeasured(inputs);
    case "onlyMeasured":
      return m.text_backend_auto_only_measured(inputs);
    case "fastest":
      return m.text_backend_auto_fastest(inputs);
    case null:
      return "";
  }
}
