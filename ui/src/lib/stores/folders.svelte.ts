// Owns the folders of conversations, and which of them are expanded in the list.

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
      // Unreadable storage means that all are collapsed.
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

  /** Expands or collapses a folder in the list, and stores the choice. */
  open(id: number, open: boolean): void {
    const others = this.opened.filter((other) => other !== id);
    this.opened = open ? [...others, id] : others;
    try {
      this.storage?.setItem(KEY, JSON.stringify(this.opened.filter((id) => this.get(id) !== null)));
    } catch {
      // If the storage is full, the state is only not restored at the next start.
    }
  }

  /** Creates an empty, expanded folder. */
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

  /** The changed folders arrive as an event. */
  async update(folder: Folder): Promise<void> {
    await this.host.updateFolder(folder);
  }

  handle(event: HostEvent): void {
    if (event.type === "foldersChanged") this.all = event.folders;
  }
}
