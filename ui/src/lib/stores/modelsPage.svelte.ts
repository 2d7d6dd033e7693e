// Owns the open tab of Models, and the actions there that need several stores.

import { m } from "$messages";
import { asProblem, type Download, type FileDrop, type Host, type HostEvent, type Model, type Settings } from "../host";
import { bestModel } from "../text/adapters";
import { problemText } from "../text/problem";
import { fileName } from "../text/source";
import type { Announcements } from "./announcements.svelte";
import type { Catalog } from "./catalog.svelte";
import type { Downloads } from "./downloads.svelte";
import type { PageStorage } from "./storage";
import type { HubStore } from "./hub.svelte";
import type { Models } from "./models.svelte";
import type { SettingsStore } from "./settings.svelte";
import type { Toasts } from "./toasts.svelte";
import type { View } from "./view";

/** The parts of the app that the Models page acts on. */
interface Parts {
  view: View;
  readonly host: Host;
  readonly announcements: Announcements;
  readonly catalog: Catalog;
  readonly downloads: Downloads;
  readonly hub: HubStore;
  readonly models: Models;
  readonly settings: SettingsStore;
  readonly toasts: Toasts;
  newConversation(): void;
  try(action: () => Promise<unknown>): Promise<boolean>;
}

export type ModelsTab = "machine" | "discover" | "downloads";

const NOT_NOW = "hearth.no-first-models";

export class ModelsPage {
  tab: ModelsTab = $state("machine");
  /** An address dropped on the window, until the user decides. */
  dropped: string | null = $state(null);
  /** Whether the offer of first models was declined. */
  declined = $state(false);
  /**
   * Last known state of each download; `null` until the list is loaded, so that earlier ends are
   * not reported.
   */
  private states: Map<number, Download["state"]["type"]> | null = null;
  /** Downloads of which the user knows that they wait for their next attempt. */
  private readonly waiting = new Set<number>();

  constructor(
    private readonly app: Parts,
    private readonly storage: PageStorage | null,
  ) {
    try {
      this.declined = storage?.getItem(NOT_NOW) === "true";
    } catch {
      // Unreadable storage means not declined.
    }
  }

  async start(): Promise<void> {
    const { downloads } = this.app;
    try {
      await downloads.load();
    } finally {
      this.remember(downloads.all);
    }
  }

  handle(event: HostEvent): void {
    const { states } = this;
    if (event.type !== "downloadsChanged" || states === null) return;
    for (const download of event.downloads) if (states.get(download.id) !== download.state.type) this.notify(download);
    this.remember(event.downloads);
  }

  open(tab: ModelsTab): void {
    this.app.view = "models";
    this.tab = tab;
  }

  async download(source: string): Promise<void> {
    await this.app.try(async () => {
      const download = await this.app.downloads.start(source);
      if (!download) return;
      this.app.announcements.say(m.store_download_added({ name: download.name }));
      if (this.states === null || this.states.has(download.id)) return;
      this.states.set(download.id, download.state.type);
      this.notify(download);
    });
  }

  /** Starts a conversation with a model. */
  async chat(model: string): Promise<void> {
    const { models } = this.app;
    const { state } = models;
    this.app.newConversation();
    if (state.type === "none" || state.type === "failed" || state.model !== model)
      await this.app.try(() => models.load(model));
  }

  /** Searches the hub for the base model of an adapter. */
  find(base: string): void {
    const { hub } = this.app;
    hub.close();
    hub.kind = "models";
    hub.query = fileName(base);
    this.open("discover");
    void hub.search();
  }

  decline(): void {
    this.declined = true;
    try {
      this.storage?.setItem(NOT_NOW, "true");
    } catch {
      // If the storage is full, the offer returns at the next start.
    }
  }

  /** Asks for a folder of models and adds it. */
  async chooseFolder(): Promise<void> {
    await this.app.try(async () => {
      const folder = await this.app.host.chooseModelFolder(m.models_add_folder());
      if (folder !== null) await this.addFolder(folder);
    });
  }

  /** Adds a folder of models. Returns the number of new models. */
  async addFolder(folder: string): Promise<number> {
    const { settings, models, toasts } = this.app;
    const before = models.all.length;
    const wasListed = settings.value.modelFolders.includes(folder);
    if (!wasListed) await this.change({ modelFolders: [...settings.value.modelFolders, folder] });
    await models.rescan();
    const addedCount = Math.max(0, models.all.length - before);
    const text =
      addedCount > 0
        ? m.store_models_found({ count: addedCount, folder: fileName(folder) })
        : m.store_no_model_found({ folder: fileName(folder) });
    toasts.show({
      kind: "note",
      text,
      ...(wasListed
        ? {}
        : { action: { label: m.store_undo(), run: () => void this.app.try(() => this.removeFolder(folder)) } }),
    });
    return addedCount;
  }

  async removeFolder(folder: string): Promise<void> {
    await this.change({ modelFolders: this.app.settings.value.modelFolders.filter((other) => other !== folder) });
    await this.app.models.rescan();
  }

  /** Adds dropped model files or a dropped folder. Returns `false` if the paths are neither. */
  accept(drop: FileDrop): boolean {
    if (drop.type !== "drop" || drop.paths.length === 0) return false;
    const files = drop.paths.filter((path) => /\.gguf$/i.test(path));
    const [first = ""] = drop.paths;
    const folder = files.length === 0 && this.app.view !== "tune" && !isDataFile(first);
    if (files.length === 0 && !folder) return false;
    this.open("machine");
    void this.app.try(async () => {
      for (const path of files) await this.addFile(path);
      if (folder) await this.addFolder(first);
    });
    return true;
  }

  /** Imports an adapter and announces the model that it fits. */
  async importAdapter(path: string): Promise<void> {
    const { host, models, toasts } = this.app;
    const added = await host.importAdapter(path, null);
    const { name } = added;
    const best = models.all.find(({ id }) => id === bestModel(added));
    toasts.show({
      kind: "note",
      text: best ? m.models_adapter_added({ name, model: best.name }) : m.models_adapter_added_waiting({ name }),
    });
  }

  /**
   * Asks for a GGUF file and adds it; `null` if the dialog is cancelled, or the file is an adapter.
   */
  async chooseFile(): Promise<Model | null> {
    const path = await this.app.host.chooseModelFile(m.models_add_file(), m.shell_files_models());
    return path === null ? null : this.addFile(path);
  }

  /** Adds a GGUF file as a model, or imports it if it is an adapter. */
  private async addFile(path: string): Promise<Model | null> {
    try {
      return await this.app.models.addPath(path);
    } catch (error) {
      if (asProblem(error).code !== "isAdapter") throw error;
      await this.importAdapter(path);
      return null;
    }
  }

  private async change(change: Partial<Settings>): Promise<void> {
    await this.app.settings.change(change);
  }

  private remember(downloads: readonly Download[]): void {
    this.states = new Map(downloads.map(({ id, state }) => [id, state.type]));
  }

  /**
   * Shows and announces the end of a download, and that it cannot continue. Toasts have their own
   * live region.
   */
  private notify({ id, name, state }: Download): void {
    const { toasts } = this.app;
    if (state.type === "waiting") {
      // The attempts that follow fail in the same way.
      if (this.waiting.has(id)) return;
      this.waiting.add(id);
      if (this.app.view === "models" && this.tab === "downloads")
        this.app.announcements.say(m.store_download_waits_because({ name, problem: problemText(state.problem) }));
      else
        toasts.show({
          kind: "note",
          text: m.store_download_waits({ name }),
          action: { label: m.store_view(), run: () => this.open("downloads") },
        });
      return;
    }
    if (state.type !== "running" && state.type !== "queued") this.waiting.delete(id);
    if (state.type === "done") {
      const model = state.model;
      if (state.adapter !== null)
        return toasts.show({
          kind: "note",
          text: m.store_download_done({ name }),
          action: { label: m.store_view(), run: () => this.open("machine") },
        });
      if (model === null) toasts.show({ kind: "note", text: m.store_download_done({ name }) });
      else
        toasts.show({
          kind: "note",
          text: m.store_download_ready({ name }),
          action: { label: m.store_chat(), run: () => void this.chat(model) },
        });
    } else if (state.type === "failed") {
      if (this.app.view === "models" && this.tab === "downloads")
        this.app.announcements.say(m.store_download_failed_because({ name, problem: problemText(state.problem) }));
      else
        toasts.show({
          kind: "problem",
          text: m.store_download_failed({ name }),
          action: { label: m.store_view(), run: () => this.open("downloads") },
        });
    }
  }
}

/** Whether a path is a file of examples rather than a folder. */
function isDataFile(path: string): boolean {
  return /\.(jsonl?|ndjson|csv|tsv|parquet|txt|text|md|markdown|png|jpe?g|pdf|zip|gz|zst)$/i.test(path);
}
