// Owns the folders of conversations: their list, and which of them the list of conversations shows open.

import type { Folder, Host, HostEvent } from "../host";
import type { PageStorage } from "./storage";

const KEY = "hearth.folders.open";

export class Folders {
  all: readonly Folder[] = $state.raw([]);
  private opened: readonly number[] = $state.raw([]);

  constructor(
    private readonly host: Host,
    private readonly storage: PageStorage | null,
  ) {
    try {
      const saved: unknown = JSON.parse(storage?.getItem(KEY) ?? "[]");
      if (Array.isArray(saved)) this.opened = saved.filter((id): id is number => typeof id === "number");
    } catch {
      // Unreadable storage means that all are closed.
    }
  }

  fill(folders: readonly Folder[]): void {
    this.all = folders;
  }

  get(id: number | null | undefined): Folder | null {
    return this.all.find((folder) => folder.id === id) ?? null;
  }

  isOpen(id: number): boolean {
    return this.opened.includes(id);
  }

  /** Opens or closes a folder in the list; remembered. */
  open(id: number, open: boolean): void {
    const others = this.opened.filter((other) => other !== id);
    this.opened = open ? [...others, id] : others;
    try {
      this.storage?.setItem(KEY, JSON.stringify(this.opened.filter((one) => this.get(one) !== null)));
    } catch {
      // A full storage only forgets which are open.
    }
  }

  /** Creates an empty folder, which is open. */
  async create(name: string): Promise<Folder> {
    const folder = await this.host.createFolder(name);
    if (!this.get(folder.id)) this.all = [...this.all, folder];
    this.open(folder.id, true);
    return folder;
  }

  async rename(folder: Folder, name: string): Promise<void> {
    const clean = name.trim();
    if (clean !== "" && clean !== folder.name) await this.update({ ...folder, name: clean });
  }

  /** The changed folders come as an event. */
  async update(folder: Folder): Promise<void> {
    await this.host.updateFolder(folder);
  }

  handle(event: HostEvent): void {
    if (event.type === "foldersChanged") this.all = event.folders;
  }
}
