// Owns the models on this machine and the state of the loaded one.

import type { Host, Announced, Model, ModelState, Problem, Snapshot } from "../host";
import { Reading } from "./reading";

export class Models {
  all: readonly Model[] = $state.raw([]);
  state: ModelState = $state.raw({ type: "none" });
  /** The worker's crash, until a model is loaded or the user dismisses it. */
  crash: Problem | null = $state.raw(null);
  private preferred: string | null = $state(null);

  /** The loaded or loading model; otherwise the model that the next message will load. */
  readonly current: Model | null = $derived.by(() => {
    const state = this.state;
    const id = state.type === "none" ? this.preferred : state.model;
    return this.all.find((m) => m.id === id) ?? this.all.find((m) => m.problem === null) ?? null;
  });

  private readonly reading = new Reading((event) => {
    if (event.type === "modelsChanged") this.all = event.models;
  });

  constructor(private readonly host: Host) {}

  fill(snapshot: Snapshot): void {
    this.all = snapshot.models;
    this.state = snapshot.modelState;
    this.preferred = snapshot.settings.lastModel ?? snapshot.defaultModel;
  }

  async load(id: string): Promise<void> {
    this.preferred = id;
    await this.host.loadModel(id);
  }

  async unload(): Promise<void> {
    await this.host.unloadModel();
  }

  /** Scans the folders again: drives may have been attached or removed. */
  async rescan(): Promise<void> {
    await this.reading.read(
      this.host,
      (host) => host.rescanModels(),
      (models) => (this.all = models),
    );
  }

  async remove(id: string): Promise<void> {
    await this.host.removeModel(id);
    this.all = this.all.filter((m) => m.id !== id);
  }

  async addPath(path: string): Promise<Model> {
    const model = await this.host.addModel(path);
    if (!this.all.some((m) => m.id === model.id)) this.all = [...this.all, model];
    return model;
  }

  handle(event: Announced): void {
    this.reading.handle(event);
    if (event.type === "modelState") {
      this.state = event.state;
      if (event.state.type === "ready" || event.state.type === "loading") this.crash = null;
    } else if (event.type === "workerDied") this.crash = event.problem;
  }
}
