// Owns the search: query, filter and results.

import { asProblem, type Host, type HostEvent, type Problem, type SearchFilter, type SearchHit } from "../host";
import { same } from "../text/same";

/** Debounce time in milliseconds. */
const DEBOUNCE_MS = 110;

/** A filter that leaves nothing out. */
const anything: SearchFilter = { folder: null, tag: null, role: null, since: null, until: null };

/** The choices for the time of a filter. */
export type Period = "any" | "today" | "week" | "month" | "year" | "custom";

/** Days of a period, today included. */
const DAYS: Partial<Record<Period, number>> = { today: 1, week: 7, month: 30, year: 365 };

export class Search {
  query = $state("");
  filter: SearchFilter = $state.raw(anything);
  period: Period = $state("any");
  /** Whether the fields of the filter are shown. */
  filtersOpen = $state(false);
  hits: readonly SearchHit[] = $state.raw([]);
  problem: Problem | null = $state.raw(null);
  /** The query that {@link hits} answer. `null`: none was answered yet. */
  answered: string | null = $state(null);
  private timer: ReturnType<typeof setTimeout> | undefined;
  private run = 0;

  /** Whether the filter leaves anything out. */
  readonly filtered: boolean = $derived(!same(this.filter, anything));
  readonly active: boolean = $derived(this.query.trim() !== "" || this.filtered);

  constructor(private readonly host: Host) {}

  type(query: string): void {
    this.query = query;
    this.start(DEBOUNCE_MS);
  }

  /** Changes the filter; the query stays. */
  set(change: Partial<SearchFilter>): void {
    this.filter = { ...this.filter, ...change };
    this.start(0);
  }

  /** Chooses the time. A custom period begins without limits. */
  choosePeriod(period: Period): void {
    this.period = period;
    const days = DAYS[period];
    const today = new Date();
    const since =
      days === undefined ? null : new Date(today.getFullYear(), today.getMonth(), today.getDate() - days + 1).getTime();
    this.set({ since, until: null });
  }

  /** Shows everything that this filter alone leaves. */
  only(filter: Partial<SearchFilter>): void {
    this.query = "";
    this.period = "any";
    this.set({ ...anything, ...filter });
  }

  clearFilter(): void {
    this.period = "any";
    this.set(anything);
  }

  clear(): void {
    this.query = "";
    this.clearFilter();
  }

  /** Searches again, because messages were deleted or restored. */
  refresh(): void {
    if (this.active) this.start(0);
  }

  handle(event: HostEvent): void {
    if (
      event.type === "foldersChanged" &&
      this.filter.folder !== null &&
      !event.folders.some(({ id }) => id === this.filter.folder)
    )
      this.set({ folder: null });
    else if (
      this.filtered &&
      (event.type === "conversationChanged" ||
        event.type === "conversationsChanged" ||
        event.type === "conversationRemoved")
    )
      this.start(DEBOUNCE_MS);
  }

  private start(delay: number): void {
    clearTimeout(this.timer);
    const run = ++this.run;
    if (this.active) {
      this.timer = setTimeout(() => void this.ask(run), delay);
      return;
    }
    this.hits = [];
    this.answered = null;
    this.problem = null;
  }

  private async ask(run: number): Promise<void> {
    const { query, filter } = this;
    let hits: readonly SearchHit[] = [];
    let problem: Problem | null = null;
    try {
      hits = await this.host.search(query.trim(), filter);
    } catch (error) {
      problem = asProblem(error);
    }
    if (run !== this.run) return;
    this.hits = hits;
    this.problem = problem;
    this.answered = query;
  }
}
