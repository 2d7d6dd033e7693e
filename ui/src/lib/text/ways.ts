// The builds of Hearth that can use a device, as a person reads them, and the one that is taken, as the engine decides it.

import type { Device, DeviceCheck, DeviceWay } from "../host";
import { scaled } from "./format";

const backends: Record<string, string> = { cpu: "CPU", vulkan: "Vulkan", metal: "Metal", dx12: "DirectX 12", cuda: "CUDA", rocm: "ROCm" };
const builds: Record<string, string> = { portable: "Portable", vulkan: "Vulkan (SPIR-V)", cuda: "CUDA", rocm: "ROCm" };

export function backend(name: string): string {
  return backends[name] ?? name;
}

/** `CUDA`, `Vulkan (SPIR-V)`, `Portable (Metal)`; of the processor `CPU`. */
export function wayName({ build, backend: through }: Pick<DeviceWay, "build" | "backend">): string {
  if (through === "cpu") return backend(through);
  const name = builds[build] ?? build;
  return build === "portable" && through !== "" ? `${name} (${backend(through)})` : name;
}

/** `1.9 TB/s`: weights read while it answers. */
export function answers(check: DeviceCheck): string {
  return `${scaled(check.bytesPerSecond)}B/s`;
}

/** `41 T weights/s`: weights that meet a token while a prompt is read. */
export function prompts(check: DeviceCheck): string {
  return `${scaled(check.productsPerSecond)} weights/s`;
}

/** Seconds that a usual turn takes with a billion weights in 4 bits: 512 tokens read, 128 answered. The engine ranks by it. */
export function turnSeconds(check: DeviceCheck): number {
  return (512 * 1e9) / Math.max(1, check.productsPerSecond) + (128 * 1e9 * 18) / 32 / Math.max(1, check.bytesPerSecond);
}

/** A build that some GPUs can all be used by. */
export interface Offer {
  build: string;
  name: string;
  /** What it does otherwise than the processor. */
  wrong: string | null;
  /** Seconds of a usual turn on the slowest of them; none: not all were measured. */
  seconds: number | null;
}

/** The builds that all of these GPUs can be used by. */
export function offers(gpus: readonly Device[]): Offer[] {
  return (gpus[0]?.ways ?? []).flatMap((way): Offer[] => {
    const ways = gpus.map((gpu) => gpu.ways.find(({ build }) => build === way.build));
    if (ways.includes(undefined)) return [];
    const checks = ways.flatMap((found) => found?.check ?? []);
    const seconds = checks.length === gpus.length ? Math.max(...checks.map(turnSeconds)) : null;
    return [{ build: way.build, name: wayName(way), wrong: checks.find(({ wrong }) => wrong !== null)?.wrong ?? null, seconds }];
  });
}

/** The offer that is taken where a person chose none: the fastest that is right; of equals, the first. */
export function taken(all: readonly Offer[]): Offer | null {
  const seconds = (offer: Offer) => offer.seconds ?? Number.MAX_VALUE;
  return all.filter(({ wrong }) => wrong === null).reduce<Offer | null>((best, next) => (best !== null && seconds(best) <= seconds(next) ? best : next), null);
}

/** Why that one. */
export function whyTaken(all: readonly Offer[], { name, build, seconds }: Offer): string {
  const others = all.filter((offer) => offer.build !== build && offer.wrong === null);
  if (others.length === 0) return `Automatic takes ${name}: nothing else computes what the processor does.`;
  if (seconds === null) return `Automatic takes ${name} until all have been measured.`;
  if (others.every((offer) => offer.seconds === null)) return `Automatic takes ${name}: nothing else has been measured yet.`;
  return `Automatic takes ${name}: it was measured fastest.`;
}
