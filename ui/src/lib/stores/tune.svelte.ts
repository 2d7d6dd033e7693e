// Owns where in Tune the person is, and does there what takes more than one store.

import type { Dataset, FileDrop, HostEvent } from "../host";
import type { App } from "./app.svelte";

/** Its start, the data of the run that is being prepared, or a run. */
export type Place = { at: "start" } | { at: "data" } | { at: "run"; id: number };

export class Tune {
  place: Place = $state.raw({ at: "start" });
  /** Files hang over the window. */
  dragging = $state(false);

  constructor(private readonly app: App) {}

  async start(): Promise<void> {
    const { host, datasets, runs, adapters } = this.app;
    await host.onDrop((drop) => this.dropped(drop));
    await Promise.all([datasets.load(), runs.load(), adapters.load()]);
  }

  handle(event: HostEvent): void {
    if (event.type === "runEnded") this.tellEnd(event.run, event.message);
  }

  /** Files were dragged onto the window: a model goes among the models, anything else is data to learn from. */
  dropped(drop: FileDrop): void {
    this.dragging = drop.type === "over";
    const path = drop.type === "drop" ? drop.paths[0] : undefined;
    if (drop.type !== "drop" || path === undefined) return;
    if (drop.paths.length > 1) this.app.toasts.show({ kind: "note", text: `Only the first of ${drop.paths.length} files was taken.` });
    if (/\.gguf$/i.test(path)) {
      this.app.view = "models";
      void this.app.try(() => this.app.host.addModel(path));
    } else void this.addData(path);
  }

  /** Takes in a file of examples and looks at it. */
  async addData(path: string): Promise<void> {
    await this.app.try(async () => this.prepare(await this.app.host.addDataset(path)));
  }

  async chooseData(): Promise<void> {
    await this.app.try(async () => {
      const path = await this.app.host.chooseDataFile();
      if (path !== null) await this.addData(path);
    });
  }

  /** Makes a dataset of the answers that were rated, and looks at it. */
  async gatherData(): Promise<void> {
    await this.app.try(async () => this.prepare(await this.app.host.gatherDataset("From your chats")));
  }

  async prepare(dataset: Dataset): Promise<void> {
    this.app.view = "tune";
    this.place = { at: "data" };
    await this.app.preparation.begin(dataset, this.app.models.current?.id ?? null);
  }

  async train(): Promise<void> {
    const order = this.app.preparation.order();
    if (!order) return;
    await this.app.try(async () => {
      const run = await this.app.host.startRun(order);
      this.app.runs.put(this.app.runs.get(run.id) ?? run);
      this.openRun(run.id);
    });
  }

  openRun(id: number): void {
    this.app.view = "tune";
    this.place = { at: "run", id };
  }

  /** A new conversation in which each message is answered by the model as it is and as it was taught. */
  async tryAdapter(id: number): Promise<void> {
    const adapter = this.app.adapters.get(id);
    if (!adapter) return;
    const { state } = this.app.models;
    this.app.newConversation();
    this.app.compare.on = true;
    await this.app.try(async () => {
      await this.app.thread.setAdapters([{ adapter: id, scale: 1 }]);
      if (state.type === "none" || state.type === "failed" || state.model !== adapter.model) await this.app.models.load(adapter.model);
    });
  }

  async removeRun(id: number): Promise<void> {
    const name = this.app.runs.get(id)?.name ?? "run";
    await this.app.try(async () => {
      await this.app.runs.remove(id);
      if (this.place.at === "run" && this.place.id === id) this.place = { at: "start" };
      this.app.toasts.show({ kind: "note", text: `Deleted “${name}”`, action: { label: "Undo", run: () => void this.app.try(() => this.restoreRun(id)) } });
    });
  }

  private async restoreRun(id: number): Promise<void> {
    await this.app.host.restoreRun(id);
    await this.app.runs.load();
    this.openRun(id);
  }

  async forgetDataset(id: number): Promise<void> {
    const name = this.app.datasets.get(id)?.name ?? "dataset";
    await this.app.try(async () => {
      await this.app.host.forgetDataset(id);
      if (this.app.preparation.dataset?.id === id) this.place = { at: "start" };
      this.app.toasts.show({ kind: "note", text: `Took “${name}” off the list; its file stays`, action: { label: "Undo", run: () => void this.app.try(() => this.app.host.restoreDataset(id)) } });
    });
  }

  async removeAdapter(id: number): Promise<void> {
    const name = this.app.adapters.get(id)?.name ?? "adapter";
    await this.app.try(async () => {
      await this.app.host.deleteAdapter(id);
      await this.app.thread.setAdapters(this.app.thread.adapters.filter((choice) => choice.adapter !== id));
      this.app.toasts.show({ kind: "note", text: `Deleted “${name}”`, action: { label: "Undo", run: () => void this.app.try(() => this.app.host.restoreAdapter(id)) } });
    });
  }

  /** For whoever looks elsewhere; the run itself says it on its page. */
  private tellEnd(id: number, message: string): void {
    if (this.app.view === "tune" && this.place.at === "run" && this.place.id === id) return;
    this.app.toasts.show({ kind: "note", text: message, action: { label: "See", run: () => this.openRun(id) } });
  }
}
