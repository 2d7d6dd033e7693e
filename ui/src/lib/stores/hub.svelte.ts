// Owns the hub search, the open repository, and the file headers that were read.
// Nothing is requested before the user searches. A newer request replaces an older one, whose
// answer is ignored.

import { SvelteMap } from "svelte/reactivity";
import {
  asProblem,
  type Host,
  type HostEvent,
  type HubKind,
  type HubModel,
  type HubRepository,
  type HubSort,
  type Problem,
  type RemoteModel,
} from "../host";
import { fitsHere } from "../text/models";
import { asSource } from "../text/source";

/** Debounce of the search in milliseconds. */
const DEBOUNCE_MS = 400;

/** A request to the hub. */
export type Asked<T> = { type: "asking" } | { type: "answered"; answer: T } | { type: "failed"; problem: Problem };

export class HubStore {
  query = $state("");
  sort: HubSort = $state("trending");
  kind: HubKind = $state("models");
  onlySupported = $state(true);
  onlyFitting = $state(false);
  /** The search; `null` before the first. */
  found: Asked<readonly HubModel[]> | null = $state.raw(null);
  /** The query of {@link found}. */
  asked = $state("");
  /** Id of the open repository. */
  open: string | null = $state(null);
  repository: Asked<HubRepository> | null = $state.raw(null);
  /**
   * Repositories with GGUF files that were converted from the files of the open repository, if it
   * has no GGUF files.
   */
  conversions: Asked<readonly HubModel[]> | null = $state.raw(null);
  /** Checked variants, by source. */
  private readonly checks = new SvelteMap<string, Asked<RemoteModel>>();
  private searches = 0;
  private opens = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  /** The address that was typed instead of search words. */
  readonly source: string | null = $derived(asSource(this.query));
  readonly results: readonly HubModel[] = $derived(this.found?.type === "answered" ? this.found.answer : []);
  /**
   * The results that pass the filters. A model is shown unless the hub says that it is not
   * supported.
   */
  readonly shown: readonly HubModel[] = $derived(
    this.results.filter(
      (model) =>
        this.kind !== "models" ||
        ((!this.onlySupported || model.isSupported !== false) && (!this.onlyFitting || fitsHere(model.expectation))),
    ),
  );

  constructor(
    private readonly host: Host,
    private readonly isOffline: () => boolean,
  ) {}

  /** Searches after a pause in typing. */
  type(query: string): void {
    this.query = query;
    clearTimeout(this.timer);
    if (query.trim() === "" || this.source !== null) this.forget();
    else if (query.trim() !== this.asked) this.timer = setTimeout(() => void this.search(), DEBOUNCE_MS);
  }

  /** Searches now. An empty query lists popular repositories. */
  async search(): Promise<void> {
    clearTimeout(this.timer);
    if (this.source !== null || this.isOffline()) return;
    const search = ++this.searches;
    this.asked = this.query.trim();
    this.found = { type: "asking" };
    const outcome = await answer(async () => distinct(await this.host.searchHub(this.asked, this.sort, this.kind)));
    if (search === this.searches) this.found = outcome;
  }

  /** Changes the order and repeats the search, if there is one. */
  sortBy(sort: HubSort): void {
    this.sort = sort;
    if (this.found !== null) void this.search();
  }

  /** Searches for models, adapters or originals. */
  searchFor(kind: HubKind): void {
    this.kind = kind;
    if (this.found !== null) void this.search();
  }

  async show(id: string): Promise<void> {
    const opened = ++this.opens;
    this.open = id;
    this.repository = { type: "asking" };
    this.conversions = null;
    const repository = await answer(() => this.host.hubRepository(id));
    if (opened !== this.opens) return;
    this.repository = repository;
    if (repository.type === "answered" && repository.answer.variants.length === 0) await this.convert(id);
  }

  /**
   * Requests the repositories with GGUF files that were converted from the files of the open
   * repository.
   */
  async convert(id: string): Promise<void> {
    const opened = this.opens;
    this.conversions = { type: "asking" };
    const conversions = await answer(async () => distinct(await this.host.hubConversions(id)));
    if (opened === this.opens) this.conversions = conversions;
  }

  close(): void {
    this.opens += 1;
    this.open = null;
    this.repository = null;
    this.conversions = null;
  }

  check(source: string): Asked<RemoteModel> | null {
    return this.checks.get(source) ?? null;
  }

  /** Reads the header of a file on the hub. */
  async inspect(source: string): Promise<void> {
    if (this.checks.get(source)?.type === "asking") return;
    this.checks.set(source, { type: "asking" });
    this.checks.set(source, await answer(() => this.host.inspectRemote(source)));
  }

  handle(event: HostEvent): void {
    if (event.type === "devicesMeasured") void this.refresh();
  }

  /**
   * Requests the shown lists again, whose expected speeds follow from a measurement of this
   * machine. A request that fails changes nothing.
   */
  private async refresh(): Promise<void> {
    if (this.isOffline()) return;
    const { searches, opens, open } = this;
    if (this.found?.type === "answered") {
      const found = await answer(async () => distinct(await this.host.searchHub(this.asked, this.sort, this.kind)));
      if (searches === this.searches && found.type === "answered") this.found = found;
    }
    if (open === null || opens !== this.opens) return;
    if (this.repository?.type === "answered") {
      const repository = await answer(() => this.host.hubRepository(open));
      if (opens === this.opens && repository.type === "answered") this.repository = repository;
    }
    if (opens === this.opens && this.conversions?.type === "answered") {
      const conversions = await answer(async () => distinct(await this.host.hubConversions(open)));
      if (opens === this.opens && conversions.type === "answered") this.conversions = conversions;
    }
  }

  /** Clears the results. */
  private forget(): void {
    this.searches += 1;
    this.found = null;
    this.asked = "";
  }
}

/** A hub may list a repository twice. */
function distinct(models: readonly HubModel[]): HubModel[] {
  return [...new Map(models.map((model) => [model.id, model])).values()];
}

async function answer<T>(request: () => Promise<T>): Promise<Asked<T>> {
  try {
    return { type: "answered", answer: await request() };
  } catch (error) {
    return { type: "failed", problem: asProblem(error) };
  }
}
