// Owns the current page of Tune, and the actions there that need several stores.

import { m } from "$messages";
import type { Adapter, Dataset, FileDrop, Host, HostEvent, Run } from "../host";
import { bestModel } from "../text/adapters";
import { count, loss } from "../text/format";
import { problemText } from "../text/problem";
import type { Adapters } from "./adapters.svelte";
import type { Attachments } from "./attachments.svelte";
import type { Compare } from "./compare.svelte";
import type { Datasets } from "./datasets.svelte";
import type { ModelsPage } from "./modelsPage.svelte";
import type { Models } from "./models.svelte";
import type { Place } from "./place";
import type { Preparation } from "./preparation.svelte";
import type { Runs } from "./runs.svelte";
import type { Thread } from "./thread.svelte";
import type { Toasts } from "./toasts.svelte";
import type { View } from "./view";

/** The parts of the app that Tune acts on. */
interface Parts {
  view: View;
  readonly host: Host;
  readonly adapters: Adapters;
  readonly attachments: Attachments;
  readonly compare: Compare;
  readonly datasets: Datasets;
  readonly modelsPage: ModelsPage;
  readonly models: Models;
  readonly preparation: Preparation;
  readonly runs: Runs;
  readonly thread: Thread;
  readonly toasts: Toasts;
  newConversation(): void;
  importDropped(path: string): Promise<void>;
  /** Runs an action and shows its error. Returns `false` if it fails. */
  try(action: () => Promise<unknown>): Promise<boolean>;
}

/** The start page, the data of a new run, or a run. */
export type TunePage = { at: "start" } | { at: "data" } | { at: "run"; id: number };

export class Tune {
  page: TunePage = $state.raw({ at: "start" });
  /** Whether files are dragged over the window. */
  dragging = $state(false);

  constructor(private readonly app: Parts) {}

  /** Loads the lists, and opens the page that a reload left. */
  async start(place: Place["tune"] = { at: "start" }): Promise<void> {
    const { host, datasets, runs, adapters, preparation, models } = this.app;
    await host.onDrop((drop) => this.dropped(drop));
    await Promise.all([datasets.load(), runs.load(), adapters.load()]);
    // The user opened another page meanwhile.
    if (this.page.at !== "start") return;
    if (place.at === "run" && runs.get(place.run)) this.page = { at: "run", id: place.run };
    const dataset = place.at === "data" ? datasets.get(place.dataset) : null;
    if (!dataset) return;
    this.page = { at: "data" };
    // Not awaited: the inspection of a large file takes long.
    void this.app.try(() => preparation.begin(dataset, models.current?.id ?? null));
  }

  /** The page to which a reload returns. */
  get place(): Place["tune"] {
    const { page } = this;
    if (page.at === "run") return { at: "run", run: page.id };
    const dataset = page.at === "data" ? this.app.preparation.dataset : null;
    return dataset ? { at: "data", dataset: dataset.id } : { at: "start" };
  }

  handle(event: HostEvent): void {
    if (event.type === "runEnded") this.notifyEnded(event.run);
  }

  /**
   * Handles dragged files: models are added on the Models page, exports of conversations are
   * imported, a text file dropped on the chat is attached to the message, and anything else is
   * added as a dataset.
   */
  dropped(drop: FileDrop): void {
    this.dragging = drop.type === "over";
    const path = drop.type === "drop" ? drop.paths[0] : undefined;
    if (drop.type !== "drop" || path === undefined || this.app.modelsPage.accept(drop)) return;
    if (this.app.view === "chat" && !isExport(path) && !isData(path)) {
      void this.app.try(() => this.app.attachments.addPaths(this.app.thread.id, drop.paths));
      return;
    }
    if (drop.paths.length > 1)
      this.app.toasts.show({ kind: "note", text: m.store_only_first_file({ n: count(drop.paths.length) }) });
    if (isExport(path)) void this.app.importDropped(path);
    else void this.addData(path);
  }

  /** Adds a file of examples and inspects it. */
  async addData(path: string): Promise<void> {
    await this.app.try(async () => this.prepare(await this.app.host.addDataset(path)));
  }

  async chooseData(): Promise<void> {
    await this.app.try(async () => {
      const path = await this.app.host.chooseDataFile(m.tune_choose_file(), m.shell_files_examples());
      if (path !== null) await this.addData(path);
    });
  }

  /** Creates a dataset from the rated answers and inspects it. */
  async dataFromRatings(): Promise<void> {
    await this.app.try(async () => this.prepare(await this.app.host.datasetFromRatings(m.store_from_chats())));
  }

  async prepare(dataset: Dataset): Promise<void> {
    this.app.view = "tune";
    this.page = { at: "data" };
    await this.app.preparation.begin(dataset, this.app.models.current?.id ?? null);
  }

  async train(): Promise<void> {
    const newRun = this.app.preparation.newRun();
    if (!newRun) return;
    await this.app.try(async () => {
      const run = await this.app.host.startRun(newRun);
      this.app.preparation.next();
      this.app.runs.put(this.app.runs.get(run.id) ?? run);
      this.openRun(run.id);
    });
  }

  /** Resumes a run that has ended, and opens its page. */
  async resumeRun(id: number): Promise<void> {
    if (await this.app.try(() => this.app.host.resumeRun(id))) this.openRun(id);
  }

  openRun(id: number): void {
    this.app.view = "tune";
    this.page = { at: "run", id };
  }

  /** Starts a conversation with an adapter, on the model that it fits best by default. */
  async chatWith(id: number, on: string | null = null): Promise<void> {
    const adapter = this.app.adapters.get(id);
    if (!adapter) return;
    this.app.newConversation();
    await this.useAdapter(adapter, on);
  }

  /** Starts such a conversation, which compares the adapter with the base model. */
  async compareWithBase(id: number, on: string | null = null): Promise<void> {
    const adapter = this.app.adapters.get(id);
    if (!adapter) return;
    this.app.newConversation();
    this.app.compare.withBase();
    await this.useAdapter(adapter, on);
  }

  /** Chooses an adapter and its model in the open conversation only. */
  private async useAdapter(adapter: Adapter, on: string | null): Promise<void> {
    const { models, thread } = this.app;
    const model = on ?? bestModel(adapter) ?? adapter.model;
    await this.app.try(async () => {
      await thread.setAdapters([{ adapter: adapter.id, scale: 1 }]);
      if (model === null) return;
      if (model !== models.current?.id) return thread.setSettings({ ...thread.settings, model });
      const { type } = models.stateOf(model);
      if (type === "none" || type === "failed") await models.load(model);
    });
  }

  async removeRun(id: number): Promise<void> {
    const name = this.app.runs.get(id)?.name ?? m.store_run();
    await this.app.try(async () => {
      await this.app.runs.remove(id);
      if (this.page.at === "run" && this.page.id === id) this.page = { at: "start" };
      this.app.toasts.show({
        kind: "note",
        text: m.store_deleted({ name }),
        action: { label: m.store_undo(), run: () => void this.app.try(() => this.restoreRun(id)) },
      });
    });
  }

  private async restoreRun(id: number): Promise<void> {
    await this.app.host.restoreRun(id);
    await this.app.runs.load();
    this.openRun(id);
  }

  async removeDataset(id: number): Promise<void> {
    const name = this.app.datasets.get(id)?.name ?? m.store_dataset();
    await this.app.try(async () => {
      await this.app.host.removeDataset(id);
      if (this.app.preparation.dataset?.id === id) this.page = { at: "start" };
      this.app.toasts.show({
        kind: "note",
        text: m.store_dataset_removed({ name }),
        action: { label: m.store_undo(), run: () => void this.app.try(() => this.app.host.restoreDataset(id)) },
      });
    });
  }

  async removeAdapter(id: number): Promise<void> {
    const name = this.app.adapters.get(id)?.name ?? m.store_adapter();
    await this.app.try(async () => {
      await this.app.host.deleteAdapter(id);
      await this.app.thread.setAdapters(this.app.thread.adapters.filter((choice) => choice.adapter !== id));
      this.app.toasts.show({
        kind: "note",
        text: m.store_deleted({ name }),
        action: { label: m.store_undo(), run: () => void this.app.try(() => this.app.host.restoreAdapter(id)) },
      });
    });
  }

  /** Shows the end of a run as a toast, unless its page is open. */
  private notifyEnded(run: Run): void {
    if (this.app.view === "tune" && this.page.at === "run" && this.page.id === run.id) return;
    this.app.toasts.show({
      kind: "note",
      text: endText(run),
      action: { label: m.store_view(), run: () => this.openRun(run.id) },
    });
  }
}

/** The notice of an ended run: losses if it finished, otherwise its problem. */
function endText({ name, state, outcome }: Run): string {
  if (state.type === "failed") return m.store_run_failed({ name, problem: problemText(state.problem) });
  if (state.type === "interrupted") return m.store_run_interrupted({ name, problem: problemText(state.problem) });
  const before = outcome?.evalLossBefore ?? null;
  const after = outcome?.evalLoss ?? null;
  if (before === null || after === null) return m.store_run_done({ name });
  return m.store_run_done_losses({ name, before: loss(before), after: loss(after) });
}

/**
 * Whether a path looks like an export of conversations: an archive, or a JSON file with a name that
 * only exports have.
 */
export function isExport(path: string): boolean {
  return /\.zip$|\.conversation\.json$|(^|[/\\])(conversations(-\d+)?|thread)\.json$|(^|[/\\])chat-export-[^/\\]*\.json$/i.test(
    path,
  );
}

/** Whether a path has the extension of a dataset. Text files count too, except in the chat. */
function isData(path: string): boolean {
  return /\.(jsonl|json|csv|tsv|parquet)$/i.test(path);
}
