// Labels for devices, layers and memory plans.

import type { Device, ModelInfo, Plan, PlannedDevice } from "../host";
import { count, fileSize, plural } from "./format";

const kinds: Record<string, string> = { cpu: "CPU", discrete: "Discrete GPU", integrated: "Integrated GPU", software: "Software renderer" };

export function kindLabel(device: Device): string {
  return kinds[device.kind] ?? device.kind;
}

/** Where a loaded model runs: `CPU`, `NVIDIA GeForce RTX 4070, 20 of 31 layers`. */
export function placementLabel(info: ModelInfo): string {
  if (info.gpuLayers === 0) return "CPU";
  const gpu = info.placement.find((d) => d.id !== "cpu" && d.layers.length > 0)?.name ?? info.device;
  return info.gpuLayers >= info.layersTotal ? gpu : `${gpu}, ${count(info.gpuLayers)} of ${plural(info.layersTotal, "layer")}`;
}

/** Whether a name from the settings or a measurement means this device: its identity or, in old ones, its id. */
export function matchesDevice(name: string, device: Device): boolean {
  return device.identity === name || device.id === name;
}

/** Why chat and training run on the CPU without being told to, from the engine's reasons for not selecting each GPU. */
export function cpuReason(gpus: readonly Device[]): string {
  const usable = gpus.filter((gpu) => gpu.usable);
  if (usable.length === 0) return "Automatic: no usable GPU.";
  const rivals = usable.filter((gpu) => gpu.selection !== "software");
  if (rivals.length === 0) return "Automatic: a software renderer is slower than the CPU it runs on.";
  if (rivals.some((gpu) => gpu.selection === "sharesMemory")) return "Automatic: a GPU that shares the CPU's memory is seldom faster.";
  return "Automatic: measured faster than any GPU here.";
}

/** The layers on a device: `token embedding, layers 0 to 11, output layer`. */
export function layersLabel(layers: readonly string[]): string {
  const indices = layers.filter((name) => name.startsWith("blk.")).map((name) => Number(name.slice(4)));
  const parts: string[] = [];
  if (layers.includes("token_embd")) parts.push("token embedding");
  const [first, last] = [indices[0], indices.at(-1)];
  if (first !== undefined && last !== undefined) parts.push(first === last ? `layer ${first}` : `layers ${first} to ${last}`);
  if (layers.includes("output")) parts.push("output layer");
  return parts.length === 0 ? "no layers" : parts.join(", ");
}

export interface MemoryPart {
  kind: "weights" | "kv" | "snapshots" | "draft" | "compute" | "others" | "margin" | "free";
  name: string;
  bytes: number;
}

/** The parts of a device's memory, in the order of its bar. A model that does not fit leaves nothing free. */
export function memoryParts(device: PlannedDevice): MemoryPart[] {
  const others = device.total === null || device.free === null ? 0 : Math.max(0, device.total - device.free);
  const ours = device.weights + device.kv + device.draft + device.compute + device.margin;
  const free = device.total === null ? 0 : Math.max(0, device.total - others - ours);
  const all: MemoryPart[] = [
    { kind: "others", name: "Other programs", bytes: others },
    { kind: "weights", name: "Weights", bytes: device.weights },
    // Snapshots are a part of the cache.
    { kind: "kv", name: "KV cache", bytes: Math.max(0, device.kv - device.snapshots) },
    { kind: "snapshots", name: "Snapshots", bytes: Math.min(device.kv, device.snapshots) },
    { kind: "draft", name: "Draft", bytes: device.draft },
    { kind: "compute", name: "Compute", bytes: device.compute },
    { kind: "margin", name: "Reserved", bytes: device.margin },
    { kind: "free", name: "Free", bytes: free },
  ];
  return all.filter((part) => part.bytes > 0);
}

/** The bar as text, for screen readers. */
export function memoryText(device: PlannedDevice): string {
  const of = device.total === null ? "" : ` of ${fileSize(device.total)}`;
  return `${device.name}${of}: ${memoryParts(device).map((part) => `${part.name} ${fileSize(part.bytes)}`).join(", ")}. ${device.fits ? "It fits." : "It does not fit."}`;
}

export interface VerdictLabel {
  tone: "good" | "warn" | "bad";
  text: string;
}

/** The verdict in a few words. */
export function verdictLabel(plan: Pick<Plan, "verdict">): VerdictLabel {
  switch (plan.verdict.type) {
    case "fits":
      return { tone: "good", text: "Fits" };
    case "fitsWithLessContext":
      return { tone: "warn", text: `Fits with a context length of ${count(plan.verdict.context)}` };
    case "slow":
      return { tone: "warn", text: "Fits, but may be slow" };
    case "wontFit":
      return { tone: "bad", text: "Won't fit" };
  }
}
