// Owns the search: query and results.

import { asProblem, type Host, type Problem, type SearchFilter, type SearchHit } from "../host";

/** Debounce time in milliseconds. */
const DEBOUNCE_MS = 110;

/** A filter that leaves nothing out. */
const anything: SearchFilter = { folder: null, tag: null, role: null, since: null, until: null };

export class Search {
  query = $state("");
  hits: readonly SearchHit[] = $state.raw([]);
  problem: Problem | null = $state.raw(null);
  /** The query that {@link hits} answer. */
  answered = $state("");
  private timer: ReturnType<typeof setTimeout> | undefined;

  readonly active: boolean = $derived(this.query.trim() !== "");

  constructor(private readonly host: Host) {}

  type(query: string): void {
    this.query = query;
    clearTimeout(this.timer);
    if (query.trim() === "") {
      this.hits = [];
      this.answered = "";
      this.problem = null;
    } else this.timer = setTimeout(() => void this.run(query), DEBOUNCE_MS);
  }

  clear(): void {
    this.type("");
  }

  private async run(query: string): Promise<void> {
    try {
      const hits = await this.host.search(query.trim(), anything);
      if (query !== this.query) return;
      this.hits = hits;
      this.problem = null;
    } catch (thrown) {
      if (query !== this.query) return;
      this.hits = [];
      this.problem = asProblem(thrown);
    }
    this.answered = query;
  }
}
