// Owns the run that is being prepared: its model and data, how they are read, what was seen in them, and the settings.

import { asProblem, type ColumnMapping, type Dataset, type Host, type Inspection, type NewRun, type Problem, type TrainSettings } from "../host";

export class Preparation {
  dataset: Dataset | null = $state.raw(null);
  /** Id of the model that will learn. */
  model: string | null = $state(null);
  /** As the person says; none: as recognised. */
  mapping: ColumnMapping | null = $state.raw(null);
  skipBroken = $state(false);
  inspection: Inspection | null = $state.raw(null);
  looking = $state(false);
  /** Why the data could not be looked at. */
  problem: Problem | null = $state.raw(null);
  defaults: TrainSettings | null = $state.raw(null);
  /** What differs from the defaults. */
  changes: Partial<TrainSettings> = $state.raw({});
  private visit = 0;

  readonly settings: TrainSettings | null = $derived(this.defaults && { ...this.defaults, ...this.changes });

  constructor(private readonly host: Host) {}

  /** Begins with a dataset, and looks at it. Settings that were changed stay as they are. */
  async begin(dataset: Dataset, model: string | null): Promise<void> {
    this.dataset = dataset;
    this.model = model;
    this.mapping = null;
    this.skipBroken = false;
    this.inspection = null;
    if (!this.defaults) this.defaults = await this.host.trainDefaults();
    await this.look();
  }

  /** Looks at the data (again), as a run would read it now. */
  async look(): Promise<void> {
    const { dataset, model } = this;
    if (!dataset || model === null) return;
    const visit = ++this.visit;
    this.looking = true;
    this.problem = null;
    try {
      const inspection = await this.host.inspectDataset(dataset.id, model, this.mapping, this.skipBroken, this.settings?.sequence ?? null);
      if (visit === this.visit) this.inspection = inspection;
    } catch (thrown) {
      if (visit !== this.visit) return;
      this.inspection = null;
      this.problem = asProblem(thrown);
    } finally {
      if (visit === this.visit) this.looking = false;
    }
  }

  async choose(change: { model?: string; mapping?: ColumnMapping; skipBroken?: boolean }): Promise<void> {
    Object.assign(this, change);
    await this.look();
  }

  set<K extends keyof TrainSettings>(key: K, value: TrainSettings[K]): void {
    const changes = { ...this.changes };
    if (this.defaults && JSON.stringify(value) === JSON.stringify(this.defaults[key])) delete changes[key];
    else changes[key] = value;
    const before = this.settings?.sequence;
    this.changes = changes;
    if (this.settings?.sequence !== before) void this.look();
  }

  reset(): void {
    const cut = "sequence" in this.changes;
    this.changes = {};
    if (cut) void this.look();
  }

  /** What is asked of the host; none while something is missing. */
  order(): NewRun | null {
    const { dataset, model, settings, mapping, skipBroken } = this;
    if (!dataset || model === null || !settings) return null;
    return { name: null, model, dataset: dataset.id, mapping, skipBroken, settings };
  }
}
