// Owns the update states of downloaded models, which are requested from servers when the user asks.

import type { Host, HostEvent, ModelUpdate } from "../host";

export class Updates {
  /** One for each downloaded model; `null` before the first check. */
  all: readonly ModelUpdate[] | null = $state.raw(null);
  isChecking = $state(false);

  readonly available: number = $derived(this.count("available"));
  readonly unknown: number = $derived(this.count("unknown"));

  /** Sources that are being downloaded: those that are done were so before, perhaps in the old version. */
  private begun = new Set<string>();

  /** The same, of the last event alone: a removed download is not begun any more. */
  private underWay = new Set<string>();

  /** Sources that were done while the servers were asked, whose answers may be older. */
  private readonly done = new Set<string>();

  constructor(private readonly host: Host) {}

  of(model: string): ModelUpdate | null {
    return this.all?.find((update) => update.model === model) ?? null;
  }

  /** Asks the servers; a second request before the first is answered is ignored. */
  async check(): Promise<void> {
    if (this.isChecking) return;
    this.isChecking = true;
    this.begun = new Set(this.underWay);
    this.done.clear();
    try {
      const all = await this.host.checkUpdates();
      this.all = all.map((update) =>
        this.done.has(update.source) ? { ...update, state: { type: "current" } } : update,
      );
    } finally {
      this.isChecking = false;
    }
  }

  handle(event: HostEvent): void {
    if (event.type !== "downloadsChanged") return;
    this.underWay = new Set(event.downloads.filter(({ state }) => state.type !== "done").map(({ source }) => source));
    for (const source of this.underWay) this.begun.add(source);
    for (const { source, state } of event.downloads) {
      if (state.type !== "done" || !this.begun.delete(source)) continue;
      this.done.add(source);
      this.all =
        this.all?.map((update) => (update.source === source ? { ...update, state: { type: "current" } } : update)) ??
        null;
    }
  }

  private count(type: ModelUpdate["state"]["type"]): number {
    return this.all?.filter(({ state }) => state.type === type).length ?? 0;
  }
}
