// Owns the devices of this machine, their checks, and the measurements.

import { asProblem, type Device, type Host, type HostEvent, type Measurement, type Problem } from "../host";
import { matchesDevice } from "../text/devices";

/** Polling interval in milliseconds while a page shows the devices. */
const POLL_MS = 2000;

export class Machine {
  devices: readonly Device[] | null = $state.raw(null);
  /** Why the last poll failed. */
  problem: Problem | null = $state.raw(null);
  /** Identity of the device being checked. */
  checking: string | null = $state(null);
  /** The device whose last check failed, and why. */
  checkProblem: { device: string; problem: Problem } | null = $state.raw(null);
  measurements: readonly Measurement[] = $state.raw([]);
  /** Progress of the measurement, from 0 to 1; `null` if none runs. */
  measuring: number | null = $state(null);
  /** Why the last measurement failed. */
  measureProblem: Problem | null = $state.raw(null);

  /** Number of finished checks: a poll that began before one is outdated. */
  private checks = 0;

  readonly gpus: readonly Device[] = $derived((this.devices ?? []).filter((d) => d.kind !== "cpu"));
  /** GPUs that may be used without being requested. */
  readonly automatic: readonly Device[] = $derived(this.gpus.filter((gpu) => gpu.selection === "selected"));

  constructor(private readonly host: Host) {}

  /** Polls the devices, one poll at a time; returns a function that stops polling. */
  watch(): () => void {
    let over = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async () => {
      await this.look();
      if (!over) timer = setTimeout(() => void look(), POLL_MS);
    };
    void look();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }

  async look(): Promise<void> {
    const { checks } = this;
    try {
      const devices = await this.host.devices();
      if (checks === this.checks) this.devices = devices;
      this.problem = null;
    } catch (error) {
      this.problem = asProblem(error);
    }
  }

  /** The device that a name in the settings or a measurement means. */
  find(name: string): Device | null {
    return this.devices?.find((device) => matchesDevice(name, device)) ?? null;
  }

  /** The display name of a device; the given name if it is missing. */
  name(name: string): string {
    return this.find(name)?.name ?? (name === "cpu" ? "CPU" : name);
  }

  /**
   * Checks a device against the CPU and measures it. One check at a time, since two would slow each
   * other. Returns `false` if it failed.
   */
  async check(device: string): Promise<boolean> {
    if (this.checking !== null) return false;
    this.checking = device;
    this.checkProblem = null;
    try {
      this.devices = await this.host.checkDevice(device);
      this.checks += 1;
      return true;
    } catch (error) {
      this.checkProblem = { device, problem: asProblem(error) };
      return false;
    } finally {
      this.checking = null;
    }
  }

  async loadMeasurements(): Promise<void> {
    this.measurements = await this.host.measurements();
  }

  async measure(): Promise<void> {
    if (this.measuring !== null) return;
    this.measuring = 0;
    this.measureProblem = null;
    try {
      await this.host.measure();
      await this.loadMeasurements();
    } catch (error) {
      this.measureProblem = asProblem(error);
    } finally {
      this.measuring = null;
    }
  }

  handle(event: HostEvent): void {
    if (event.type === "measureProgress" && this.measuring !== null) this.measuring = event.fraction;
  }
}
