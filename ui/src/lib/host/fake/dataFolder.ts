// The data folder of the fake host: its path, moves, and the pending restoration.

import type { DataPlace, DeletedFormer, PendingRestore } from "../host";
import { FakeBase } from "./base";
import { problem } from "./problems";

const FIRST = "/home/you/.local/share/hearth";

export class FakeDataFolder extends FakeBase {
  /** Links and folders that were opened, newest last. */
  opened: string[] = [];
  /** For tests: the folder that is chosen for the data. */
  dataFolder: string | null = "/media/you/disk";
  protected pendingRestore: PendingRestore | null = null;
  /** Whether a backup is being checked. */
  protected extracting = false;
  private folder = FIRST;
  private former: string | null = null;
  private cancelled = false;

  async dataPlace(): Promise<DataPlace> {
    const former = this.former === null ? null : { path: this.former, bytes: 12_300_000_000 };
    return { path: this.folder, bytes: 12_400_000_000, former, pending: this.pendingRestore };
  }

  async openDataFolder(): Promise<void> {
    this.opened.push(this.folder);
  }

  async showInFolder(path: string): Promise<void> {
    this.opened.push(path);
  }

  async chooseDataFolder(): Promise<string | null> {
    return this.dataFolder;
  }

  async dataTarget(folder: string): Promise<string> {
    if (folder === this.folder) throw problem("badRequest", { area: "data", type: "moveIntoItself" });
    return `${folder}/Hearth`;
  }

  /** Number of restarts that the page requested, for tests. */
  restarts = 0;

  async restart(): Promise<void> {
    this.restarts += 1;
  }

  /** Where the app restarts, the page looks again. */
  async moveData(folder: string): Promise<void> {
    this.cancelled = false;
    for (let percent = 10; percent <= 100; percent += 10) {
      await this.rest(4);
      if (this.cancelled) throw problem("cancelled", { area: "data", type: "moveCancelled" });
      this.emit({ type: "moveProgress", fraction: percent / 100 });
    }
    this.former = this.folder;
    this.folder = await this.dataTarget(folder);
  }

  async cancelMove(): Promise<void> {
    this.cancelled = true;
  }

  async deleteFormerData(): Promise<DeletedFormer> {
    const example = this.former && `${this.former}/models/new/model.gguf`;
    this.former = null;
    return { left: 1, example };
  }
}
