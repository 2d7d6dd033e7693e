// Labels for devices, layers and memory plans.

import { m } from "$messages";
import type { Device, ModelInfo, Plan, PlannedDevice } from "../host";
import { count, fileSize, list } from "./format";

const kinds: Record<string, () => string> = {
  cpu: () => "CPU",
  discrete: m.text_device_discrete,
  integrated: m.text_device_integrated,
  software: m.text_device_software,
};

export function kindLabel(device: Device): string {
  return kinds[device.kind]?.() ?? device.kind;
}

/** The devices of a loaded model: `CPU`, `NVIDIA GeForce RTX 4070, 20 of 31 layers`. */
export function placementLabel(info: ModelInfo): string {
  if (info.gpuLayers === 0) return "CPU";
  const gpu = info.placement.find((d) => d.id !== "cpu" && d.layers.length > 0)?.name ?? info.device;
  return info.gpuLayers >= info.layersTotal
    ? gpu
    : m.text_placement({ device: gpu, on: count(info.gpuLayers), total: info.layersTotal });
}

/**
 * Whether a name from the settings or a measurement refers to this device: its identity, or its id
 * in older files.
 */
export function matchesDevice(name: string, device: Device): boolean {
  return device.identity === name || device.id === name;
}

/**
 * The reason for which chat and training use the CPU automatically, from the reasons for not
 * selecting each GPU.
 */
export function cpuReason(gpus: readonly Device[]): string {
  const usable = gpus.filter((gpu) => gpu.usable);
  if (usable.length === 0) return m.text_device_cpu_no_gpu();
  const rivals = usable.filter((gpu) => gpu.selection !== "software");
  if (rivals.length === 0) return m.text_device_cpu_software();
  if (rivals.some((gpu) => gpu.selection === "sharesMemory")) return m.text_device_cpu_shared_memory();
  return m.text_device_cpu_fastest();
}

/** The layers on a device: `token embedding, layers 0 to 11, output layer`. */
export function layersLabel(layers: readonly string[]): string {
  const indices = layers.filter((name) => name.startsWith("blk.")).map((name) => Number(name.slice(4)));
  const parts: string[] = [];
  if (layers.includes("token_embd")) parts.push(m.text_layers_embedding());
  const [first, last] = [indices[0], indices.at(-1)];
  if (first !== undefined && last !== undefined)
    parts.push(first === last ? m.text_layers_one({ n: first }) : m.text_layers_range({ first, last }));
  if (layers.includes("output")) parts.push(m.text_layers_output());
  return parts.length === 0 ? m.text_layers_none() : list(parts);
}

export interface MemoryPart {
  kind: "weights" | "kv" | "snapshots" | "draft" | "compute" | "others" | "margin" | "free";
  name: string;
  bytes: number;
}

/**
 * The parts of a device's memory, in the order of its bar. A model that does not fit leaves nothing
 * free.
 */
export function memoryParts(device: PlannedDevice): MemoryPart[] {
  const others = device.total === null || device.free === null ? 0 : Math.max(0, device.total - device.free);
  const ours = device.weights + device.kv + device.draft + device.compute + device.margin;
  const free = device.total === null ? 0 : Math.max(0, device.total - others - ours);
  const all: MemoryPart[] = [
    { kind: "others", name: m.text_memory_others(), bytes: others },
    { kind: "weights", name: m.text_memory_weights(), bytes: device.weights },
    // Snapshots are a part of the cache.
    { kind: "kv", name: m.text_memory_kv(), bytes: Math.max(0, device.kv - device.snapshots) },
    { kind: "snapshots", name: m.text_memory_snapshots(), bytes: Math.min(device.kv, device.snapshots) },
    { kind: "draft", name: m.text_memory_draft(), bytes: device.draft },
    { kind: "compute", name: m.text_memory_compute(), bytes: device.compute },
    { kind: "margin", name: m.text_memory_reserved(), bytes: device.margin },
    { kind: "free", name: m.text_memory_free(), bytes: free },
  ];
  return all.filter((part) => part.bytes > 0);
}

/** The bar as text, for screen readers. */
export function memoryText(device: PlannedDevice): string {
  const named =
    device.total === null ? device.name : m.text_device_of_total({ name: device.name, total: fileSize(device.total) });
  const parts = list(memoryParts(device).map(({ name, bytes }) => m.text_memory_part({ name, size: fileSize(bytes) })));
  return device.fits ? m.text_memory_fits({ device: named, parts }) : m.text_memory_too_small({ device: named, parts });
}

export interface VerdictLabel {
  tone: "good" | "warn" | "bad";
  text: string;
}

/** The verdict in a few words. */
export function verdictLabel(plan: Pick<Plan, "verdict">): VerdictLabel {
  switch (plan.verdict.type) {
    case "fits":
      return { tone: "good", text: m.text_verdict_fits() };
    case "fitsWithLessContext":
      return { tone: "warn", text: m.text_verdict_less_context({ n: count(plan.verdict.context) }) };
    case "slow":
      return { tone: "warn", text: m.text_verdict_slow() };
    case "wontFit":
      return { tone: "bad", text: m.text_verdict_wont_fit() };
  }
}
