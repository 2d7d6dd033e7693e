// Owns the models on this machine, and the states of the selected and of all other loaded ones.

import { SvelteMap } from "svelte/reactivity";
import type { Host, Announced, Model, ModelState, Problem, Snapshot } from "../host";
import { Reading } from "./reading";

const NONE: ModelState = { type: "none" };

export class Models {
  all: readonly Model[] = $state.raw([]);
  /** The state of the selected model. */
  state: ModelState = $state.raw(NONE);
  /** The states of the models that answer or have answered, selected or not, by id. */
  private readonly live = new SvelteMap<string, ModelState>();
  /** The crash of a model's worker, until a model is loaded or the user dismisses it. */
  crash: { model: string; problem: Problem } | null = $state.raw(null);
  private preferred: string | null = $state(null);

  /**
   * The selected model: loaded, loading, or the one that the next message will load in a
   * conversation that names no model.
   */
  readonly current: Model | null = $derived.by(() => {
    const state = this.state;
    const id = state.type === "none" ? this.preferred : state.model;
    return this.all.find((m) => m.id === id) ?? this.all.find((m) => m.problem === null) ?? null;
  });

  private readonly reading = new Reading((event) => {
    if (event.type === "modelsChanged") this.all = event.models;
  });

  constructor(private readonly host: Host) {}

  /** Whether any model is loaded. */
  readonly isAnyLoaded: boolean = $derived.by(() => [...this.live.values()].some(({ type }) => type === "ready"));

  stateOf(model: string | null): ModelState {
    return (model === null ? null : this.live.get(model)) ?? NONE;
  }

  fill(snapshot: Snapshot): void {
    this.all = snapshot.models;
    this.state = snapshot.modelState;
    this.live.clear();
    for (const state of snapshot.liveModels) if (state.type !== "none") this.live.set(state.model, state);
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
    return this.added(await this.host.addModel(path));
  }

  /** Adds a merged export of an adapter. The model has the adapter's name. */
  async addMerged(path: string, adapter: number): Promise<Model> {
    return this.added(await this.host.addMergedModel(path, adapter));
  }

  private added(model: Model): Model {
    if (!this.all.some((m) => m.id === model.id)) this.all = [...this.all, model];
    return model;
  }

  handle(event: Announced): void {
    this.reading.handle(event);
    if (event.type === "modelState") {
      this.state = event.state;
      if (event.state.type === "ready" || event.state.type === "loading") this.crash = null;
    } else if (event.type === "liveModel") {
      if (event.state.type === "none") this.live.delete(event.model);
      else this.live.set(event.model, event.state);
    } else if (event.type === "workerDied") this.crash = { model: event.model, problem: event.problem };
  }
}
