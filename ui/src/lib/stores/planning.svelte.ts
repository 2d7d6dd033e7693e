// Owns the load settings on trial (their differences from the saved settings) and the resulting
// memory plan. One plan is requested at a time; of the requests made meanwhile, only the newest is
// planned.

import { asProblem, type Host, type Plan, type Problem, type Settings, type LoadSettings } from "../host";
import type { Models } from "./models.svelte";
import type { SettingsStore } from "./settings.svelte";

export class Planning {
  /** Differences from the saved settings. */
  changes: Partial<LoadSettings> = $state.raw({});
  plan: Plan | null = $state.raw(null);
  /** The model of the plan. */
  model: string | null = $state(null);
  /** Why there is no plan. */
  problem: Problem | null = $state.raw(null);
  busy = $state(false);
  private again = false;

  readonly loadSettings: LoadSettings = $derived.by(() => ({ ...asLoaded(this.settings.value), ...this.changes }));
  readonly changed: boolean = $derived(Object.keys(this.changes).length > 0);

  constructor(
    private readonly host: Host,
    private readonly settings: SettingsStore,
    private readonly models: Models,
  ) {}

  /** Changes the load settings on trial and plans again; loads nothing. */
  change(change: Partial<LoadSettings>): void {
    const settings = asLoaded(this.settings.value);
    const all = Object.entries({ ...this.changes, ...change }) as [keyof LoadSettings, LoadSettings[keyof LoadSettings]][];
    this.changes = Object.fromEntries(all.filter(([key, value]) => !same(value, settings[key])));
    void this.refresh();
  }

  reset(): void {
    this.changes = {};
    void this.refresh();
  }

  /** Saves the load settings on trial. A loaded model is reloaded; the conversation stays. */
  async apply(): Promise<void> {
    await this.settings.change(this.loadSettings);
    this.changes = {};
    const { state } = this.models;
    if (state.type === "failed") await this.models.load(state.model);
    await this.refresh();
  }

  /** Plans the current model. */
  async refresh(): Promise<void> {
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    do {
      this.again = false;
      const model = this.models.current?.problem === null ? this.models.current.id : null;
      if (model !== this.model) this.plan = null;
      this.model = model;
      this.problem = null;
      if (model === null) break;
      try {
        this.plan = await this.host.plan(model, this.loadSettings);
      } catch (thrown) {
        const problem = asProblem(thrown);
        if (problem.code !== "superseded") {
          this.plan = null;
          this.problem = problem;
        }
      }
    } while (this.again);
    this.busy = false;
  }

  /** Plans a model with the saved settings. */
  fit(model: string): Promise<Plan> {
    return this.host.plan(model, asLoaded(this.settings.value));
  }
}

/** The load settings of the settings. */
function asLoaded({ threads, context, device, build, gpuLayers, kv }: Settings): LoadSettings {
  return { threads, context, device, build, gpuLayers, kv };
}

function same(a: LoadSettings[keyof LoadSettings], b: LoadSettings[keyof LoadSettings]): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
