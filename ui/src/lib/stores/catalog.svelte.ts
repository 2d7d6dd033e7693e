// Owns the catalog: models that Hearth recommends, and what each would be like here.

import { asProblem, type CatalogModel, type Host, type Problem } from "../host";

export class Catalog {
  all: readonly CatalogModel[] | null = $state.raw(null);
  /** Why the last request failed. */
  problem: Problem | null = $state.raw(null);
  private requests = 0;

  constructor(private readonly host: Host) {}

  /** Reads the catalog; of overlapping requests the newest counts. */
  async load(): Promise<void> {
    const request = ++this.requests;
    try {
      const all = await this.host.catalog();
      if (request !== this.requests) return;
      this.all = all;
      this.problem = null;
    } catch (thrown) {
      if (request === this.requests) this.problem = asProblem(thrown);
    }
  }
}
