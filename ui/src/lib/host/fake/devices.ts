// The machines of the fake host, and a simplified memory plan for each.

import { autoSelected, matchesDevice } from "../../text/devices";
import type { Device, GpuLayers, KvType, Model, Plan, PlannedDevice, Verdict, LoadSettings } from "../wire";
import { checked, unchecked } from "./checks";

const GB = 1e9;
/** Transformer layers of every model here; the output layer is one more. */
export const MODEL_LAYERS = 30;
const TOTAL = MODEL_LAYERS + 1;

const none = { driver: null, api: null, load: null, cores: null, performanceCores: null };

const cpu: Device = { ...none, id: "cpu", identity: "cpu", kind: "cpu", name: "AMD Ryzen 7 7840U", backend: "cpu", memoryTotal: 34.36 * GB, memoryFree: 12.24 * GB, usable: true, why: "8 cores; instruction set in use: AVX-512 with VNNI and BF16.", load: 0.12, cores: 8, performanceCores: 8, backendNames: ["cpu"], backends: unchecked([["portable", "cpu"]]) };
const hybrid: Device = { ...cpu, name: "Intel Core i7-13700K", why: "16 cores; instruction set in use: AVX2 with VNNI.", cores: 16, performanceCores: 8 };
const gpu: Device = { ...none, id: "gpu0", identity: "", kind: "discrete", name: "", backend: "vulkan", memoryTotal: null, memoryFree: null, usable: true, why: "Hearth can use it through Vulkan.", api: "Vulkan 1.4.305", backendNames: ["vulkan"], backends: unchecked([["portable", "vulkan"]]) };
const discrete: Device = { ...gpu, identity: "0000:01:00.0", name: "NVIDIA GeForce RTX 4070", memoryTotal: 12.88 * GB, memoryFree: 11.4 * GB, why: "Hearth can use it through Vulkan or CUDA.", driver: "NVIDIA 570.86.16", api: "Vulkan 1.4.303", load: 0.07, backendNames: ["vulkan", "cuda"], backends: unchecked([["portable", "vulkan"], ["vulkan", "vulkan"], ["cuda", "cuda"]]) };
const radeon: Device = { ...gpu, identity: "0000:0a:00.0", name: "AMD Radeon RX 7800 XT", memoryTotal: 17.16 * GB, memoryFree: 15.9 * GB, why: "Hearth can use it through Vulkan or ROCm.", driver: "Mesa 25.0.7", load: 0.03, backendNames: ["vulkan", "rocm"], backends: unchecked([["portable", "vulkan"], ["vulkan", "vulkan"], ["rocm", "rocm"]]) };
const integrated: Device = { ...gpu, id: "gpu1", identity: "0000:00:02.0", kind: "integrated", name: "Intel UHD Graphics 770", memoryTotal: 34.36 * GB, memoryFree: 12.24 * GB, driver: "Mesa 25.0.7", load: 0.02 };
const software: Device = { ...gpu, identity: "llvmpipe", kind: "software", name: "llvmpipe", why: "A software renderer on the CPU; never selected automatically.", driver: "Mesa 25.0.7" };
const miscomputing: Device = { ...gpu, identity: "0000:03:00.0", name: "AMD Radeon RX 6600", memoryTotal: 8.59 * GB, memoryFree: 7.8 * GB, driver: "AMD 31.0.12027", load: 0.01 };
const crashed: Device = { ...miscomputing, backend: "", memoryFree: null, usable: false, why: "The process that checks the device crashed (signal 11). Check it again.", load: null, api: null, backendNames: [], backends: [] };
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
  return machines[scene ?? ""] ?? [cpu, { ...software, usable: false, backends: [] }];
}

/** The devices a moment later: memory and load fluctuate, reproducibly. */
export function fluctuate(devices: Device[], polls: number): Device[] {
  const wave = (polls % 5) / 100;
  return devices.map((d) => ({ ...d, load: d.load === null ? null : d.load + wave, memoryFree: d.memoryFree === null ? null : Math.round(d.memoryFree - wave * GB) }));
}

/** Plans a model like the worker, in round numbers. */
export function planFor(model: Model, load: LoadSettings, devices: Device[]): Plan {
  const context = load.context ?? Math.min(8192, model.contextTrained);
  const cpuDevice = devices.find((d) => d.kind === "cpu") ?? null;
  const gpus = devices.filter((d) => d.usable && d.kind !== "cpu" && (load.device === null ? autoSelected(d, cpuDevice) : matchesDevice(load.device, d))).slice(0, 1);
  const asked = layers(load.gpuLayers, gpus);
  const most = mostThatFit(model, context, load, devices, gpus);
  const gpuLayers = gpus.length === 0 ? 0 : (asked ?? most);
  const placed = place(model, context, load.kv, gpuLayers, devices, gpus);
  const contextFits = longest(model, load, gpuLayers, devices, gpus);
  const fits = placed.every((d) => d.fits);
  const verdict: Verdict = fits ? (gpuLayers < TOTAL / 2 && model.fileSize > 6 * GB ? { type: "slow" } : { type: "fits" }) : contextFits >= 512 ? { type: "fitsWithLessContext", context: contextFits } : { type: "wontFit" };
  return { fits, verdict, why: why(placed, fits, gpuLayers, verdict), context, contextFits, gpuLayers, layersTotal: TOTAL, layersFit: most, kv: load.kv, devices: placed };
}

function layers(control: GpuLayers, gpus: Device[]): number | null {
  if (gpus.length === 0) return 0;
  return control.type === "auto" ? null : control.type === "all" ? TOTAL : Math.min(control.count, TOTAL);
}

function mostThatFit(model: Model, context: number, load: LoadSettings, devices: Device[], gpus: Device[]): number {
  for (let n = gpus.length === 0 ? 0 : TOTAL; n > 0; n--) {
    if (place(model, context, load.kv, n, devices, gpus).every((d) => d.id === "cpu" || d.fits)) return n;
  }
  return 0;
}

function longest(model: Model, load: LoadSettings, gpuLayers: number, devices: Device[], gpus: Device[]): number {
  for (let context = model.contextTrained; context >= 512; context -= 512) {
    if (place(model, context, load.kv, gpuLayers, devices, gpus).every((d) => d.fits)) return context;
  }
  return 0;
}

/** The last layers and the output layer go to the GPU, the rest to the CPU. */
function place(model: Model, context: number, kv: KvType, gpuLayers: number, devices: Device[], gpus: Device[]): PlannedDevice[] {
  const block = (model.fileSize * 0.8) / MODEL_LAYERS;
  const head = model.fileSize * 0.1;
  const cache = ((context * model.fileSize) / 20_000 / MODEL_LAYERS) * (kv === "f16" ? 1 : 17 / 32);
  const onGpu = Math.min(MODEL_LAYERS, Math.max(0, gpuLayers - 1));
  const blocks = Array.from({ length: MODEL_LAYERS }, (_, i) => `blk.${i}`);
  const all = gpuLayers >= TOTAL;
  return devices.flatMap((device): PlannedDevice[] => {
    const here = device.kind === "cpu";
    if (!here && (gpuLayers === 0 || !gpus.includes(device))) return [];
    const names = here ? [...(all ? [] : ["token_embd"]), ...blocks.slice(0, MODEL_LAYERS - onGpu), ...(gpuLayers === 0 ? ["output"] : [])] : [...(all ? ["token_embd"] : []), ...blocks.slice(MODEL_LAYERS - onGpu), "output"];
    const many = names.filter((name) => name.startsWith("blk")).length;
    const weights = Math.round(many * block + (names.length - many) * head);
    const planned = { weights, kv: Math.round(many * cache), compute: names.length === 0 ? 0 : 48e6 + model.fileSize * 0.02, margin: here ? 1e9 : 5e8 };
    const need = planned.weights + planned.kv + planned.compute + planned.margin;
    return [{ id: device.id, name: device.name, ...planned, compute: Math.round(planned.compute), total: device.memoryTotal, free: device.memoryFree, layers: names, fits: device.memoryFree === null || need <= device.memoryFree }];
  });
}

function why(placed: PlannedDevice[], fits: boolean, gpuLayers: number, verdict: Verdict): string {
  const tight = placed.find((d) => !d.fits);
  if (tight) return `${tight.name} has too little free memory for its layers.`;
  if (verdict.type === "slow") return `Only ${gpuLayers} of ${TOTAL} layers fit on the GPU; the rest run slowly on the CPU.`;
  if (!fits || gpuLayers === 0) return "All layers run on the CPU.";
  return gpuLayers >= TOTAL ? "The whole model fits on the GPU." : `${gpuLayers} of ${TOTAL} layers run on the GPU, the rest on the CPU.`;
}
