// Fine-tuning of the fake host: datasets, fast runs, adapters and exports.

import type { FileDrop } from "../host";
import type {
  Adapter,
  ColumnMapping,
  Dataset,
  Exported,
  ExportFormat,
  ExportOptions,
  Inspection,
  NewRun,
  PauseReason,
  Run,
  RunCurves,
  RunState,
  SampleDataset,
  Stage,
  TrainSettings,
} from "../wire";
import { uniqueName } from "../../text/uniqueName";
import { FakeOrganizing } from "./organizing";
import { CRASHED, detailed, problem } from "./problems";
import { inspect, newDataset, sampleDatasets, pastDatasets, trainDefaults } from "./datasets";
import {
  diverged,
  importedAdapter,
  runAdapter,
  curvesUpTo,
  validationLossAt,
  runOutcome,
  pastAdapters,
  pastRuns,
  runPlan,
  pointAt,
} from "./runs";

const NEVER_ENDS = 100_000;

const NO_DATASET = problem("notFound", { area: "tune", type: "noDataset" });
const NO_RUN = problem("notFound", { area: "tune", type: "noRun" });

/** The stages before the first step of a run. */
const STAGES: readonly Stage[] = [{ type: "openingModel" }, { type: "readingData" }, { type: "dryRun" }];

/** Requests to the current run. */
interface RunControl {
  stop: boolean;
  pause: PauseReason | null;
  die: boolean;
}

export abstract class FakeTuning extends FakeOrganizing {
  private datasetList: Dataset[];
  private runList: Run[];
  private adapterList: Adapter[];
  private readonly curves: Map<number, RunCurves>;
  private readonly hidden = { datasets: new Set<number>(), runs: new Set<number>(), adapters: new Set<number>() };
  private readonly controls = new Map<number, RunControl>();
  private exportCancelled = false;
  private dropListener: ((drop: FileDrop) => void) | null = null;

  constructor(isFirstStart: boolean) {
    super();
    const { runs, curves } = isFirstStart ? { runs: [], curves: new Map<number, RunCurves>() } : pastRuns();
    this.datasetList = isFirstStart ? [] : pastDatasets();
    this.runList = runs;
    this.curves = curves;
    this.adapterList = isFirstStart ? [] : pastAdapters(runs);
  }

  async datasets(): Promise<Dataset[]> {
    return this.datasetList.filter((d) => !this.hidden.datasets.has(d.id));
  }

  async sampleDatasets(): Promise<SampleDataset[]> {
    return sampleDatasets;
  }

  async addDataset(path: string): Promise<Dataset> {
    const existing = this.datasetList.find((d) => d.path === path);
    if (existing) {
      await this.restoreDataset(existing.id);
      return existing;
    }
    if (/\.(png|jpe?g|pdf|zip)$/i.test(path))
      throw detailed(
        "dataInvalid",
        `${path}: this is another kind of file, not a dataset. Choose a file of JSONL, JSON, CSV, TSV, Parquet, Markdown or plain text.`,
      );
    const dataset = newDataset(this.newId(), path);
    this.datasetList = [dataset, ...this.datasetList];
    await this.emitDatasets();
    return dataset;
  }

  async chooseDataFile(): Promise<string | null> {
    return "/home/you/support/replies-2026.jsonl";
  }

  async renameDataset(id: number, name: string): Promise<void> {
    this.datasetList = this.datasetList.map((d) => (d.id === id ? { ...d, name } : d));
    await this.emitDatasets();
  }

  async removeDataset(id: number): Promise<void> {
    this.hidden.datasets.add(id);
    await this.emitDatasets();
  }

  async restoreDataset(id: number): Promise<void> {
    this.hidden.datasets.delete(id);
    await this.emitDatasets();
  }

  async inspectDataset(
    id: number,
    _model: string,
    mapping: ColumnMapping | null,
    skipBroken: boolean,
    sequence: number | null,
    _systemPrompt: string | null,
  ): Promise<Inspection> {
    const dataset = this.datasetList.find((d) => d.id === id);
    if (!dataset) throw NO_DATASET;
    await this.rest(12);
    const seen = inspect(dataset, mapping, skipBroken, sequence);
    this.datasetList = this.datasetList.map((d) => (d.id === id ? { ...d, examples: seen.examples } : d));
    await this.emitDatasets();
    return seen;
  }

  async runs(): Promise<Run[]> {
    return this.runList.filter((r) => !this.hidden.runs.has(r.id));
  }

  async runPoints(id: number): Promise<RunCurves> {
    const curves = this.curves.get(id);
    return curves
      ? { points: [...curves.points], evaluations: [...curves.evaluations] }
      : { points: [], evaluations: [] };
  }

  async trainDefaults(): Promise<TrainSettings> {
    return trainDefaults;
  }

  async startRun(order: NewRun): Promise<Run> {
    const active = this.runList.find(({ id }) => this.controls.has(id));
    if (active) throw problem("busy", { area: "tune", type: "otherRun", name: active.name });
    const dataset = this.datasetList.find((d) => d.id === order.dataset);
    if (!dataset) throw NO_DATASET;
    const run: Run = {
      id: this.newId(),
      name: this.uniqueName(order.name ?? dataset.name),
      model: order.model,
      modelName: "SmolLM2 135M Instruct",
      dataset: dataset.id,
      datasetName: dataset.name,
      settings: order.settings,
      state: { type: "preparing", fraction: 0, stage: { type: "starting" } },
      plan: null,
      last: null,
      checkpoint: null,
      outcome: null,
      adapter: null,
      createdAt: Date.now(),
      endedAt: null,
      pending: null,
      seen: true,
    };
    this.runList = [run, ...this.runList];
    this.curves.set(run.id, { points: [], evaluations: [] });
    void this.train(run.id);
    return run;
  }

  async pauseRun(id: number): Promise<void> {
    const control = this.controls.get(id);
    if (!control) return;
    control.pause = "person";
    this.changeRun(id, { pending: "pause" });
  }

  async resumeRun(id: number): Promise<void> {
    const control = this.controls.get(id);
    if (control) {
      control.pause = null;
      this.changeRun(id, { pending: null });
    } else void this.train(id);
  }

  async stopRun(id: number): Promise<void> {
    const control = this.controls.get(id);
    if (!control) return;
    control.stop = true;
    this.changeRun(id, { pending: "stop" });
  }

  async seeRun(id: number): Promise<void> {
    this.changeRun(id, { seen: true });
  }

  /** For tests: marks the end of a run as not seen. */
  unsee(id: number): void {
    this.changeRun(id, { seen: false });
  }

  async renameRun(id: number, name: string): Promise<void> {
    const unique = this.uniqueName(name, id);
    this.changeRun(id, { name: unique });
    for (const adapter of this.adapterList) if (adapter.run === id) this.changeAdapter(adapter.id, { name: unique });
    await this.emitAdapters();
  }

  async deleteRun(id: number): Promise<void> {
    await this.stopRun(id);
    this.hidden.runs.add(id);
    for (const adapter of this.adapterList) if (adapter.run === id) this.hidden.adapters.add(adapter.id);
    this.emit({ type: "runRemoved", id });
    await this.emitAdapters();
  }

  async restoreRun(id: number): Promise<void> {
    this.hidden.runs.delete(id);
    for (const adapter of this.adapterList) if (adapter.run === id) this.hidden.adapters.delete(adapter.id);
    this.changeRun(id, {});
    await this.emitAdapters();
  }

  async adapters(): Promise<Adapter[]> {
    return this.adapterList.filter((a) => !this.hidden.adapters.has(a.id));
  }

  async importAdapter(path: string, model: string | null): Promise<Adapter> {
    const name = (path.split("/").at(-1) ?? path).replace(/\.gguf$/, "");
    if (/qwen/.test(name))
      throw detailed(
        "adapterInvalid",
        `${path}: this adapter does not belong to this model: it targets all layers of a model with 24 layers, but this model has 30. Choose the model it was trained on, or another adapter.`,
      );
    // For tests: a folder is for a model that is not here, unless one is named.
    const base = model === null && !path.endsWith(".gguf") ? "meta-llama/Llama-3.2-3B-Instruct" : null;
    const adapter = {
      ...importedAdapter(this.newId(), name, path, base),
      model,
      modelName: model === null ? null : "SmolLM2 135M Instruct",
    };
    await this.addAdapter(adapter);
    return adapter;
  }

  protected async addAdapter(adapter: Adapter): Promise<void> {
    this.adapterList = [adapter, ...this.adapterList];
    await this.emitAdapters();
  }

  async chooseAdapter(folder: boolean): Promise<string | null> {
    return folder ? "/home/you/adapters/plain-english" : "/home/you/adapters/plain-english.gguf";
  }

  async renameAdapter(id: number, name: string): Promise<void> {
    const run = this.adapterList.find((adapter) => adapter.id === id)?.run ?? null;
    if (run !== null) return this.renameRun(run, name);
    this.changeAdapter(id, { name });
    await this.emitAdapters();
  }

  async deleteAdapter(id: number): Promise<void> {
    this.hidden.adapters.add(id);
    await this.emitAdapters();
  }

  async restoreAdapter(id: number): Promise<void> {
    this.hidden.adapters.delete(id);
    await this.emitAdapters();
  }

  async exportAdapter(options: ExportOptions): Promise<Exported> {
    this.exportCancelled = false;
    const stages = [options.format.type === "gguf" ? "merging" : "writing", ...(options.verify ? ["verifying"] : [])];
    for (const [at, stage] of stages.entries()) {
      const fraction = 0.05 + at * 0.8;
      this.emit({ type: "exportProgress", adapter: options.adapter, fraction, stage: { type: stage } as Stage });
      await this.rest(20);
      if (this.exportCancelled) throw problem("cancelled", { area: "request", type: "cancelled" });
    }
    const modelfile = options.format.type === "peft" ? null : options.out.replace(/\.gguf$/, ".Modelfile");
    const bytes = options.format.type === "gguf" ? 98_402_112 : 9_781_248;
    if (/full/.test(options.out))
      throw problem("diskFull", {
        area: "worker",
        type: "diskFull",
        path: options.out,
        detail: "No space left on device (os error 28)",
      });
    if (!options.verify) return { path: options.out, bytes, modelfile, verification: null, notices: [] };
    const rough = options.format.type === "gguf" && options.format.kind === "Q4_0";
    return {
      path: options.out,
      bytes,
      modelfile,
      verification: rough
        ? {
            passed: false,
            learned: true,
            prompts: 12,
            divergence: 0.41,
            taught: 0.87,
            sameText: 5,
            result: { type: "tooCoarse", retainedPercent: 52, same: 5, prompts: 12 },
          }
        : {
            passed: true,
            learned: true,
            prompts: 12,
            divergence: 0,
            taught: 0.87,
            sameText: 12,
            result: { type: "matches", retainedPercent: 100, same: 12, prompts: 12 },
          },
      notices: [],
    };
  }

  async cancelExport(): Promise<void> {
    this.exportCancelled = true;
  }

  async chooseExportTarget(format: ExportFormat, name: string): Promise<string | null> {
    return format.type === "peft" ? `/home/you/exports/${name}` : `/home/you/exports/${name}.gguf`;
  }

  async onDrop(listener: (drop: FileDrop) => void): Promise<() => void> {
    this.dropListener = listener;
    return () => (this.dropListener = null);
  }

  /** For tests and the browser's drags: files are over the window, leave it or are dropped. */
  drop(drop: FileDrop): void {
    this.dropListener?.(drop);
  }

  /** For tests: the training worker crashes. */
  killTrainer(): void {
    for (const control of this.controls.values()) control.die = true;
  }

  /** A chat answer starts (`true`) or ends; a run is paused meanwhile. */
  protected setChatBusy(begins: boolean): void {
    for (const control of this.controls.values()) {
      if (begins) control.pause ??= "chat";
      else if (control.pause === "chat") control.pause = null;
    }
  }

  protected vote(adapters: { adapter: number }[], by: { tuned: number; base: number }): void {
    for (const { adapter: id } of adapters) {
      const votes = this.adapterList.find((a) => a.id === id)?.votes;
      if (votes)
        this.changeAdapter(id, {
          votes: { tuned: Math.max(0, votes.tuned + by.tuned), base: Math.max(0, votes.base + by.base) },
        });
    }
    void this.emitAdapters();
  }

  protected adapterName(id: number): string {
    return this.adapterList.find((a) => a.id === id)?.name ?? "deleted";
  }

  protected addRatedDataset(name: string, examples: number): Dataset {
    const dataset = {
      ...newDataset(this.newId(), `/home/you/.local/share/hearth/datasets/${name}.jsonl`),
      name,
      examples,
    };
    this.datasetList = [dataset, ...this.datasetList];
    void this.emitDatasets();
    return dataset;
  }

  private async train(id: number): Promise<void> {
    const control: RunControl = { stop: false, pause: null, die: false };
    this.controls.set(id, control);
    const run = this.run(id);
    const curves = this.curves.get(id) ?? { points: [], evaluations: [] };
    for (const [at, stage] of STAGES.entries()) {
      this.changeRun(id, { state: { type: "preparing", fraction: at / STAGES.length + 0.1, stage } });
      await this.rest(6);
    }
    const steps = run.plan?.steps ?? (/endless/.test(run.datasetName) ? NEVER_ENDS : (run.settings.maxSteps ?? 70));
    const from = run.checkpoint ?? 0;
    const before = curvesUpTo(from, steps);
    curves.points = before.points;
    curves.evaluations = before.evaluations;
    this.changeRun(id, { plan: runPlan(steps, run.settings), seen: true, state: { type: "planned" } });
    await this.rest(4);
    this.changeRun(id, { state: { type: "running" } });
    const every = Math.max(1, Math.round(Math.min(steps, 200) / 10));
    if (from === 0) this.evaluate(id, curves, 0, steps);
    for (let step = from + 1; step <= steps; step++) {
      if (control.die)
        return this.end(id, {
          type: "interrupted",
          problem: problem("workerDied", { area: "tune", type: "runInterrupted", cause: CRASHED }),
        });
      if (control.stop) return this.end(id, { type: "stopped" });
      if (control.pause) await this.wait(id, control);
      if (control.stop) return this.end(id, { type: "stopped" });
      const point = pointAt(step, steps, 2.6);
      if (/explodes/.test(run.datasetName) && step > 24) {
        point.loss = 61.8;
        this.add(id, curves, point);
        return this.end(id, { type: "failed", problem: diverged(25) });
      }
      this.add(id, curves, point);
      if (step % every === 0) {
        this.evaluate(id, curves, step, steps);
        this.changeRun(id, { checkpoint: step, last: point });
      }
      if (this.pace > 0 || step % 8 === 0) await this.rest();
    }
    this.end(id, { type: "finished" });
  }

  private add(id: number, curves: RunCurves, point: RunCurves["points"][number]): void {
    curves.points.push(point);
    this.emit({ type: "runPoint", run: id, point });
  }

  private evaluate(id: number, curves: RunCurves, step: number, steps: number): void {
    const loss = validationLossAt(step, steps);
    const evaluation = { step, loss, best: curves.evaluations.every((e) => e.loss === null || e.loss > loss) };
    curves.evaluations.push(evaluation);
    this.emit({ type: "runEvaluated", run: id, evaluation });
  }

  private async wait(id: number, control: RunControl): Promise<void> {
    this.changeRun(id, { pending: null, state: { type: "paused", reason: control.pause ?? "person" } });
    while (control.pause && !control.stop && !control.die) await new Promise((resolve) => setTimeout(resolve, 5));
    this.changeRun(id, { state: { type: "running" } });
  }

  private end(id: number, state: RunState): void {
    this.controls.delete(id);
    const curves = this.curves.get(id) ?? { points: [], evaluations: [] };
    const ended = state.type === "finished" || state.type === "stopped";
    const trained = ended && curves.points.length > 0;
    const outcome = trained ? runOutcome(curves, state.type === "stopped" ? "stopped" : "completed") : null;
    const adapter = trained ? this.newId() : null;
    this.changeRun(id, {
      state,
      pending: null,
      seen: state.type === "stopped",
      outcome,
      adapter,
      last: curves.points.at(-1) ?? null,
      endedAt: ended ? Date.now() : null,
    });
    const run = this.run(id);
    if (adapter !== null) {
      this.adapterList = [runAdapter(adapter, run), ...this.adapterList];
      void this.emitAdapters();
    }
    if (state.type !== "stopped") this.emit({ type: "runEnded", run });
  }

  protected abstract nameMerged(adapters: readonly Adapter[]): void;

  private run(id: number): Run {
    const run = this.runList.find((r) => r.id === id);
    if (!run) throw NO_RUN;
    return run;
  }

  private changeRun(id: number, change: Partial<Run>): void {
    this.runList = this.runList.map((r) => (r.id === id ? { ...r, ...change } : r));
    if (!this.hidden.runs.has(id)) this.emit({ type: "runChanged", run: this.run(id) });
  }

  /** A name that no other run and no imported adapter has. */
  private uniqueName(name: string, except: number | null = null): string {
    const runs = this.runList.filter(({ id }) => id !== except && !this.hidden.runs.has(id));
    const imported = this.adapterList.filter(({ id, run }) => run === null && !this.hidden.adapters.has(id));
    return uniqueName(
      name,
      [...runs, ...imported].map((result) => result.name),
    );
  }

  private changeAdapter(id: number, change: Partial<Adapter>): void {
    this.adapterList = this.adapterList.map((a) => (a.id === id ? { ...a, ...change } : a));
  }

  private async emitDatasets(): Promise<void> {
    this.emit({ type: "datasetsChanged", datasets: await this.datasets() });
  }

  private async emitAdapters(): Promise<void> {
    const adapters = await this.adapters();
    this.emit({ type: "adaptersChanged", adapters });
    this.nameMerged(adapters);
  }
}
