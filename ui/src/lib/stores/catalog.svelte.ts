// Owns the catalog: models that Hearth recommends, with their expected speed on this machine.

import { asProblem, type CatalogModel, type Host, type HostEvent, type Problem } from "../host";
import { fitsHere } from "../text/models";

export class Catalog {
  all: readonly CatalogModel[] | null = $state.raw(null);
  /** The problem of the last request. */
  problem: Problem | null = $state.raw(null);
  /** Whether other programs slowed the measurement of the speeds down. */
  readonly wasBusy: boolean = $derived((this.all ?? []).some(({ expectation }) => expectation.wasBusy));
  /** Whether no answer has arrived yet. */
  readonly isAsking: boolean = $derived(this.all === null && this.problem === null);
  /** Models for the first run: three that fit and are not here yet. */
  readonly offered: readonly CatalogModel[] = $derived(
    (this.all ?? []).filter(({ model, expectation }) => model === null && fitsHere(expectation)).slice(0, 3),
  );
  private requests = 0;

  constructor(private readonly host: Host) {}

  /** Loads the catalog. The newest of overlapping requests wins. */
  async load(): Promise<void> {
    const request = ++this.requests;
    try {
      const all = await this.host.catalog();
      if (request !== this.requests) return;
      this.all = all;
      this.problem = null;
    } catch (error) {
      if (request === this.requests) this.problem = asProblem(error);
    }
  }

  handle(event: HostEvent): void {
    if (event.type === "devicesMeasured" && this.all !== null) void this.load();
  }
}
