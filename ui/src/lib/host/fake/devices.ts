// The machines that the scripted host can be, and where a model's bytes would go on each: a plain version of what the
// worker works out.

import { byItself, means } from "../../text/devices";
import type { Device, GpuLayers, KvType, Model, Plan, PlannedDevice, Verdict, WhatIf } from "../wire";
import { checked, unchecked } from "./checks";

const GB = 1e9;
/** Blocks of every model here; the output layer is one more. */
export const BLOCKS = 30;
const LAYERS = BLOCKS + 1;

const none = { driver: null, api: null, load: null, cores: null, performanceCores: null };

const cpu: Device = { ...none, id: "cpu", identity: "cpu", kind: "cpu", name: "AMD Ryzen 7 7840U", backend: "cpu", memoryTotal: 34.36 * GB, memoryFree: 12.24 * GB, usable: true, why: "8 cores; its vector instructions in use: AVX-512 with VNNI and BF16.", load: 0.12, cores: 8, performanceCores: 8, backends: ["cpu"], ways: unchecked([["portable", "cpu"]]) };
const hybrid: Device = { ...cpu, name: "Intel Core i7-13700K", why: "16 cores; its vector instructions in use: AVX2 with VNNI.", cores: 16, performanceCores: 8 };
const gpu: Device = { ...none, id: "gpu0", identity: "", kind: "discrete", name: "", backend: "vulkan", memoryTotal: null, memoryFree: null, usable: true, why: "Hearth can use it through Vulkan.", api: "Vulkan 1.4.305", backends: ["vulkan"], ways: unchecked([["portable", "vulkan"]]) };
const discrete: Device = { ...gpu, identity: "0000:01:00.0", name: "NVIDIA GeForce RTX 4070", memoryTotal: 12.88 * GB, memoryFree: 11.4 * GB, why: "Hearth can use it through Vulkan or CUDA.", driver: "NVIDIA 570.86.16", api: "Vulkan 1.4.303", load: 0.07, backends: ["vulkan", "cuda"], ways: unchecked([["portable", "vulkan"], ["vulkan", "vulkan"], ["cuda", "cuda"]]) };
const radeon: Device = { ...gpu, identity: "0000:0a:00.0", name: "AMD Radeon RX 7800 XT", memoryTotal: 17.16 * GB, memoryFree: 15.9 * GB, why: "Hearth can use it through Vulkan or ROCm.", driver: "Mesa 25.0.7", load: 0.03, backends: ["vulkan", "rocm"], ways: unchecked([["portable", "vulkan"], ["vulkan", "vulkan"], ["rocm", "rocm"]]) };
const integrated: Device = { ...gpu, id: "gpu1", identity: "0000:00:02.0", kind: "integrated", name: "Intel UHD Graphics 770", memoryTotal: 34.36 * GB, memoryFree: 12.24 * GB, driver: "Mesa 25.0.7", load: 0.02 };
const software: Device = { ...gpu, identity: "llvmpipe", kind: "software", name: "llvmpipe", why: "Runs in software on the processor; never chosen by itself.", driver: "Mesa 25.0.7" };
const miscomputing: Device = { ...gpu, identity: "0000:03:00.0", name: "AMD Radeon RX 6600", memoryTotal: 8.59 * GB, memoryFree: 7.8 * GB, driver: "AMD 31.0.12027", load: 0.01 };
const crashed: Device = { ...miscomputing, backend: "", memoryFree: null, usable: false, why: "Its driver crashed when Hearth looked at it; update the driver, then start Hearth again.", load: null, api: null, backends: [], ways: [] };
const twoGpus = [checked(hybrid), checked(discrete), integrated];

const machines: Record<string, Device[]> = {
  "no-gpu": [cpu],
  "software-gpu": [cpu, software],
  "two-gpus": twoGpus,
  "old-settings": twoGpus,
  "unchecked-gpu": [cpu, radeon],
  "wrong-gpu": [checked(cpu), checked(miscomputing)],
  "too-big": [checked(hybrid), checked({ ...discrete, memoryFree: 4.1 * GB, load: 0.64 })],
  "driver-crashed": [cpu, crashed],
};

/** The devices of a scene. */
export function devicesOf(scene: string | null): Device[] {
  return machines[scene ?? ""] ?? [cpu, { ...software, usable: false, ways: [] }];
}

/** The devices a moment later: memory and load move a little, always in the same way. */
export function stir(devices: Device[], looks: number): Device[] {
  const wave = (looks % 5) / 100;
  return devices.map((d) => ({ ...d, load: d.load === null ? null : d.load + wave, memoryFree: d.memoryFree === null ? null : Math.round(d.memoryFree - wave * GB) }));
}

/** How the machine can be used for a model: like the worker, in round numbers. */
export function planFor(model: Model, how: WhatIf, devices: Device[]): Plan {
  const context = how.context ?? Math.min(8192, model.contextTrained);
  const processor = devices.find((d) => d.kind === "cpu") ?? null;
  const gpus = devices.filter((d) => d.usable && d.kind !== "cpu" && (how.device === null ? byItself(d, processor) : means(how.device, d))).slice(0, 1);
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
