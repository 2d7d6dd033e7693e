// Owns how a person is trying to load the model: what differs from the settings, and the plan that comes of it. One plan is
// asked for at a time; while it is made, only the newest wish is remembered.

import { asProblem, type Host, type Plan, type Problem, type Settings, type WhatIf } from "../host";
import type { Models } from "./models.svelte";
import type { SettingsStore } from "./settings.svelte";

export class Planning {
  /** What differs from the settings. */
  changes: Partial<WhatIf> = $state.raw({});
  plan: Plan | null = $state.raw(null);
  /** Whose plan it is. */
  model: string | null = $state(null);
  /** Why there is no plan. */
  problem: Problem | null = $state.raw(null);
  busy = $state(false);
  private again = false;

  readonly wish: WhatIf = $derived.by(() => ({ ...asLoaded(this.settings.value), ...this.changes }));
  readonly changed: boolean = $derived(Object.keys(this.changes).length > 0);

  constructor(
    private readonly host: Host,
    private readonly settings: SettingsStore,
    private readonly models: Models,
  ) {}

  /** Tries something out: plans for it, and loads nothing. */
  change(change: Partial<WhatIf>): void {
    const settings = asLoaded(this.settings.value);
    const all = Object.entries({ ...this.changes, ...change }) as [keyof WhatIf, WhatIf[keyof WhatIf]][];
    this.changes = Object.fromEntries(all.filter(([key, value]) => !same(value, settings[key])));
    void this.refresh();
  }

  reset(): void {
    this.changes = {};
    void this.refresh();
  }

  /** Keeps what was tried out. What is loaded is loaded again with it; the conversation stays. */
  async apply(): Promise<void> {
    await this.settings.change(this.wish);
    this.changes = {};
    const { state } = this.models;
    if (state.type === "failed") await this.models.load(state.model);
    await this.refresh();
  }

  /** Plans for the model that is loaded, or that would be. */
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
        this.plan = await this.host.plan(model, this.wish);
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

  /** How a model would fit as models are loaded now. */
  fit(model: string): Promise<Plan> {
    return this.host.plan(model, asLoaded(this.settings.value));
  }
}

/** How the settings have a model loaded. */
function asLoaded({ threads, context, device, build, gpuLayers, kv }: Settings): WhatIf {
  return { threads, context, device, build, gpuLayers, kv };
}

function same(a: WhatIf[keyof WhatIf], b: WhatIf[keyof WhatIf]): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
