// Owns a new run before it starts: name, model, dataset, column mapping, inspection and training
// settings.

import {
  asProblem,
  type ColumnMapping,
  type Dataset,
  type Host,
  type Inspection,
  type NewRun,
  type Problem,
  type TrainSettings,
} from "../host";
import { uniqueName } from "../text/uniqueName";

export class Preparation {
  dataset: Dataset | null = $state.raw(null);
  /** The name that the user typed; `null`: the default. */
  name: string | null = $state(null);
  /** Id of the base model. */
  model: string | null = $state(null);
  /** The user's mapping; `null`: detected. */
  mapping: ColumnMapping | null = $state.raw(null);
  skipBroken = $state(false);
  inspection: Inspection | null = $state.raw(null);
  inspecting = $state(false);
  /** Why the inspection failed. */
  problem: Problem | null = $state.raw(null);
  defaults: TrainSettings | null = $state.raw(null);
  /** Differences from the defaults. */
  changes: Partial<TrainSettings> = $state.raw({});
  private visit = 0;

  readonly settings: TrainSettings | null = $derived(
    this.defaults && { ...this.defaults, systemPrompt: this.usualPrompt(), ...this.changes },
  );

  /** The dataset's name, with a number if another result has it. */
  readonly defaultName: string = $derived.by(() => uniqueName(this.dataset?.name ?? "", this.namesOfResults()));

  /**
   * `promptOf`: a model's default system prompt, under which a chat with it begins;
   * `namesOfResults`: the names of runs and adapters.
   */
  constructor(
    private readonly host: Host,
    private readonly promptOf: (model: string | null) => string | null = () => null,
    private readonly namesOfResults: () => readonly string[] = () => [],
  ) {}

  private usualPrompt(): string | null {
    return this.promptOf(this.model);
  }

  /** Starts with a dataset and inspects it. Changed settings are retained. */
  async begin(dataset: Dataset, model: string | null): Promise<void> {
    this.dataset = dataset;
    this.name = null;
    this.model = model;
    this.mapping = null;
    this.skipBroken = false;
    this.inspection = null;
    if (!this.defaults) this.defaults = await this.host.trainDefaults();
    await this.inspect();
  }

  /** Inspects the data as a run would read it now. */
  async inspect(): Promise<void> {
    const { dataset, model } = this;
    if (!dataset || model === null) return;
    const visit = ++this.visit;
    this.inspecting = true;
    this.problem = null;
    try {
      const inspection = await this.host.inspectDataset(
        dataset.id,
        model,
        this.mapping,
        this.skipBroken,
        this.settings?.sequence ?? null,
        this.settings?.systemPrompt ?? null,
      );
      if (visit === this.visit) this.inspection = inspection;
    } catch (error) {
      if (visit !== this.visit) return;
      this.inspection = null;
      this.problem = asProblem(error);
    } finally {
      if (visit === this.visit) this.inspecting = false;
    }
  }

  async choose(change: { model?: string; mapping?: ColumnMapping; skipBroken?: boolean }): Promise<void> {
    Object.assign(this, change);
    await this.inspect();
  }

  set<K extends keyof TrainSettings>(key: K, value: TrainSettings[K]): void {
    const changes = { ...this.changes };
    const defaultValue = key === "systemPrompt" ? this.usualPrompt() : this.defaults?.[key];
    if (this.defaults && JSON.stringify(value) === JSON.stringify(defaultValue)) delete changes[key];
    else changes[key] = value;
    const before = this.settings;
    this.changes = changes;
    if (this.settings?.sequence !== before?.sequence || this.settings?.systemPrompt !== before?.systemPrompt)
      void this.inspect();
  }

  /** Resets all settings except the system prompt, which has a separate control. */
  reset(): void {
    const inspected = "sequence" in this.changes;
    this.changes = "systemPrompt" in this.changes ? { systemPrompt: this.changes.systemPrompt } : {};
    if (inspected) void this.inspect();
  }

  /** Prepares the next run. Its length must be chosen again; other settings are retained. */
  next(): void {
    this.name = null;
    const changes = { ...this.changes };
    delete changes.maxSteps;
    this.changes = changes;
  }

  /** The run to request from the host; `null` if it is incomplete. */
  newRun(): NewRun | null {
    const { dataset, model, settings, mapping, skipBroken } = this;
    if (!dataset || model === null || !settings) return null;
    return { name: this.name?.trim() || this.defaultName, model, dataset: dataset.id, mapping, skipBroken, settings };
  }
}
