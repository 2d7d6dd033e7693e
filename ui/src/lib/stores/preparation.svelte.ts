// Owns a new run before it starts: model, dataset, column mapping, inspection and training
// settings.

import { asProblem, type ColumnMapping, type Dataset, type Host, type Inspection, type NewRun, type Problem, type TrainSettings } from "../host";

export class Preparation {
  dataset: Dataset | null = $state.raw(null);
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

  readonly settings: TrainSettings | null = $derived(this.defaults && { ...this.defaults, ...this.changes });

  constructor(private readonly host: Host) {}

  /** Starts with a dataset and inspects it. Changed settings are retained. */
  async begin(dataset: Dataset, model: string | null): Promise<void> {
    this.dataset = dataset;
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
      const inspection = await this.host.inspectDataset(dataset.id, model, this.mapping, this.skipBroken, this.settings?.sequence ?? null);
      if (visit === this.visit) this.inspection = inspection;
    } catch (thrown) {
      if (visit !== this.visit) return;
      this.inspection = null;
      this.problem = asProblem(thrown);
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
    if (this.defaults && JSON.stringify(value) === JSON.stringify(this.defaults[key])) delete changes[key];
    else changes[key] = value;
    const before = this.settings?.sequence;
    this.changes = changes;
    if (this.settings?.sequence !== before) void this.inspect();
  }

  reset(): void {
    const inspected = "sequence" in this.changes;
    this.changes = {};
    if (inspected) void this.inspect();
  }

  /** The run to request from the host; `null` if it is incomplete. */
  newRun(): NewRun | null {
    const { dataset, model, settings, mapping, skipBroken } = this;
    if (!dataset || model === null || !settings) return null;
    return { name: null, model, dataset: dataset.id, mapping, skipBroken, settings };
  }
}
