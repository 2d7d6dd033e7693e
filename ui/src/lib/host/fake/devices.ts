// The machines of the fake host. Recordings of the engine describe them; see docs/ARCHITECTURE.md.

import type { Device } from "../wire";
import { devicesOf } from "./checks";

const GB = 1e9;

/** A recorded machine in its current state. */
export interface Machine {
  /** Its name in the recordings. */
  machine: string;
  devices: Device[];
}

const machines: Record<string, string> = { "old-settings": "two-gpus" };
const own = ["no-gpu", "software-gpu", "two-gpus", "unchecked-gpu", "wrong-gpu", "too-big", "driver-crashed"];

/** The machine of a scene. */
export function machineOf(scene: string | null): Machine {
  const machine = machines[scene ?? ""] ?? own.find((name) => name === scene) ?? "default";
  return { machine, devices: devicesOf(machine) };
}

/** The devices a moment later: memory and load fluctuate, reproducibly. */
export function fluctuate(devices: Device[], polls: number): Device[] {
  const wave = (polls % 5) / 100;
  return devices.map((d) => ({
    ...d,
    load: d.load === null ? null : d.load + wave,
    memoryFree: d.memoryFree === null ? null : Math.round(d.memoryFree - wave * GB),
  }));
}
