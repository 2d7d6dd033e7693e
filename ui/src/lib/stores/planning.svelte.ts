// Owns the load settings on trial (their differences from the saved settings) and the resulting
// memory plan. One plan is requested at a time; of the changes made meanwhile, only the
// newest is planned.

import {
  asProblem,
  type DraftSetting,
  type Host,
  type Plan,
  type Problem,
  type Settings,
  type LoadSettings,
} from "../host";
import type { Models } from "./models.svelte";
import type { SettingsStore } from "./settings.svelte";

export class Planning {
  /** Differences from the saved settings. */
  private allChanges: Partial<LoadSettings> = $state.raw({});
  /** The model whose draft setting was changed. */
  private draftOf: string | null = $state(null);
  plan: Plan | null = $state.raw(null);
  /** The model of the plan. */
  model: string | null = $state(null);
  /** The problem of a failed plan. */
  problem: Problem | null = $state.raw(null);
  busy = $state(false);
  private isStale = false;

  /** Differences from the settings of the current model. */
  readonly changes: Partial<LoadSettings> = $derived.by(() => {
    const { draft, ...others } = this.allChanges;
    return draft === undefined || this.draftOf !== this.target ? others : this.allChanges;
  });
  readonly loadSettings: LoadSettings = $derived.by(() => ({
    ...asLoaded(this.settings.value, this.target),
    ...this.changes,
  }));
  readonly changed: boolean = $derived(Object.keys(this.changes).length > 0);

  constructor(
    private readonly host: Host,
    private readonly settings: SettingsStore,
    private readonly models: Models,
  ) {}

  /** Changes the load settings on trial and plans again. Does not load the model. */
  change(change: Partial<LoadSettings>): void {
    const settings = asLoaded(this.settings.value, this.target);
    const all = Object.entries({ ...this.changes, ...change }) as [
      keyof LoadSettings,
      LoadSettings[keyof LoadSettings],
    ][];
    this.allChanges = Object.fromEntries(all.filter(([key, value]) => !same(value, settings[key])));
    this.draftOf = this.target;
    void this.refresh();
  }

  reset(): void {
    this.allChanges = {};
    void this.refresh();
  }

  /** Saves the load settings on trial. A loaded model is reloaded; the conversation stays. */
  async apply(): Promise<void> {
    const { draft, ...others } = this.loadSettings;
    const { drafts } = this.settings.value;
    await this.settings.change({
      ...others,
      drafts: this.target === null ? drafts : withDraft(drafts, this.target, draft),
    });
    this.allChanges = {};
    const { state } = this.models;
    if (state.type === "failed") await this.models.load(state.model);
    await this.refresh();
  }

  /** Plans the current model. */
  async refresh(): Promise<void> {
    if (this.busy) {
      this.isStale = true;
      return;
    }
    this.busy = true;
    do {
      this.isStale = false;
      const model = this.models.current?.problem === null ? this.models.current.id : null;
      if (model !== this.model) this.plan = null;
      this.model = model;
      this.problem = null;
      if (model === null) break;
      try {
        this.plan = await this.host.plan(model, this.loadSettings);
      } catch (error) {
        const problem = asProblem(error);
        if (problem.code !== "superseded") {
          this.plan = null;
          this.problem = problem;
        }
      }
    } while (this.isStale);
    this.busy = false;
  }

  /** Plans a model with the saved settings and a change. */
  fit(model: string, change: Partial<LoadSettings> = {}): Promise<Plan> {
    return this.host.plan(model, { ...asLoaded(this.settings.value, model), ...change });
  }

  /** Id of the model that load settings are for. */
  private get target(): string | null {
    return this.models.current?.id ?? null;
  }
}

/** The load settings of a model. */
function asLoaded(
  { threads, context, device, build, gpuLayers, kv, drafts }: Settings,
  model: string | null,
): LoadSettings {
  return {
    threads,
    context,
    device,
    build,
    gpuLayers,
    kv,
    draft: (model === null ? undefined : drafts[model]) ?? { type: "auto" },
  };
}

/** The draft settings of all models after a change for one model. Automatic has no entry. */
function withDraft(drafts: Settings["drafts"], model: string, draft: DraftSetting): Settings["drafts"] {
  const { [model]: _, ...others } = drafts;
  return draft.type === "auto" ? others : { ...others, [model]: draft };
}

function same(a: LoadSettings[keyof LoadSettings], b: LoadSettings[keyof LoadSettings]): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
