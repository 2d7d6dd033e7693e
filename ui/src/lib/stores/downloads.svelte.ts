// Owns the downloads of models.

import type { Download, Host, HostEvent, Announced } from "../host";
import { isActive } from "../text/models";
import { Reading } from "./reading";

export class Downloads {
  /** All downloads, newest first. */
  all: readonly Download[] = $state.raw([]);
  /** Sources whose start request is pending. */
  private starting: readonly string[] = $state.raw([]);

  /** Downloads that are queued, running, being checked, or wait for their next attempt. */
  readonly active: readonly Download[] = $derived(this.all.filter(isActive));
  /** Whether none can continue: some wait for their next attempt, the others for them. */
  readonly isWaiting: boolean = $derived(
    this.active.some(({ state }) => state.type === "waiting") &&
      this.active.every(({ state }) => state.type === "waiting" || state.type === "queued"),
  );
  /** Progress of the active downloads, from 0 to 1; `null` if no total is known. */
  readonly fraction: number | null = $derived.by(() => {
    const sized = this.active.filter(({ total }) => total !== null && total > 0);
    const total = sized.reduce((sum, download) => sum + (download.total ?? 0), 0);
    return total === 0 ? null : Math.min(1, sized.reduce((sum, { done }) => sum + done, 0) / total);
  });
  readonly bytesPerSecond: number = $derived(this.active.reduce((sum, download) => sum + download.bytesPerSecond, 0));

  private readonly reading = new Reading((event) => this.apply(event));

  constructor(private readonly host: Host) {}

  async load(): Promise<void> {
    await this.reading.read(
      this.host,
      (host) => host.downloads(),
      (downloads) => (this.all = downloads),
    );
  }

  get(id: number): Download | null {
    return this.all.find((download) => download.id === id) ?? null;
  }

  /** The newest download of a source. */
  of(source: string): Download | null {
    return this.all.find((download) => download.source === source) ?? null;
  }

  isStarting(source: string): boolean {
    return this.starting.includes(source);
  }

  /**
   * Queues a download. A second request for the same source is ignored while the first is pending.
   */
  async start(source: string): Promise<Download | null> {
    if (this.isStarting(source)) return null;
    this.starting = [...this.starting, source];
    try {
      const download = await this.host.startDownload(source);
      // Its events may have arrived before the reply.
      if (this.get(download.id) === null) this.all = [download, ...this.all];
      return download;
    } finally {
      this.starting = this.starting.filter((other) => other !== source);
    }
  }

  async remove(id: number): Promise<void> {
    await this.host.removeDownload(id);
    this.all = this.all.filter((download) => download.id !== id);
  }

  /** Removes completed downloads from the list; their models stay. */
  async clear(): Promise<void> {
    for (const { id, state } of this.all) if (state.type === "done") await this.remove(id);
  }

  handle(event: Announced): void {
    this.reading.handle(event);
  }

  private apply(event: HostEvent): void {
    if (event.type === "downloadsChanged") this.all = event.downloads;
    else if (event.type === "downloadProgress") {
      const { id, done, total, bytesPerSecond } = event;
      this.all = this.all.map((download) =>
        download.id === id ? { ...download, done, total, bytesPerSecond } : download,
      );
    }
  }
}
