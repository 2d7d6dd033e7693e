// Owns the export of an adapter: its progress and its outcome, which outlive the dialog.

import { m } from "$messages";
import { asProblem, type Adapter, type Exported, type ExportFormat, type Host, type HostEvent } from "../host";
import type { Problem, Stage } from "../host";
import { problemText } from "../text/problem";
import type { Toasts } from "./toasts.svelte";

/** The parts of the app that an export acts on. */
interface Parts {
  readonly host: Host;
  readonly toasts: Toasts;
  /** Runs an action and shows its error. Returns `false` if it fails. */
  try(action: () => Promise<unknown>): Promise<boolean>;
}

/** An export in progress. */
export interface RunningExport {
  adapter: number;
  name: string;
  format: ExportFormat["type"];
  verify: boolean;
  /** `null` while the file is verified, which reports no progress. */
  fraction: number | null;
  stage: Stage | null;
  cancelling: boolean;
}

/** The outcome of an export. */
export type EndedExport = { adapter: number; format: ExportFormat["type"] } & (
  { exported: Exported; problem: null } | { exported: null; problem: Problem }
);

export class Exports {
  /** The export in progress; at most one. */
  running: RunningExport | null = $state(null);
  /** The outcome of the last export. */
  ended: EndedExport | null = $state.raw(null);
  /** Id of the adapter whose dialog is open. */
  shown: number | null = null;

  constructor(private readonly app: Parts) {}

  /** Asks for a place and exports an adapter to it. */
  async start(adapter: Adapter, format: ExportFormat, verify: boolean): Promise<void> {
    if (this.running) return;
    const { id, name } = adapter;
    this.ended = null;
    try {
      const out = await this.app.host.chooseExportTarget(format, name, m.shell_dialog_export({ name }));
      if (out === null) return;
      this.running = { adapter: id, name, format: format.type, verify, fraction: 0, stage: null, cancelling: false };
      const exported = await this.app.host.exportAdapter({ adapter: id, format, out, verify });
      this.end(name, { adapter: id, format: format.type, exported, problem: null });
    } catch (error) {
      this.end(name, { adapter: id, format: format.type, exported: null, problem: asProblem(error) });
    } finally {
      this.running = null;
    }
  }

  async cancel(): Promise<void> {
    if (!this.running) return;
    this.running.cancelling = true;
    await this.app.host.cancelExport();
  }

  /** Forgets the outcome of the last export. */
  clear(): void {
    this.ended = null;
  }

  handle(event: HostEvent): void {
    if (event.type !== "exportProgress" || event.adapter !== this.running?.adapter) return;
    this.running.fraction = event.stage.type === "verifying" ? null : event.fraction;
    this.running.stage = event.stage;
  }

  /** Shows the end, as a toast if the dialog was closed. */
  private end(name: string, ended: EndedExport): void {
    this.ended = ended;
    if (this.shown === ended.adapter) return;
    const { exported, problem } = ended;
    if (exported) {
      this.app.toasts.show({
        kind: "note",
        text: m.store_exported({ name }),
        action: {
          label: m.tune_export_show(),
          run: () => void this.app.try(() => this.app.host.showInFolder(exported.path)),
        },
      });
    } else if (problem && problem.code !== "cancelled")
      this.app.toasts.show({
        kind: "problem",
        text: m.store_export_failed({ name, problem: problemText(problem) }),
      });
  }
}
