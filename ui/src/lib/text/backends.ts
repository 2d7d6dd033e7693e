// Labels of the backends of a device, and the build that is chosen automatically, as the engine
// does it.

import type { BackendOption, Device, DeviceCheck } from "../host";
import { scaled } from "./format";

const backends: Record<string, string> = { cpu: "CPU", vulkan: "Vulkan", metal: "Metal", dx12: "DirectX 12", cuda: "CUDA", rocm: "ROCm" };
const builds: Record<string, string> = { portable: "Portable", vulkan: "Vulkan (SPIR-V)", cuda: "CUDA", rocm: "ROCm" };

export function backendName(name: string): string {
  return backends[name] ?? name;
}

/** `CUDA`, `Vulkan (SPIR-V)`, `Portable (Metal)`; `CPU` for the CPU. */
export function buildLabel({ build, backend }: Pick<BackendOption, "build" | "backend">): string {
  if (backend === "cpu") return backendName(backend);
  const name = builds[build] ?? build;
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

/** Seconds of a typical turn with a billion 4-bit weights: 512 tokens of prefill, 128 of decode. The engine ranks by it. */
export function turnSeconds(check: DeviceCheck): number {
  return (512 * 1e9) / Math.max(1, check.macsPerSecond) + (128 * 1e9 * 18) / 32 / Math.max(1, check.bytesPerSecond);
}

/** A build that can use a given set of GPUs. */
export interface BuildOption {
  build: string;
  name: string;
  /** How its results differ from the CPU's; `null` if they match or were not checked. */
  mismatch: string | null;
  /** Seconds of a typical turn on the slowest GPU; `null` if not all were measured. */
  seconds: number | null;
}

/** The builds that can use all of these GPUs. */
export function buildOptions(gpus: readonly Device[]): BuildOption[] {
  return (gpus[0]?.backends ?? []).flatMap((option): BuildOption[] => {
    const options = gpus.map((gpu) => gpu.backends.find(({ build }) => build === option.build));
    if (options.includes(undefined)) return [];
    const checks = options.flatMap((found) => found?.check ?? []);
    const seconds = checks.length === gpus.length ? Math.max(...checks.map(turnSeconds)) : null;
    return [{ build: option.build, name: buildLabel(option), mismatch: checks.find(({ mismatch }) => mismatch !== null)?.mismatch ?? null, seconds }];
  });
}

/** The automatic choice: the fastest build without a mismatch; of equals, the first. */
export function autoBuild(all: readonly BuildOption[]): BuildOption | null {
  const seconds = (option: BuildOption) => option.seconds ?? Number.MAX_VALUE;
  return all.filter(({ mismatch }) => mismatch === null).reduce<BuildOption | null>((best, next) => (best !== null && seconds(best) <= seconds(next) ? best : next), null);
}

/** Why the automatic choice is this build. */
export function autoBuildReason(all: readonly BuildOption[], { name, build, seconds }: BuildOption): string {
  const others = all.filter((option) => option.build !== build && option.mismatch === null);
  if (others.length === 0) return `Automatic uses ${name}: no other backend matches the CPU's results.`;
  if (seconds === null) return `Automatic uses ${name} until all backends have been measured.`;
  if (others.every((option) => option.seconds === null)) return `Automatic uses ${name}: no other backend has been measured yet.`;
  return `Automatic uses ${name}: measured fastest.`;
}
