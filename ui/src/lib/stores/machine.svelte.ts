// Owns what is known of this machine: its devices as they are now, what checking them found, and what was measured on it.

import { asProblem, type Device, type Host, type HostEvent, type Measurement, type Problem } from "../host";
import { byItself, means } from "../text/devices";

/** Milliseconds between two looks at the devices, while a page shows them. */
const EVERY = 2000;

export class Machine {
  devices: readonly Device[] | null = $state.raw(null);
  /** Why the devices could not be looked at the last time. */
  problem: Problem | null = $state.raw(null);
  /** The identity of the device that is being checked. */
  checking: string | null = $state(null);
  /** Which device could not be checked the last time, and why. */
  unchecked: { device: string; problem: Problem } | null = $state.raw(null);
  measurements: readonly Measurement[] = $state.raw([]);
  /** How far a measurement is, from 0 to 1; none: nothing is measured. */
  measuring: number | null = $state(null);
  /** Why the last measurement came to nothing. */
  unmeasured: Problem | null = $state.raw(null);

  /** Counts the checks that have ended: a look that began before one is old. */
  private checks = 0;

  readonly gpus: readonly Device[] = $derived((this.devices ?? []).filter((d) => d.kind !== "cpu"));
  /** GPUs that are used without being asked for. */
  readonly automatic: readonly Device[] = $derived(this.gpus.filter((gpu) => byItself(gpu, this.find("cpu"))));

  constructor(private readonly host: Host) {}

  /** Looks at the devices again and again, until what it returns is called. One look at a time. */
  watch(): () => void {
    let over = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async () => {
      await this.look();
      if (!over) timer = setTimeout(() => void look(), EVERY);
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
    } catch (thrown) {
      this.problem = asProblem(thrown);
    }
  }

  /** The device that settings or a measurement name. */
  find(name: string): Device | null {
    return this.devices?.find((device) => means(name, device)) ?? null;
  }

  /** What that device is called; the name itself where it is gone. */
  name(name: string): string {
    return this.find(name)?.name ?? (name === "cpu" ? "The processor" : name);
  }

  /** Compares a device with the processor and measures it; one at a time, as two would slow each other. Whether it was done. */
  async check(device: string): Promise<boolean> {
    if (this.checking !== null) return false;
    this.checking = device;
    this.unchecked = null;
    try {
      this.devices = await this.host.checkDevice(device);
      this.checks += 1;
      return true;
    } catch (thrown) {
      this.unchecked = { device, problem: asProblem(thrown) };
      return false;
    } finally {
      this.checking = null;
    }
  }

  async remember(): Promise<void> {
    this.measurements = await this.host.measurements();
  }

  async measure(): Promise<void> {
    if (this.measuring !== null) return;
    this.measuring = 0;
    this.unmeasured = null;
    try {
      await this.host.measure();
      await this.remember();
    } catch (thrown) {
      this.unmeasured = asProblem(thrown);
    } finally {
      this.measuring = null;
    }
  }

  handle(event: HostEvent): void {
    if (event.type === "measureProgress" && this.measuring !== null) this.measuring = event.fraction;
  }
}
