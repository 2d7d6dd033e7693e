// Owns imports, exports, backups and moves of the data folder: the operation in progress, the last
// result, and the data folder.

import { m } from "$messages";
import type {
  ChatFormat,
  DataPlace,
  DeletedFormer,
  ExportedChats,
  Host,
  HostEvent,
  ImportReport,
  WrittenBackup,
} from "../host";
import { exportLabels } from "../text/exportLabels";

type Work = "import" | "export" | "backup" | "restore" | "move";

export class Transfer {
  /** The work in progress. */
  busy: Work | null = $state(null);
  /** Progress of the import, restoration or move, from 0 to 1. */
  fraction = $state(0);
  report: ImportReport | null = $state.raw(null);
  exported: ExportedChats | null = $state.raw(null);

  written: WrittenBackup | null = $state.raw(null);
  place: DataPlace | null = $state.raw(null);
  /** Files that remain after the deletion of a former data folder. */
  deleted: DeletedFormer | null = $state.raw(null);

  constructor(private readonly host: Host) {}

  async look(): Promise<void> {
    this.place = await this.host.dataPlace();
  }

  async backUp(): Promise<void> {
    const path = await this.host.chooseBackupTarget(m.settings_back_up_all(), m.shell_files_backups());
    if (path === null) return;
    this.written = null;
    this.written = await this.while("backup", () => this.host.backUp(path));
  }

  /** Prepares a backup, which replaces all data at the next start. */
  async restore(path: string): Promise<void> {
    this.fraction = 0;
    try {
      await this.while("restore", () => this.host.restoreBackup(path));
    } finally {
      // A cancellation also withdraws the pending restoration.
      await this.look();
    }
  }

  /** Cancels a restoration while its backup is checked or before the next start. */
  async cancelRestore(): Promise<void> {
    await this.host.cancelRestore();
    await this.look();
  }

  /** Copies the data to a folder, then restarts Hearth with it. */
  async move(folder: string): Promise<void> {
    this.fraction = 0;
    await this.while("move", () => this.host.moveData(folder));
    await this.look();
  }

  /** Deletes the files that the last move left in the former data folder. */
  async deleteFormer(): Promise<void> {
    this.deleted = null;
    this.deleted = await this.host.deleteFormerData();
    await this.look();
  }

  /** Imports the export at a path. One at a time: returns `null` if another is in progress. */
  async import(path: string): Promise<ImportReport | null> {
    this.report = null;
    this.fraction = 0;
    return this.while("import", async () => (this.report = await this.host.importConversations(path)));
  }

  /**
   * Cancels the import. Imported conversations stay, and a second import of the same file continues
   * after them.
   */
  async cancelImport(): Promise<void> {
    await this.host.cancelImport();
  }

  /**
   * Asks for a file and writes conversations to it; `null` means all. Returns `null` if cancelled.
   */
  async export(conversation: number | null, format: ChatFormat, title: string): Promise<ExportedChats | null> {
    const heading = conversation === null ? m.settings_export_all() : m.shell_dialog_export({ name: title });
    const path = await this.host.chooseChatExport(format, title, heading);
    if (path === null) return null;
    this.exported = null;
    const exported = await this.while("export", () =>
      this.host.exportConversations(conversation, format, exportLabels(), path),
    );
    if (conversation === null) this.exported = exported;
    return exported;
  }

  handle(event: HostEvent): void {
    if (event.type === "importProgress" || event.type === "restoreProgress" || event.type === "moveProgress")
      this.fraction = event.fraction;
  }

  private async while<T>(kind: Work, work: () => Promise<T>): Promise<T | null> {
    if (this.busy !== null) return null;
    this.busy = kind;
    try {
      return await work();
    } finally {
      this.busy = null;
    }
  }
}
