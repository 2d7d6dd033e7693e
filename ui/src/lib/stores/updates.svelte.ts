// Owns the update states of downloaded models, which are requested from servers when the user asks.

import type { Host, HostEvent, ModelUpdate } from "../host";

export class Updates {
  /** The update state of each downloaded model; `null` before the first check. */
  all: readonly ModelUpdate[] | null = $state.raw(null);
  isChecking = $state(false);

  readonly available: number = $derived(this.count("available"));
  readonly unknown: number = $derived(this.count("unknown"));

  /** Sources whose download may still end with a new version. */
  private pending = new Set<string>();

  /** Sources of unfinished downloads in the last event. A removed download is absent. */
  private unfinished = new Set<string>();

  /** Sources whose download ended during a check: the reply of the check may be outdated. */
  private readonly done = new Set<string>();

  constructor(private readonly host: Host) {}

  of(model: string): ModelUpdate | null {
    return this.all?.find((update) => update.model === model) ?? null;
  }

  /** Checks for updates; ignored while a check is in progress. */
  async check(): Promise<void> {
    if (this.isChecking) return;
    this.isChecking = true;
    this.pending = new Set(this.unfinished);
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
    this.unfinished = new Set(event.downloads.filter(({ state }) => state.type !== "done").map(({ source }) => source));
    for (const source of this.unfinished) this.pending.add(source);
    for (const { source, state } of event.downloads) {
      if (state.type !== "done" || !this.pending.delete(source)) continue;
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
