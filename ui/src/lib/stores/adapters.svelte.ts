// Owns the list of adapters.

import { m } from "$messages";
import type { Adapter, Host, Announced } from "../host";
import { bestModel, doesFit } from "../text/adapters";
import { Reading } from "./reading";

export class Adapters {
  all: readonly Adapter[] = $state.raw([]);
  private readonly reading = new Reading((event) => {
    if (event.type === "adaptersChanged") this.all = event.adapters;
  });

  constructor(private readonly host: Host) {}

  async load(): Promise<void> {
    await this.reading.read(
      this.host,
      (host) => host.adapters(),
      (adapters) => (this.all = adapters),
    );
  }

  get(id: number | null): Adapter | null {
    return this.all.find((adapter) => adapter.id === id) ?? null;
  }

  /** The adapters that fit a model, newest first. */
  of(model: string | null): readonly Adapter[] {
    return this.all.filter((adapter) => doesFit(adapter, model));
  }

  /** The adapters that fit no model on this machine. */
  readonly waiting: readonly Adapter[] = $derived(this.all.filter((adapter) => bestModel(adapter) === null));

  /** Asks for the file or folder of an adapter; `null` if the dialog is cancelled. */
  choose(folder: boolean): Promise<string | null> {
    const title = folder ? m.models_adapter_folder() : m.models_adapter_file();
    return this.host.chooseAdapter(folder, title, m.shell_files_adapters());
  }

  /**
   * Asks for a file or folder and imports it. Without a model it matches any model; `null` if the
   * dialog is cancelled.
   */
  async import(folder: boolean, model: string | null): Promise<Adapter | null> {
    const path = await this.choose(folder);
    return path === null ? null : this.host.importAdapter(path, model);
  }

  handle(event: Announced): void {
    this.reading.handle(event);
  }
}
