// Owns the datasets, the bundled samples, and the number of rated answers.

import type { Dataset, Host, Announced, SampleDataset } from "../host";
import { Reading } from "./reading";

export class Datasets {
  all: readonly Dataset[] = $state.raw([]);
  samples: readonly SampleDataset[] = $state.raw([]);
  /** Number of rated answers at the last count. */
  rated = $state(0);
  private readonly reading = new Reading((event) => {
    if (event.type === "datasetsChanged") this.all = event.datasets;
  });

  constructor(private readonly host: Host) {}

  async load(): Promise<void> {
    const all = this.reading.read(
      this.host,
      (host) => host.datasets(),
      (datasets) => (this.all = datasets),
    );
    [, this.samples] = await Promise.all([all, this.host.sampleDatasets()]);
  }

  async count(): Promise<void> {
    this.rated = await this.host.ratedExamples();
  }

  get(id: number | null): Dataset | null {
    return this.all.find((d) => d.id === id) ?? null;
  }

  handle(event: Announced): void {
    this.reading.handle(event);
  }
}
