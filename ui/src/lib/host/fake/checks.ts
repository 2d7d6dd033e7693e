// Device checks of the fake machines, ranked and judged by the engine (recordings/machines.json).

import { matchesDevice } from "../../text/devices";
import type { Device } from "../wire";
import recording from "./recordings/machines.json?raw";

interface Recorded {
  initiallyChecked: boolean;
  unchecked: Device;
  /** `null` if no build can check it. */
  checked: Device | null;
}

const machines = JSON.parse(recording) as Record<string, Recorded[]>;

function recorded(machine: string): Recorded[] {
  return machines[machine] ?? [];
}

/** The devices of a machine when the window opens. */
export function devicesOf(machine: string): Device[] {
  return recorded(machine).map((d) => (d.initiallyChecked ? (d.checked ?? d.unchecked) : d.unchecked));
}

/** The devices after a device check. The CPU is the reference for GPUs, so it is measured too. */
export function afterCheck(machine: string, devices: Device[], device: string): Device[] {
  return devices.map((d, at) =>
    d.kind === "cpu" || matchesDevice(device, d) ? (recorded(machine)[at]?.checked ?? d) : d,
  );
}

/** The ids of the checked devices, as the recorded plans name them. */
export function checkedIds(devices: Device[]): string {
  return devices
    .filter((d) => d.backends.some(({ check }) => check !== null))
    .map((d) => d.id)
    .join(" ");
}
