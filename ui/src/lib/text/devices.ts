// Devices, layers and plans as a person reads them.

import type { Device, ModelInfo, Plan, PlannedDevice } from "../host";
import { count, fileSize, plural } from "./format";
import { turnSeconds } from "./ways";

const kinds: Record<string, string> = { cpu: "Processor", discrete: "Graphics card", integrated: "Integrated graphics", software: "Software renderer" };

export function kind(device: Device): string {
  return kinds[device.kind] ?? device.kind;
}

/** Where a loaded model runs: `CPU`, `NVIDIA GeForce RTX 4070, 20 of 31 layers`. */
export function place(info: ModelInfo): string {
  if (info.gpuLayers === 0) return "CPU";
  const gpu = info.placement.find((d) => d.id !== "cpu" && d.layers.length > 0)?.name ?? info.device;
  return info.gpuLayers >= info.layersTotal ? gpu : `${gpu}, ${count(info.gpuLayers)} of ${plural(info.layersTotal, "layer")}`;
}

/** Whether a device is the one that settings or a measurement name: by its identity or, in old ones, by its id. */
export function means(name: string, device: Device): boolean {
  return device.identity === name || device.id === name;
}

/**
 * Whether a GPU is used without being asked for, as the engine decides it. A software renderer never is. Where both were measured
 * it has to be faster than the processor; where not, it has to have memory of its own, or to be Apple's.
 */
export function byItself(device: Device, processor: Device | null): boolean {
  if (!device.usable || (device.kind !== "discrete" && device.kind !== "integrated")) return false;
  const gpu = device.ways[0]?.check;
  const cpu = processor?.ways[0]?.check;
  if (gpu && cpu) return turnSeconds(gpu) < turnSeconds(cpu);
  return device.kind === "discrete" || device.backend === "metal";
}

/** What lies on a device: `token embedding, blocks 0 to 11, the output layer`. */
export function lying(layers: readonly string[]): string {
  const blocks = layers.filter((name) => name.startsWith("blk.")).map((name) => Number(name.slice(4)));
  const parts: string[] = [];
  if (layers.includes("token_embd")) parts.push("token embedding");
  const [first, last] = [blocks[0], blocks.at(-1)];
  if (first !== undefined && last !== undefined) parts.push(first === last ? `block ${first}` : `blocks ${first} to ${last}`);
  if (layers.includes("output")) parts.push("the output layer");
  return parts.length === 0 ? "nothing" : parts.join(", ");
}

export interface Part {
  kind: "weights" | "kv" | "compute" | "others" | "margin" | "free";
  name: string;
  bytes: number;
}

/** What a device's memory is for, in the order of its bar. A model that does not fit leaves nothing free. */
export function parts(device: PlannedDevice): Part[] {
  const others = device.total === null || device.free === null ? 0 : Math.max(0, device.total - device.free);
  const ours = device.weights + device.kv + device.compute + device.margin;
  const free = device.total === null ? 0 : Math.max(0, device.total - others - ours);
  const all: Part[] = [
    { kind: "others", name: "Other programs", bytes: others },
    { kind: "weights", name: "Weights", bytes: device.weights },
    { kind: "kv", name: "KV cache", bytes: device.kv },
    { kind: "compute", name: "Compute", bytes: device.compute },
    { kind: "margin", name: "Kept free", bytes: device.margin },
    { kind: "free", name: "Free", bytes: free },
  ];
  return all.filter((part) => part.bytes > 0);
}

/** The bar in words, for whoever does not see it. */
export function barText(device: PlannedDevice): string {
  const of = device.total === null ? "" : ` of ${fileSize(device.total)}`;
  return `${device.name}${of}: ${parts(device).map((part) => `${part.name} ${fileSize(part.bytes)}`).join(", ")}. ${device.fits ? "It fits." : "It does not fit."}`;
}

export interface Judgement {
  tone: "good" | "warn" | "bad";
  text: string;
}

/** The verdict in a word or five. */
export function judge(plan: Plan): Judgement {
  switch (plan.verdict.type) {
    case "fits":
      return { tone: "good", text: "Fits" };
    case "fitsWithLessContext":
      return { tone: "warn", text: `Fits with a context of ${count(plan.verdict.context)} tokens` };
    case "slow":
      return { tone: "warn", text: "Fits, but will be slow" };
    case "wontFit":
      return { tone: "bad", text: "Does not fit" };
  }
}
