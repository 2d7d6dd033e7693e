// The machines that the scripted host can be, and where a model's bytes would go on each: a plain version of what the
// worker works out.

import type { Device, GpuLayers, KvType, Model, Plan, PlannedDevice, Verdict, WhatIf } from "../wire";

const GB = 1e9;
/** Blocks of every model here; the output layer is one more. */
export const BLOCKS = 30;
const LAYERS = BLOCKS + 1;

const none = { driver: null, api: null, load: null, cores: null, performanceCores: null };

const cpu: Device = { ...none, id: "cpu", kind: "cpu", name: "AMD Ryzen 7 7840U", backend: "cpu", memoryTotal: 34.36 * GB, memoryFree: 12.24 * GB, usable: true, why: "8 cores; its vector instructions in use: AVX-512 with VNNI and BF16.", load: 0.12, cores: 8, performanceCores: 8, backends: ["cpu"] };
const hybrid: Device = { ...cpu, name: "Intel Core i7-13700K", why: "16 cores; its vector instructions in use: AVX2 with VNNI.", cores: 16, performanceCores: 8 };
const discrete: Device = { ...none, id: "gpu0", kind: "discrete", name: "NVIDIA GeForce RTX 4070", backend: "vulkan", memoryTotal: 12.88 * GB, memoryFree: 11.4 * GB, usable: true, why: "It has memory of its own and is the fastest device here.", driver: "NVIDIA 570.86.16", api: "Vulkan 1.4.303", load: 0.07, backends: ["vulkan", "cuda"] };
const integrated: Device = { ...none, id: "gpu1", kind: "integrated", name: "Intel UHD Graphics 770", backend: "vulkan", memoryTotal: 34.36 * GB, memoryFree: 12.24 * GB, usable: true, why: "It shares the processor's memory, and is slower than the processor for models of this kind.", driver: "Mesa 25.0.7", api: "Vulkan 1.4.305", load: 0.02, backends: ["vulkan"] };
const software: Device = { ...none, id: "gpu0", kind: "software", name: "llvmpipe", backend: "vulkan", memoryTotal: null, memoryFree: null, usable: true, why: "Runs in software on the processor; never chosen by itself.", driver: "Mesa 25.0.7", api: "Vulkan 1.4.305", backends: ["vulkan"] };
const crashed: Device = { ...none, id: "gpu0", kind: "discrete", name: "AMD Radeon RX 6600", backend: "", memoryTotal: 8.59 * GB, memoryFree: null, usable: false, why: "Its driver crashed when Hearth looked at it; update the driver, then start Hearth again.", driver: "AMD 31.0.12027", backends: [] };

const machines: Record<string, Device[]> = {
  "no-gpu": [cpu],
  "software-gpu": [cpu, software],
  "two-gpus": [hybrid, discrete, integrated],
  "too-big": [hybrid, { ...discrete, memoryFree: 4.1 * GB, load: 0.64 }],
  "driver-crashed": [cpu, crashed],
};

/** The devices of a scene. */
export function devicesOf(scene: string | null): Device[] {
  return machines[scene ?? ""] ?? [cpu, { ...software, usable: false }];
}

/** The devices a moment later: memory and load move a little, always in the same way. */
export function stir(devices: Device[], looks: number): Device[] {
  const wave = (looks % 5) / 100;
  return devices.map((d) => ({ ...d, load: d.load === null ? null : d.load + wave, memoryFree: d.memoryFree === null ? null : Math.round(d.memoryFree - wave * GB) }));
}

/** How the machine can be used for a model: like the worker, in round numbers. */
export function planFor(model: Model, how: WhatIf, devices: Device[]): Plan {
  const context = how.context ?? Math.min(8192, model.contextTrained);
  const gpus = devices.filter((d) => d.usable && d.kind !== "cpu" && (how.device === null ? d.kind === "discrete" : d.id === how.device)).slice(0, 1);
  const asked = layers(how.gpuLayers, gpus);
  const most = mostThatFit(model, context, how, devices, gpus);
  const gpuLayers = gpus.length === 0 ? 0 : (asked ?? most);
  const placed = place(model, context, how.kv, gpuLayers, devices, gpus);
  const contextFits = longest(model, how, gpuLayers, devices, gpus);
  const fits = placed.every((d) => d.fits);
  const verdict: Verdict = fits ? (gpuLayers < LAYERS / 2 && model.fileSize > 6 * GB ? { type: "slow" } : { type: "fits" }) : contextFits >= 512 ? { type: "fitsWithLessContext", context: contextFits } : { type: "wontFit" };
  return { fits, verdict, why: why(placed, fits, gpuLayers, verdict), context, contextFits, gpuLayers, layersTotal: LAYERS, layersFit: most, kv: how.kv, devices: placed };
}

function layers(wish: GpuLayers, gpus: Device[]): number | null {
  if (gpus.length === 0) return 0;
  return wish.type === "auto" ? null : wish.type === "all" ? LAYERS : Math.min(wish.count, LAYERS);
}

function mostThatFit(model: Model, context: number, how: WhatIf, devices: Device[], gpus: Device[]): number {
  for (let n = gpus.length === 0 ? 0 : LAYERS; n > 0; n--) {
    if (place(model, context, how.kv, n, devices, gpus).every((d) => d.id === "cpu" || d.fits)) return n;
  }
  return 0;
}

function longest(model: Model, how: WhatIf, gpuLayers: number, devices: Device[], gpus: Device[]): number {
  for (let context = model.contextTrained; context >= 512; context -= 512) {
    if (place(model, context, how.kv, gpuLayers, devices, gpus).every((d) => d.fits)) return context;
  }
  return 0;
}

/** The last blocks and the output layer lie on the GPU, the rest on the processor. */
function place(model: Model, context: number, kv: KvType, gpuLayers: number, devices: Device[], gpus: Device[]): PlannedDevice[] {
  const block = (model.fileSize * 0.8) / BLOCKS;
  const head = model.fileSize * 0.1;
  const cache = ((context * model.fileSize) / 20_000 / BLOCKS) * (kv === "f16" ? 1 : 17 / 32);
  const onGpu = Math.min(BLOCKS, Math.max(0, gpuLayers - 1));
  const blocks = Array.from({ length: BLOCKS }, (_, i) => `blk.${i}`);
  const all = gpuLayers >= LAYERS;
  return devices.flatMap((device): PlannedDevice[] => {
    const here = device.kind === "cpu";
    if (!here && (gpuLayers === 0 || !gpus.includes(device))) return [];
    const names = here ? [...(all ? [] : ["token_embd"]), ...blocks.slice(0, BLOCKS - onGpu), ...(gpuLayers === 0 ? ["output"] : [])] : [...(all ? ["token_embd"] : []), ...blocks.slice(BLOCKS - onGpu), "output"];
    const many = names.filter((name) => name.startsWith("blk")).length;
    const weights = Math.round(many * block + (names.length - many) * head);
    const planned = { weights, kv: Math.round(many * cache), compute: names.length === 0 ? 0 : 48e6 + model.fileSize * 0.02, margin: here ? 1e9 : 5e8 };
    const need = planned.weights + planned.kv + planned.compute + planned.margin;
    return [{ id: device.id, name: device.name, ...planned, compute: Math.round(planned.compute), total: device.memoryTotal, free: device.memoryFree, layers: names, fits: device.memoryFree === null || need <= device.memoryFree }];
  });
}

function why(placed: PlannedDevice[], fits: boolean, gpuLayers: number, verdict: Verdict): string {
  const tight = placed.find((d) => !d.fits);
  if (tight) return `${tight.name} has too little free memory for what would lie there.`;
  if (verdict.type === "slow") return `Only ${gpuLayers} of ${LAYERS} layers fit on the GPU, and the processor reads the rest slowly.`;
  if (!fits || gpuLayers === 0) return "All layers lie in main memory, and the processor does the work.";
  return gpuLayers >= LAYERS ? "The whole model fits on the GPU." : `${gpuLayers} of ${LAYERS} layers lie on the GPU, the rest in main memory.`;
}
