// Owns what is known of this machine: its devices as they are now, and what was measured on it.

import { asProblem, type Device, type Host, type HostEvent, type Measurement, type Problem } from "../host";

/** Milliseconds between two looks at the devices, while a page shows them. */
const EVERY = 2000;

export class Machine {
  devices: readonly Device[] | null = $state.raw(null);
  /** Why the devices could not be looked at the last time. */
  problem: Problem | null = $state.raw(null);
  measurements: readonly Measurement[] = $state.raw([]);
  /** How far a measurement is, from 0 to 1; none: nothing is measured. */
  measuring: number | null = $state(null);
  /** Why the last measurement came to nothing. */
  unmeasured: Problem | null = $state.raw(null);

  readonly gpus: readonly Device[] = $derived((this.devices ?? []).filter((d) => d.kind !== "cpu"));

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
    try {
      this.devices = await this.host.devices();
      this.problem = null;
    } catch (thrown) {
      this.problem = asProblem(thrown);
    }
  }

  name(id: string): string {
    return id === "cpu" ? "the processor" : (this.devices?.find((d) => d.id === id)?.name ?? id);
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
