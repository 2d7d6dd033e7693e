// Owns what the servers of downloaded models said of them, once a person asked.

import type { Host, HostEvent, ModelUpdate } from "../host";

export class Updates {
  /** One for each downloaded model; `null` before the first check. */
  all: readonly ModelUpdate[] | null = $state.raw(null);
  isChecking = $state(false);

  readonly available: number = $derived(this.count("available"));
  readonly unknown: number = $derived(this.count("unknown"));

  /** Sources that are being downloaded since the check: what was done before it is the old version. */
  private readonly begun = new Set<string>();

  constructor(private readonly host: Host) {}

  of(model: string): ModelUpdate | null {
    return this.all?.find((update) => update.model === model) ?? null;
  }

  /** Asks the servers; a second request before the first is answered is ignored. */
  async check(): Promise<void> {
    if (this.isChecking) return;
    this.isChecking = true;
    try {
      this.all = await this.host.checkUpdates();
      this.begun.clear();
    } finally {
      this.isChecking = false;
    }
  }

  handle(event: HostEvent): void {
    if (event.type !== "downloadsChanged") return;
    for (const { source, state } of event.downloads) {
      if (state.type !== "done") this.begun.add(source);
      else if (this.begun.delete(source)) this.all = this.all?.map((update) => (update.source === source ? { ...update, state: { type: "current" } } : update)) ?? null;
    }
  }

  private count(type: ModelUpdate["state"]["type"]): number {
    return this.all?.filter(({ state }) => state.type === type).length ?? 0;
  }
}
