// The interface between UI and app: all commands and events. Nothing outside `host/` depends on the
// desktop.

import type {
  Adapter,
  AdapterChoice,
  Cache,
  CacheUsage,
  ColumnMapping,
  Compared,
  Conversation,
  Dataset,
  Device,
  Event,
  Exported,
  ExportFormat,
  ExportOptions,
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
  LoadSettings,
} from "./wire";

export type * from "./wire";
export type HostEvent = Event;

/** Files dragged over the window: `over`, then `drop` or `leave`. */
export type FileDrop = { type: "over" | "drop"; paths: string[] } | { type: "leave" };

/** Commands reject with a {@link Problem}. */
export interface Host {
  /** The initial state of the window. */
  snapshot(): Promise<Snapshot>;
  openConversation(id: number): Promise<Conversation>;
  /** Starts a new conversation if `conversation` is `null`. */
  send(conversation: number | null, parent: number | null, text: string): Promise<Sent>;
  /** Generates a sibling of this answer. */
  regenerate(message: number): Promise<Sent>;
  /** Adds a sibling of this user message and generates its answer. */
  edit(message: number, text: string): Promise<Sent>;
  stop(conversation: number): Promise<void>;
  /** Switches to the branch through this message. */
  selectLeaf(conversation: number, message: number): Promise<Conversation>;
  renameConversation(id: number, title: string): Promise<void>;
  deleteConversation(id: number): Promise<void>;
  restoreConversation(id: number): Promise<void>;
  setSystemPrompt(conversation: number, text: string | null): Promise<void>;
  search(query: string): Promise<SearchHit[]>;
  loadModel(id: string): Promise<void>;
  unloadModel(): Promise<void>;
  addModel(path: string): Promise<Model>;
  /** Removes a model from the list; a file added by the user stays on disk. */
  removeModel(id: string): Promise<void>;
  setSettings(settings: Settings): Promise<void>;
  /** The devices that can run a model, with their current memory and load. */
  devices(): Promise<Device[]>;
  /**
   * Checks a device (compares its results with the CPU's) and measures it, with every build that can use it. May take minutes.
   * Returns all devices.
   */
  checkDevice(device: string): Promise<Device[]>;
  /** The memory plan of a model. Rejects with `superseded` if a newer plan was requested meanwhile. */
  plan(model: string, loadSettings: LoadSettings): Promise<Plan>;
  /** Measures prefill and decode speed; reports progress through events. */
  measure(): Promise<Measurement>;
  /** Makes `measure` reject with `cancelled`. */
  stopMeasuring(): Promise<void>;
  /** Newest first. */
  measurements(): Promise<Measurement[]>;
  /** The caches on disk. */
  caches(): Promise<CacheUsage[]>;
  /** Clears a cache; returns all caches. Nothing else is deleted. */
  clearCache(cache: Cache): Promise<CacheUsage[]>;
  /** A description of the machine and of Hearth's state, for bug reports. */
  report(): Promise<string>;
  /** Opens a native dialog; `null` if cancelled. */
  chooseModelFile(): Promise<string | null>;

  datasets(): Promise<Dataset[]>;
  /** Bundled datasets; pass their paths to `addDataset`. */
  sampleDatasets(): Promise<SampleDataset[]>;
  /** Returns the existing dataset if the file was added before. */
  addDataset(path: string): Promise<Dataset>;
  /** Opens a native dialog; `null` if cancelled. */
  chooseDataFile(): Promise<string | null>;
  renameDataset(id: number, name: string): Promise<void>;
  /** Removes a dataset from the list; its file stays. */
  removeDataset(id: number): Promise<void>;
  restoreDataset(id: number): Promise<void>;
  /** Inspects a dataset as a run on this model would read it. Without a mapping the columns are detected. */
  inspectDataset(id: number, model: string, mapping: ColumnMapping | null, skipBroken: boolean, sequence: number | null): Promise<Inspection>;

  /** Newest first. */
  runs(): Promise<Run[]>;
  runPoints(id: number): Promise<RunCurves>;
  /** The default training settings. */
  trainDefaults(): Promise<TrainSettings>;
  /** Rejects with `busy` while another run is active or paused. */
  startRun(run: NewRun): Promise<Run>;
  pauseRun(id: number): Promise<void>;
  /** Resumes a paused run, or an interrupted or failed one from its last checkpoint. */
  resumeRun(id: number): Promise<void>;
  /** Stops a run and saves its adapter. A second call, while the worker is still running, kills it. */
  stopRun(id: number): Promise<void>;
  renameRun(id: number, name: string): Promise<void>;
  /** Deletes a run and its adapter; stops it if active. */
  deleteRun(id: number): Promise<void>;
  restoreRun(id: number): Promise<void>;

  /** Newest first. */
  adapters(): Promise<Adapter[]>;
  /** Imports a PEFT folder or a GGUF adapter for this model. */
  importAdapter(path: string, model: string): Promise<Adapter>;
  /** Opens a native dialog for a GGUF file or a PEFT folder; `null` if cancelled. */
  chooseAdapter(folder: boolean): Promise<string | null>;
  renameAdapter(id: number, name: string): Promise<void>;
  deleteAdapter(id: number): Promise<void>;
  restoreAdapter(id: number): Promise<void>;
  /** Exports (and verifies) an adapter; may take minutes. */
  exportAdapter(options: ExportOptions): Promise<Exported>;
  /** Opens a native dialog for the format; `null` if cancelled. */
  chooseExportTarget(format: ExportFormat, name: string): Promise<string | null>;

  /** Sets the adapters of new answers; an empty list means the base model. */
  setConversationAdapters(conversation: number, choices: AdapterChoice[]): Promise<void>;
  /** Like `send`, with two answers: base model, then with adapters. */
  compare(conversation: number | null, parent: number | null, text: string, adapters: AdapterChoice[]): Promise<Compared>;
  /** Votes for one of two compared answers, from which the conversation continues; `false` removes the vote. */
  voteAnswer(message: number, better: boolean): Promise<void>;
  /** Removes the rating if both are `null`. A correction alone counts as thumb down. */
  rateAnswer(message: number, thumb: Thumb | null, correction: string | null): Promise<void>;
  /** Number of answers that `datasetFromRatings` would write: rated good, or corrected. */
  ratedExamples(): Promise<number>;
  /** Writes the rated answers to a file of the app's and adds it as a dataset. */
  datasetFromRatings(name: string): Promise<Dataset>;

  /** Listens to dragged files; returns a function that stops listening. */
  onDrop(listener: (drop: FileDrop) => void): Promise<() => void>;
  /** Opens an address in the default browser. */
  openLink(address: string): Promise<void>;
  /** Listens to events; returns a function that stops listening. */
  onEvent(listener: (event: HostEvent) => void): Promise<() => void>;
}

/** Converts any thrown value to a `Problem`. */
export function asProblem(thrown: unknown): Problem {
  if (typeof thrown === "object" && thrown !== null && "message" in thrown) {
    const code = "code" in thrown && typeof thrown.code === "string" ? thrown.code : "internal";
    return { code, message: String(thrown.message) };
  }
  return { code: "internal", message: String(thrown) };
}

/** Whether an answer is still being generated. */
export function isActive(message: Message): boolean {
  const type = message.state.type;
  return type === "waiting" || type === "prefill" || type === "streaming";
}
