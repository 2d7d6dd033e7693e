// The UI's only door: every command the window can be asked, and the events it sends. Nothing else in `ui/` knows a desktop.

import type {
  Adapter,
  AdapterChoice,
  Cache,
  Cached,
  ColumnMapping,
  Compared,
  Conversation,
  Dataset,
  Device,
  Event,
  Exported,
  ExportFormat,
  ExportOrder,
  Inspection,
  Measurement,
  Message,
  Model,
  NewRun,
  Plan,
  Problem,
  Run,
  RunCurves,
  SampleDataset,
  SearchHit,
  Sent,
  Settings,
  Snapshot,
  Thumb,
  TrainSettings,
  WhatIf,
} from "./wire";

export type * from "./wire";
export type HostEvent = Event;

/** Files that are dragged onto the window: `over` while they hang there, then `drop` or `leave`. */
export type FileDrop = { type: "over" | "drop"; paths: string[] } | { type: "leave" };

/** Commands reject with a {@link Problem}. */
export interface Host {
  /** Everything the window shows when it opens. */
  snapshot(): Promise<Snapshot>;
  openConversation(id: number): Promise<Conversation>;
  /** Without a conversation a new one begins. */
  send(conversation: number | null, parent: number | null, text: string): Promise<Sent>;
  /** A sibling of this answer, to the same message. */
  regenerate(message: number): Promise<Sent>;
  /** A sibling of this message of the person's, with an answer of its own. */
  edit(message: number, text: string): Promise<Sent>;
  stop(conversation: number): Promise<void>;
  /** Shows the branch that runs through this message. */
  selectLeaf(conversation: number, message: number): Promise<Conversation>;
  renameConversation(id: number, title: string): Promise<void>;
  deleteConversation(id: number): Promise<void>;
  restoreConversation(id: number): Promise<void>;
  setSystemPrompt(conversation: number, text: string | null): Promise<void>;
  search(query: string): Promise<SearchHit[]>;
  loadModel(id: string): Promise<void>;
  unloadModel(): Promise<void>;
  addModel(path: string): Promise<Model>;
  /** Takes a model off the list; a file that a person added stays where it is. */
  forgetModel(id: string): Promise<void>;
  setSettings(settings: Settings): Promise<void>;
  /** The devices a model can run on, as they are now. */
  devices(): Promise<Device[]>;
  /**
   * Compares what a device computes with what the processor does, and measures it, in every build of Hearth that can use it.
   * Resolves, perhaps minutes later, to all devices as they are then.
   */
  checkDevice(device: string): Promise<Device[]>;
  /** Where a model's bytes would go. Rejects with `superseded` when a newer plan for it was asked for meanwhile. */
  plan(model: string, whatIf: WhatIf): Promise<Plan>;
  /** Resolves once it is done, which takes a while; how far it is comes through events. */
  measure(): Promise<Measurement>;
  /** `measure` rejects with `cancelled` then. */
  stopMeasuring(): Promise<void>;
  /** Newest first. */
  measurements(): Promise<Measurement[]>;
  /** What is kept on the disk to be quick. */
  caches(): Promise<Cached[]>;
  /** Empties a cache; what each takes then. Nothing else is deleted. */
  clearCache(cache: Cache): Promise<Cached[]>;
  /** Describes the machine and what Hearth does with it, for a bug report. */
  report(): Promise<string>;
  /** A native dialog; none when it is cancelled. */
  chooseModelFile(): Promise<string | null>;

  datasets(): Promise<Dataset[]>;
  /** Datasets that came with the app; `addDataset` takes their paths. */
  sampleDatasets(): Promise<SampleDataset[]>;
  /** A file that was added before is the same dataset. */
  addDataset(path: string): Promise<Dataset>;
  /** A native dialog; none when it is cancelled. */
  chooseDataFile(): Promise<string | null>;
  renameDataset(id: number, name: string): Promise<void>;
  /** Takes a dataset off the list; its file stays where it is. */
  forgetDataset(id: number): Promise<void>;
  restoreDataset(id: number): Promise<void>;
  /** Reads a dataset as a run on this model would. Without a mapping the columns are recognised. */
  inspectDataset(id: number, model: string, mapping: ColumnMapping | null, skipBroken: boolean, sequence: number | null): Promise<Inspection>;

  /** Newest first. */
  runs(): Promise<Run[]>;
  runPoints(id: number): Promise<RunCurves>;
  /** What the Train button takes when nothing was changed. */
  trainDefaults(): Promise<TrainSettings>;
  /** One run at a time: while one is under way or paused, this rejects with `busy`. */
  startRun(run: NewRun): Promise<Run>;
  pauseRun(id: number): Promise<void>;
  /** Goes on with a paused run, or with an interrupted or failed one from its last checkpoint. */
  resumeRun(id: number): Promise<void>;
  /** What was learnt is kept. A second time, while the worker still does not end: ends it by force. */
  stopRun(id: number): Promise<void>;
  renameRun(id: number, name: string): Promise<void>;
  /** With its adapter; ends it if it is under way. */
  deleteRun(id: number): Promise<void>;
  restoreRun(id: number): Promise<void>;

  /** Newest first. */
  adapters(): Promise<Adapter[]>;
  /** A PEFT folder or a GGUF adapter, made for this model. */
  importAdapter(path: string, model: string): Promise<Adapter>;
  /** A native dialog, for a GGUF file or for a PEFT folder; none when it is cancelled. */
  chooseAdapter(folder: boolean): Promise<string | null>;
  renameAdapter(id: number, name: string): Promise<void>;
  deleteAdapter(id: number): Promise<void>;
  restoreAdapter(id: number): Promise<void>;
  /** Resolves once it is written (and verified), which may take minutes. */
  exportAdapter(order: ExportOrder): Promise<Exported>;
  /** A native dialog that fits the format; none when it is cancelled. */
  chooseExportTarget(format: ExportFormat, name: string): Promise<string | null>;

  /** What new answers of a conversation are made with; an empty list: the model as it is. */
  setConversationAdapters(conversation: number, choices: AdapterChoice[]): Promise<void>;
  /** Like `send`, but with two answers side by side: the model as it is, then with adapters. */
  compare(conversation: number | null, parent: number | null, text: string, adapters: AdapterChoice[]): Promise<Compared>;
  /** Of two answers side by side this one is better, and the conversation goes on from it; false takes the vote back. */
  voteAnswer(message: number, better: boolean): Promise<void>;
  /** Neither a thumb nor a correction: the rating is taken back. A correction alone is a thumb down. */
  rateAnswer(message: number, thumb: Thumb | null, correction: string | null): Promise<void>;
  /** How many answers `gatherDataset` would write: those that are good, and those that were corrected. */
  ratedExamples(): Promise<number>;
  /** Writes them into a file of the app's and adds it as a dataset. */
  gatherDataset(name: string): Promise<Dataset>;

  /** Files over the window, and at last dropped on it. Resolves to what ends listening. */
  onDrop(listener: (drop: FileDrop) => void): Promise<() => void>;
  /** Opens an address in the person's own browser. */
  openLink(address: string): Promise<void>;
  /** Resolves, once events flow, to what ends them. */
  onEvent(listener: (event: HostEvent) => void): Promise<() => void>;
}

/** Whatever was thrown, as a problem with a sentence in it. */
export function asProblem(thrown: unknown): Problem {
  if (typeof thrown === "object" && thrown !== null && "message" in thrown) {
    const code = "code" in thrown && typeof thrown.code === "string" ? thrown.code : "internal";
    return { code, message: String(thrown.message) };
  }
  return { code: "internal", message: String(thrown) };
}

/** An answer that is still being made. */
export function isActive(message: Message): boolean {
  const type = message.state.type;
  return type === "waiting" || type === "reading" || type === "streaming";
}
