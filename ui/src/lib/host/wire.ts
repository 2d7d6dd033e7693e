// Generated from crates/app/src/wire; see crates/app/tests/wire.rs. Do not edit.

/** The app's commands. They reject with a {@link Problem}. */
export interface Commands {
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
  search(query: string): Promise<Array<SearchHit>>;
  loadModel(id: string): Promise<void>;
  unloadModel(): Promise<void>;
  addModel(path: string): Promise<Model>;
  /** Removes a model from the list; a file added by the user stays on disk. */
  removeModel(id: string): Promise<void>;
  /** The devices that can run a model, with their current memory and load. */
  devices(): Promise<Array<Device>>;
  /** Checks a device (compares its results with the CPU's) and measures it, with every build that can use it. May take minutes. Returns all devices. */
  checkDevice(device: string): Promise<Array<Device>>;
  /** The memory plan of a model. Rejects with `superseded` if a newer plan was requested meanwhile. */
  plan(model: string, loadSettings: LoadSettings): Promise<Plan>;
  /** Measures prefill and decode speed; reports progress through events. */
  measure(): Promise<Measurement>;
  /** Makes `measure` reject with `cancelled`. */
  stopMeasuring(): Promise<void>;
  /** Newest first. */
  measurements(): Promise<Array<Measurement>>;
  /** The caches on disk. */
  caches(): Promise<Array<CacheUsage>>;
  /** Clears a cache; returns all caches. Nothing else is deleted. */
  clearCache(cache: Cache): Promise<Array<CacheUsage>>;
  /** A description of the machine and of Hearth's state, for bug reports. */
  report(): Promise<string>;
  datasets(): Promise<Array<Dataset>>;
  /** Bundled datasets; pass their paths to `addDataset`. */
  sampleDatasets(): Promise<Array<SampleDataset>>;
  /** Returns the existing dataset if the file was added before. */
  addDataset(path: string): Promise<Dataset>;
  renameDataset(id: number, name: string): Promise<void>;
  /** Removes a dataset from the list; its file stays. */
  removeDataset(id: number): Promise<void>;
  restoreDataset(id: number): Promise<void>;
  /** Inspects a dataset as a run on this model would read it. Without a mapping the columns are detected. */
  inspectDataset(id: number, model: string, mapping: ColumnMapping | null, skipBroken: boolean, sequence: number | null): Promise<Inspection>;
  /** Newest first. */
  runs(): Promise<Array<Run>>;
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
  adapters(): Promise<Array<Adapter>>;
  /** Imports a PEFT folder or a GGUF adapter for this model. */
  importAdapter(path: string, model: string): Promise<Adapter>;
  renameAdapter(id: number, name: string): Promise<void>;
  deleteAdapter(id: number): Promise<void>;
  restoreAdapter(id: number): Promise<void>;
  /** Exports (and verifies) an adapter; may take minutes. */
  exportAdapter(options: ExportOptions): Promise<Exported>;
  /** Sets the adapters of new answers; an empty list means the base model. */
  setConversationAdapters(conversation: number, choices: Array<AdapterChoice>): Promise<void>;
  /** Like `send`, with two answers: base model, then with adapters. */
  compare(conversation: number | null, parent: number | null, text: string, adapters: Array<AdapterChoice>): Promise<Compared>;
  /** Votes for one of two compared answers, from which the conversation continues; `false` removes the vote. */
  voteAnswer(message: number, better: boolean): Promise<void>;
  /** Removes the rating if both are `null`. A correction alone counts as thumb down. */
  rateAnswer(message: number, thumb: Thumb | null, correction: string | null): Promise<void>;
  /** Number of answers that `datasetFromRatings` would write: rated good, or corrected. */
  ratedExamples(): Promise<number>;
  /** Writes the rated answers to a file of the app's and adds it as a dataset. */
  datasetFromRatings(name: string): Promise<Dataset>;
  /** Saves the settings. A loaded model is reloaded if its load settings change. */
  setSettings(settings: Settings): Promise<void>;
  /** Opens a native dialog; `null` if cancelled. */
  chooseModelFile(): Promise<string | null>;
  /** Opens a native dialog; `null` if cancelled. */
  chooseDataFile(): Promise<string | null>;
  /** Opens a native dialog for a GGUF file or a PEFT folder; `null` if cancelled. */
  chooseAdapter(folder: boolean): Promise<string | null>;
  /** Opens a native dialog for the format; `null` if cancelled. */
  chooseExportTarget(format: ExportFormat, name: string): Promise<string | null>;
}

/** Calls commands by their names and named arguments. */
export const commands = (invoke: <T>(command: string, named?: Record<string, unknown>) => Promise<T>): Commands => ({
  snapshot: () => invoke("snapshot"),
  openConversation: (id) => invoke("open_conversation", { id }),
  send: (conversation, parent, text) => invoke("send", { conversation, parent, text }),
  regenerate: (message) => invoke("regenerate", { message }),
  edit: (message, text) => invoke("edit", { message, text }),
  stop: (conversation) => invoke("stop", { conversation }),
  selectLeaf: (conversation, message) => invoke("select_leaf", { conversation, message }),
  renameConversation: (id, title) => invoke("rename_conversation", { id, title }),
  deleteConversation: (id) => invoke("delete_conversation", { id }),
  restoreConversation: (id) => invoke("restore_conversation", { id }),
  setSystemPrompt: (conversation, text) => invoke("set_system_prompt", { conversation, text }),
  search: (query) => invoke("search", { query }),
  loadModel: (id) => invoke("load_model", { id }),
  unloadModel: () => invoke("unload_model"),
  addModel: (path) => invoke("add_model", { path }),
  removeModel: (id) => invoke("remove_model", { id }),
  devices: () => invoke("devices"),
  checkDevice: (device) => invoke("check_device", { device }),
  plan: (model, loadSettings) => invoke("plan", { model, loadSettings }),
  measure: () => invoke("measure"),
  stopMeasuring: () => invoke("stop_measuring"),
  measurements: () => invoke("measurements"),
  caches: () => invoke("caches"),
  clearCache: (cache) => invoke("clear_cache", { cache }),
  report: () => invoke("report"),
  datasets: () => invoke("datasets"),
  sampleDatasets: () => invoke("sample_datasets"),
  addDataset: (path) => invoke("add_dataset", { path }),
  renameDataset: (id, name) => invoke("rename_dataset", { id, name }),
  removeDataset: (id) => invoke("remove_dataset", { id }),
  restoreDataset: (id) => invoke("restore_dataset", { id }),
  inspectDataset: (id, model, mapping, skipBroken, sequence) => invoke("inspect_dataset", { id, model, mapping, skipBroken, sequence }),
  runs: () => invoke("runs"),
  runPoints: (id) => invoke("run_points", { id }),
  trainDefaults: () => invoke("train_defaults"),
  startRun: (run) => invoke("start_run", { run }),
  pauseRun: (id) => invoke("pause_run", { id }),
  resumeRun: (id) => invoke("resume_run", { id }),
  stopRun: (id) => invoke("stop_run", { id }),
  renameRun: (id, name) => invoke("rename_run", { id, name }),
  deleteRun: (id) => invoke("delete_run", { id }),
  restoreRun: (id) => invoke("restore_run", { id }),
  adapters: () => invoke("adapters"),
  importAdapter: (path, model) => invoke("import_adapter", { path, model }),
  renameAdapter: (id, name) => invoke("rename_adapter", { id, name }),
  deleteAdapter: (id) => invoke("delete_adapter", { id }),
  restoreAdapter: (id) => invoke("restore_adapter", { id }),
  exportAdapter: (options) => invoke("export_adapter", { options }),
  setConversationAdapters: (conversation, choices) => invoke("set_conversation_adapters", { conversation, choices }),
  compare: (conversation, parent, text, adapters) => invoke("compare", { conversation, parent, text, adapters }),
  voteAnswer: (message, better) => invoke("vote_answer", { message, better }),
  rateAnswer: (message, thumb, correction) => invoke("rate_answer", { message, thumb, correction }),
  ratedExamples: () => invoke("rated_examples"),
  datasetFromRatings: (name) => invoke("dataset_from_ratings", { name }),
  setSettings: (settings) => invoke("set_settings", { settings }),
  chooseModelFile: () => invoke("choose_model_file"),
  chooseDataFile: () => invoke("choose_data_file"),
  chooseAdapter: (folder) => invoke("choose_adapter", { folder }),
  chooseExportTarget: (format, name) => invoke("choose_export_target", { format, name }),
});

/** The name of the Tauri event that carries every {@link Event}. */
export const EVENT_NAME = "hearth";

/** The settings of a new installation. */
export const defaultSettings: Settings = {"theme":"system","threads":null,"context":null,"device":null,"trainingDevice":null,"build":null,"gpuLayers":{"type":"auto"},"kv":"f16","lastModel":null,"promptCacheLimit":2000000000};

export type Adapter = {
/**
 * Id, used in every command.
 */
id: number,
/**
 * Display name.
 */
name: string,
/**
 * Id of its run. `None` means imported.
 */
run: number | null,
/**
 * Id of the base model.
 */
model: string,
/**
 * Name of the base model.
 */
modelName: string,
/**
 * File or folder.
 */
path: string,
/**
 * Time of creation or import.
 */
createdAt: number,
/**
 * Outcome of its run.
 */
outcome: Outcome | null,
/**
 * Votes of comparisons.
 */
votes: Votes,
/**
 * Why it cannot be used, as a sentence. `None` means it can.
 */
problem: string | null, };

export type AdapterChoice = {
/**
 * Id of the adapter.
 */
adapter: number,
/**
 * Scale; 1 is as trained.
 */
scale: number, };

export type BackendOption = {
/**
 * `portable`, `vulkan`, `cuda` or `rocm`.
 */
build: string,
/**
 * The build's backend.
 */
backend: string,
/**
 * Result of the device check. `None` means not checked.
 */
check: DeviceCheck | null, };

export type BrokenLine = {
/**
 * Line number, from 1.
 */
line: number,
/**
 * The reason, in one sentence.
 */
why: string, };

export type Cache = "prompts" | "weights";

export type CacheUsage = {
/**
 * The cache.
 */
cache: Cache,
/**
 * Its folder, which may not exist yet.
 */
path: string,
/**
 * Total size of its files, in bytes.
 */
bytes: number, };

export type Checkpointing = "auto" | "operations" | "layers";

export type ColumnMapping = {
/**
 * Whole conversations (messages or ShareGPT).
 */
messages: string | null,
/**
 * System prompt.
 */
system: string | null,
/**
 * User message.
 */
prompt: string | null,
/**
 * Further input (alpaca's `input`).
 */
input: string | null,
/**
 * Answer.
 */
answer: string | null,
/**
 * Plain text for language modelling.
 */
text: string | null, };

export type Compared = {
/**
 * The conversation, perhaps a new one.
 */
conversation: ConversationSummary,
/**
 * The new user message.
 */
user: Message,
/**
 * The base model's answer, still empty; generated first.
 */
base: Message,
/**
 * The answer with adapters, still empty; generated second.
 */
tuned: Message, };

export type Conversation = {
/**
 * Id.
 */
id: number,
/**
 * Title.
 */
title: string,
/**
 * Creation time.
 */
createdAt: number,
/**
 * Time of the last message.
 */
updatedAt: number,
/**
 * Name of the last model that answered.
 */
model: string | null,
/**
 * System prompt. `None` means the model's default.
 */
systemPrompt: string | null,
/**
 * The adapters for new answers. Empty means the base model.
 */
adapters: Array<AdapterChoice>,
/**
 * Id of the last message of the selected branch.
 */
leaf: number | null,
/**
 * All nodes of the tree, in creation order.
 */
messages: Array<Message>, };

export type ConversationSummary = {
/**
 * Id.
 */
id: number,
/**
 * Title.
 */
title: string,
/**
 * Creation time.
 */
createdAt: number,
/**
 * Time of the last message.
 */
updatedAt: number,
/**
 * Name of the last model that answered.
 */
model: string | null, };

export type CutReason = "length" | "contextFull";

export type Dataset = {
/**
 * Id, used in every command.
 */
id: number,
/**
 * Display name.
 */
name: string,
/**
 * The file.
 */
path: string,
/**
 * When it was added.
 */
addedAt: number,
/**
 * Number of examples at the last inspection.
 */
examples: number | null,
/**
 * Why it cannot be used, as a sentence. `None` means it can.
 */
problem: string | null, };

export type Device = {
/**
 * `cpu`, `gpu0` and so on.
 */
id: string,
/**
 * Identity that is stable across restarts; settings refer to it.
 */
identity: string,
/**
 * `cpu`, `discrete`, `integrated` or `software`.
 */
kind: string,
/**
 * Product name.
 */
name: string,
/**
 * Backend that a model would use: `cpu`, `vulkan`, `metal`, `dx12` and so on. Empty means
 * none.
 */
backend: string,
/**
 * Total memory in bytes; main memory for a device that shares it. `None` means unknown.
 */
memoryTotal: number | null,
/**
 * Free memory in bytes. `None` means unknown.
 */
memoryFree: number | null,
/**
 * Whether a model can run on it.
 */
usable: boolean,
/**
 * Why it is or is not usable, in one sentence.
 */
why: string,
/**
 * Driver name and version. `None` for a CPU, or if unknown.
 */
driver: string | null,
/**
 * API version of the driver: `Vulkan 1.3.280`.
 */
api: string | null,
/**
 * Utilisation from 0 to 1. `None` means unknown.
 */
load: number | null,
/**
 * Physical cores of a CPU. `None` for a GPU.
 */
cores: number | null,
/**
 * Performance cores among them.
 */
performanceCores: number | null,
/**
 * Backends that can use it.
 */
backendNames: Array<string>,
/**
 * The builds of Hearth that can use it; the automatic choice first.
 */
backends: Array<BackendOption>, };

export type DeviceCheck = {
/**
 * The first mismatch with the CPU's results, in one sentence. `None` means that all results
 * match.
 */
mismatch: string | null,
/**
 * Decode throughput in bytes of weights per second.
 */
bytesPerSecond: number,
/**
 * Prefill throughput in multiply-accumulates per second.
 */
macsPerSecond: number, };

export type EndReason = "completed" | "earlyStop" | "stopped";

export type Event = { "type": "modelState",
/**
 * The new state.
 */
state: ModelState, } | { "type": "messageDelta",
/**
 * Id of the conversation.
 */
conversation: number,
/**
 * The message.
 */
message: number,
/**
 * Text to append.
 */
text: string,
/**
 * Tokens generated so far.
 */
tokens: number,
/**
 * Decode speed so far, in tokens per second.
 */
tokensPerSecond: number, } | { "type": "messageChanged",
/**
 * The message.
 */
message: Message, } | { "type": "conversationChanged",
/**
 * The conversation.
 */
conversation: ConversationSummary,
/**
 * Id of the last message of the selected branch.
 */
leaf: number | null, } | { "type": "conversationRemoved",
/**
 * Its id.
 */
id: number, } | { "type": "modelsChanged",
/**
 * Models of the library now.
 */
models: Array<Model>, } | { "type": "workerDied",
/**
 * What happened.
 */
problem: Problem, } | { "type": "measureProgress",
/**
 * From 0 to 1.
 */
fraction: number, } | { "type": "contextUsed",
/**
 * The conversation.
 */
conversation: number,
/**
 * Tokens in use.
 */
used: number,
/**
 * Context length in tokens.
 */
total: number, } | { "type": "datasetsChanged",
/**
 * All datasets now.
 */
datasets: Array<Dataset>, } | { "type": "runChanged",
/**
 * The run.
 */
run: Run, } | { "type": "runRemoved",
/**
 * Its id.
 */
id: number, } | { "type": "runPoint",
/**
 * Id of the run.
 */
run: number,
/**
 * The step.
 */
point: RunPoint, } | { "type": "runEvaluated",
/**
 * Id of the run.
 */
run: number,
/**
 * The result.
 */
evaluation: RunEvaluation, } | { "type": "runEnded",
/**
 * Id of the run.
 */
run: number,
/**
 * The end, in a sentence.
 */
message: string, } | { "type": "storeLocked",
/**
 * Whether it is still locked.
 */
locked: boolean, } | { "type": "closing",
/**
 * Id of the run.
 */
run: number, } | { "type": "adaptersChanged",
/**
 * All adapters now.
 */
adapters: Array<Adapter>, };

export type ExportFormat = { "type": "ggufLora" } | { "type": "peft" } | { "type": "gguf",
/**
 * Quant type of the weights (`Q4_K`, `IQ4_XS`, `Q8_0`, `F16`). `None` means that of each
 * base weight.
 */
kind: string | null, };

export type ExportOptions = {
/**
 * Id of the adapter.
 */
adapter: number,
/**
 * Format.
 */
format: ExportFormat,
/**
 * The file or folder to write.
 */
out: string,
/**
 * Whether to reload the export and compare it.
 */
verify: boolean, };

export type Exported = {
/**
 * The file or folder.
 */
path: string,
/**
 * Size in bytes.
 */
bytes: number,
/**
 * Result of verifying, if requested.
 */
verification: Verification | null, };

export type Finding = {
/**
 * Code: `duplicates`, `near_duplicates`, `truncated`, `empty_answers`, `secrets`, `leaks`,
 * `few`, `broken`, `retrieve`.
 */
kind: string,
/**
 * Severity.
 */
severity: Severity,
/**
 * The finding and what to do, as sentences.
 */
message: string,
/**
 * The first twenty lines concerned.
 */
lines: Array<number>, };

export type GpuLayers = { "type": "auto" } | { "type": "all" } | { "type": "count",
/**
 * Number of layers.
 */
count: number, };

export type Inspection = {
/**
 * `JSONL`, `CSV` and so on.
 */
container: string,
/**
 * Format of the examples: `messages`, `ShareGPT`, `alpaca`, `prompt and answer`, `text`.
 */
shape: string,
/**
 * All columns.
 */
columns: Array<string>,
/**
 * Column mapping, as recognised or as requested.
 */
mapping: ColumnMapping,
/**
 * Whether a person should confirm the mapping.
 */
unsure: boolean,
/**
 * Number of usable examples.
 */
examples: number,
/**
 * Tokens of the examples, chat template included.
 */
tokens: number,
/**
 * Tokens that count towards the loss.
 */
trainedTokens: number,
/**
 * Lengths in tokens of the median, the 95th percentile and the longest example.
 */
lengths: [number, number, number],
/**
 * Max sequence length of a run.
 */
sequence: number,
/**
 * Number of examples longer than that.
 */
truncated: number,
/**
 * Previews of some examples.
 */
previews: Array<Preview>,
/**
 * Findings, most severe first.
 */
findings: Array<Finding>,
/**
 * The first hundred malformed lines.
 */
broken: Array<BrokenLine>,
/**
 * Number of malformed lines.
 */
brokenTotal: number, };

export type KvType = "f16" | "q8_0";

export type LeftOut = {
/**
 * Number of messages.
 */
messages: number,
/**
 * Number of tokens.
 */
tokens: number, };

export type LoadSettings = {
/**
 * CPU threads. `None` means the number of physical cores.
 */
threads: number | null,
/**
 * Context length in tokens. `None` means automatic.
 */
context: number | null,
/**
 * Identity of the device. `None` means automatic.
 */
device: string | null,
/**
 * The build of Hearth that uses the GPU. `None` means the fastest.
 */
build: string | null,
/**
 * Layers on GPUs.
 */
gpuLayers: GpuLayers,
/**
 * Type of the KV cache.
 */
kv: KvType, };

export type Measurement = {
/**
 * Id of the model in the library.
 */
model: string,
/**
 * The model's name at that time.
 */
modelName: string,
/**
 * Identity of the device.
 */
device: string,
/**
 * Layers on GPUs.
 */
gpuLayers: number,
/**
 * Total layers.
 */
layersTotal: number,
/**
 * Type of the KV cache.
 */
kv: KvType,
/**
 * CPU threads.
 */
threads: number,
/**
 * Prefill speed in tokens per second.
 */
promptTokensPerSecond: number,
/**
 * Decode speed in tokens per second.
 */
tokensPerSecond: number,
/**
 * Prefilled tokens.
 */
promptTokens: number,
/**
 * Decoded tokens.
 */
tokens: number,
/**
 * Time of the measurement.
 */
measuredAt: number, };

export type Message = {
/**
 * Id.
 */
id: number,
/**
 * Id of the conversation.
 */
conversation: number,
/**
 * Id of the previous message. `None` for a first message.
 */
parent: number | null,
/**
 * Role.
 */
role: Role,
/**
 * Text.
 */
content: string,
/**
 * State.
 */
state: MessageState,
/**
 * Creation time.
 */
createdAt: number,
/**
 * Name of the model that answered.
 */
model: string | null,
/**
 * Speed and token counts, once it has ended.
 */
stats: Stats | null,
/**
 * The turns left out of the prompt.
 */
leftOut: LeftOut | null,
/**
 * The active adapters. Empty means the base model.
 */
adapters: Array<UsedAdapter>,
/**
 * Id of the other answer of a side-by-side comparison, without and with adapters.
 */
comparison: number | null,
/**
 * Whether a person preferred it to the other answer.
 */
better: boolean,
/**
 * A person's rating.
 */
rating: Rating | null, };

export type MessageState = { "type": "complete" } | { "type": "waiting" } | { "type": "prefill",
/**
 * Tokens done, cached ones included.
 */
done: number,
/**
 * Tokens of the prompt.
 */
total: number, } | { "type": "streaming" } | { "type": "stopped" } | { "type": "cut",
/**
 * Why.
 */
reason: CutReason, } | { "type": "failed",
/**
 * Why.
 */
problem: Problem, };

export type Model = {
/**
 * Id, used in every command.
 */
id: string,
/**
 * Display name.
 */
name: string,
/**
 * The GGUF file; of a split model the first shard.
 */
path: string,
/**
 * File size in bytes.
 */
fileSize: number,
/**
 * `llama`, `qwen2` and so on; empty if the file cannot be read.
 */
architecture: string,
/**
 * `Q4_1` and so on; empty if the file cannot be read.
 */
quantization: string,
/**
 * Number of parameters.
 */
parameters: number,
/**
 * The training context length in tokens.
 */
contextTrained: number,
/**
 * One sentence, or empty.
 */
description: string,
/**
 * Default system prompt of conversations.
 */
systemPrompt: string | null,
/**
 * Default sampling parameters.
 */
sampling: SamplingParams,
/**
 * Origin.
 */
source: Source,
/**
 * Why the model cannot be loaded, as a sentence. `None` means it can.
 */
problem: string | null, };

export type ModelInfo = {
/**
 * Name from the file's metadata.
 */
name: string,
/**
 * `llama`, `qwen2` and so on.
 */
architecture: string,
/**
 * Quantisation of the file.
 */
quantization: string,
/**
 * Number of parameters.
 */
parameters: number,
/**
 * File size in bytes.
 */
fileSize: number,
/**
 * Transformer layers.
 */
layers: number,
/**
 * Allocated context length in tokens.
 */
context: number,
/**
 * The training context length in tokens.
 */
contextTrained: number,
/**
 * Id of the device.
 */
device: string,
/**
 * CPU threads in use.
 */
threads: number,
/**
 * Load time in seconds.
 */
loadSeconds: number,
/**
 * Notices, as sentences.
 */
notices: Array<string>,
/**
 * Layers on GPUs.
 */
gpuLayers: number,
/**
 * Total layers: transformer layers, those for multi-token prediction included, and the output
 * layer.
 */
layersTotal: number,
/**
 * Type of the KV cache.
 */
kv: KvType,
/**
 * Memory of the model per device.
 */
placement: Array<PlannedDevice>, };

export type ModelState = { "type": "none" } | { "type": "loading",
/**
 * Its id.
 */
model: string,
/**
 * From 0 to 1.
 */
fraction: number,
/**
 * The stage, in a few words.
 */
stage: string, } | { "type": "ready",
/**
 * Its id.
 */
model: string,
/**
 * The loaded model.
 */
info: ModelInfo, } | { "type": "failed",
/**
 * Its id.
 */
model: string,
/**
 * Why.
 */
problem: Problem, };

export type NewRun = {
/**
 * Display name. `None` means made from those of dataset and model.
 */
name: string | null,
/**
 * Id of the base model; its file is never changed.
 */
model: string,
/**
 * Id of the dataset.
 */
dataset: number,
/**
 * Column mapping. `None` means recognised.
 */
mapping: ColumnMapping | null,
/**
 * Skip malformed lines instead of refusing the file.
 */
skipBroken: boolean,
/**
 * Settings.
 */
settings: TrainSettings, };

export type Outcome = {
/**
 * Reason of the end.
 */
reason: EndReason,
/**
 * Steps, those before a resume included.
 */
steps: number,
/**
 * Step of the saved adapter: the best by validation loss, or the last.
 */
bestStep: number,
/**
 * Mean loss of the last tenth of the steps.
 */
trainLoss: number,
/**
 * Validation loss before the first step.
 */
evalLossBefore: number | null,
/**
 * Validation loss of the saved adapter.
 */
evalLoss: number | null,
/**
 * The base model's perplexity on a small general text.
 */
generalBefore: number | null,
/**
 * The same with the adapter; much higher means catastrophic forgetting.
 */
generalAfter: number | null,
/**
 * Tokens per second over the steps.
 */
tokensPerSecond: number,
/**
 * Seconds of the steps.
 */
seconds: number,
/**
 * Peak resident memory in bytes.
 */
peakMemory: number, };

export type PauseReason = "person" | "chat" | "battery";

export type Piece = {
/**
 * The text.
 */
text: string,
/**
 * Number of tokens.
 */
tokens: number,
/**
 * Whether it counts towards the loss.
 */
trained: boolean,
/**
 * Whether it comes from the chat template (special tokens, role names).
 */
template: boolean,
/**
 * Whether the max sequence length truncates it.
 */
cut: boolean, };

export type Plan = {
/**
 * Whether the plan fits every device.
 */
fits: boolean,
/**
 * The verdict for a person.
 */
verdict: Verdict,
/**
 * The reason, in one sentence.
 */
why: string,
/**
 * Planned context length in tokens.
 */
context: number,
/**
 * The longest context that fits with this placement; 0 if none does.
 */
contextFits: number,
/**
 * Layers on GPUs.
 */
gpuLayers: number,
/**
 * Total layers: transformer layers, those for multi-token prediction included, and the output
 * layer.
 */
layersTotal: number,
/**
 * Most layers that fit on GPUs with this context.
 */
layersFit: number,
/**
 * Type of the KV cache.
 */
kv: KvType,
/**
 * The devices in use.
 */
devices: Array<PlannedDevice>, };

export type PlannedDevice = {
/**
 * Id of the device.
 */
id: string,
/**
 * Product name.
 */
name: string,
/**
 * Bytes of weights.
 */
weights: number,
/**
 * Bytes of the KV cache.
 */
kv: number,
/**
 * Bytes of compute buffers.
 */
compute: number,
/**
 * Bytes left free as a margin.
 */
margin: number,
/**
 * Total memory in bytes. `None` means unknown.
 */
total: number | null,
/**
 * Free memory in bytes, without this model. `None` means unknown.
 */
free: number | null,
/**
 * Layers on it: `token_embd`, `blk.0` and so on, `output`.
 */
layers: Array<string>,
/**
 * Whether all of it fits.
 */
fits: boolean, };

export type Precision = "auto" | "f32" | "bf16";

export type Preview = {
/**
 * Line or row in the file, from 1.
 */
line: number,
/**
 * Text in pieces; adjacent tokens with equal flags form one piece.
 */
pieces: Array<Piece>,
/**
 * Total tokens.
 */
tokens: number, };

export type Problem = {
/**
 * For programs.
 */
code: string,
/**
 * For people: what happened, to what, what to do.
 */
message: string, };

export type Rating = {
/**
 * Thumb.
 */
thumb: Thumb,
/**
 * The corrected answer.
 */
correction: string | null, };

export type Role = "system" | "user" | "assistant";

export type Run = {
/**
 * Id, used in every command.
 */
id: number,
/**
 * Display name.
 */
name: string,
/**
 * Id of the base model.
 */
model: string,
/**
 * The model's name when the run was created.
 */
modelName: string,
/**
 * Id of the dataset. `None` means that it was removed for good.
 */
dataset: number | null,
/**
 * The dataset's name when the run was created.
 */
datasetName: string,
/**
 * Settings.
 */
settings: TrainSettings,
/**
 * State.
 */
state: RunState,
/**
 * Plan, once known.
 */
plan: RunPlan | null,
/**
 * Last step so far.
 */
last: RunPoint | null,
/**
 * Step of the last checkpoint. `None` means that resuming starts again.
 */
checkpoint: number | null,
/**
 * Outcome, once ended.
 */
outcome: Outcome | null,
/**
 * Id of its adapter.
 */
adapter: number | null,
/**
 * Creation time.
 */
createdAt: number,
/**
 * End time.
 */
endedAt: number | null, };

export type RunCurves = {
/**
 * One point per step.
 */
points: Array<RunPoint>,
/**
 * Evaluations.
 */
evaluations: Array<RunEvaluation>, };

export type RunEvaluation = {
/**
 * Step after which it was made; 0 before the first.
 */
step: number,
/**
 * Mean loss per token. `None` means NaN or infinite.
 */
loss: number | null,
/**
 * Whether it is the best so far; the best adapter is saved.
 */
best: boolean, };

export type RunPlan = {
/**
 * Training examples.
 */
examples: number,
/**
 * Examples in the validation split.
 */
evalExamples: number,
/**
 * Truncated examples.
 */
truncated: number,
/**
 * Maximum steps.
 */
steps: number,
/**
 * Batch size in examples.
 */
batch: number,
/**
 * Gradient accumulation: batches per step.
 */
accumulation: number,
/**
 * Max sequence length in tokens.
 */
sequence: number,
/**
 * Trainable parameters.
 */
parameters: number,
/**
 * Precision of matrix products' factors.
 */
precision: Precision,
/**
 * Gradient checkpointing.
 */
checkpointing: Checkpointing,
/**
 * CPU threads.
 */
threads: number,
/**
 * Peak resident memory of the measured steps, in bytes.
 */
peakMemory: number,
/**
 * Measured seconds per step.
 */
stepSeconds: number,
/**
 * Estimated seconds of the whole run, at most.
 */
totalSeconds: number,
/**
 * Notices, as sentences.
 */
notices: Array<string>, };

export type RunPoint = {
/**
 * The step, from 1.
 */
step: number,
/**
 * Epochs so far.
 */
epoch: number,
/**
 * Mean loss per trained token.
 */
loss: number,
/**
 * Learning rate.
 */
learningRate: number,
/**
 * Gradient norm before clipping.
 */
gradientNorm: number,
/**
 * Tokens per second in this step.
 */
tokensPerSecond: number,
/**
 * Resident memory, in bytes.
 */
memory: number,
/**
 * Estimated seconds left.
 */
secondsLeft: number, };

export type RunState = { "type": "preparing",
/**
 * From 0 to 1.
 */
fraction: number,
/**
 * The stage, in a few words.
 */
stage: string, } | { "type": "planned" } | { "type": "running" } | { "type": "paused",
/**
 * Why.
 */
why: PauseReason, } | { "type": "finished" } | { "type": "stopped" } | { "type": "failed",
/**
 * Why.
 */
problem: Problem, } | { "type": "interrupted",
/**
 * What happened.
 */
problem: Problem, };

export type SampleDataset = {
/**
 * Display name.
 */
name: string,
/**
 * The file.
 */
path: string,
/**
 * File size in bytes.
 */
size: number, };

export type SamplingParams = {
/**
 * Softmax temperature; 0 is greedy.
 */
temperature: number,
/**
 * Sample from the k most likely tokens; 0 disables the filter.
 */
topK: number,
/**
 * Sample from the most likely tokens with a cumulative probability of p; 1 disables the
 * filter.
 */
topP: number,
/**
 * Drop tokens below this fraction of the highest probability; 0 disables the filter.
 */
minP: number,
/**
 * Divides the logits of recent tokens; 1 disables it.
 */
repetitionPenalty: number,
/**
 * Subtracted from a token's logit once per recent occurrence; 0 disables it.
 */
frequencyPenalty: number,
/**
 * Subtracted once from the logit of each recent token; 0 disables it.
 */
presencePenalty: number,
/**
 * Tokens that the penalties count as recent.
 */
repeatLastN: number,
/**
 * Seed of the sampler: reproducible answers on a CPU. `None` means a random seed.
 */
seed: number | null, };

export type Schedule = "cosine" | "linear" | "constant";

export type SearchHit = {
/**
 * Id of the conversation.
 */
conversation: number,
/**
 * Its title.
 */
title: string,
/**
 * Id of the message. `None` means that the title matches.
 */
message: number | null,
/**
 * Text around the match.
 */
snippet: Array<SnippetPart>,
/**
 * Time of the conversation's last message.
 */
updatedAt: number, };

export type Sent = {
/**
 * The conversation, perhaps a new one.
 */
conversation: ConversationSummary,
/**
 * The new user message. `None` means that only the answer is new.
 */
user: Message | null,
/**
 * The new answer, still empty.
 */
answer: Message, };

export type Settings = {
/**
 * Colour theme.
 */
theme: Theme,
/**
 * CPU threads. `None` means the number of physical cores.
 */
threads: number | null,
/**
 * Context length in tokens. `None` means automatic.
 */
context: number | null,
/**
 * Identity of the device for chat. `None` means automatic.
 */
device: string | null,
/**
 * Identity of the device for fine-tuning. `None` means automatic.
 */
trainingDevice: string | null,
/**
 * The build of Hearth that uses the GPU. `None` means the fastest.
 */
build: string | null,
/**
 * Layers of the chat's model on GPUs.
 */
gpuLayers: GpuLayers,
/**
 * Type of the chat's KV cache.
 */
kv: KvType,
/**
 * Id of the last loaded model, which is loaded when a message is sent.
 */
lastModel: string | null,
/**
 * Most bytes of the prompt cache on disk; 0 switches it off.
 */
promptCacheLimit: number, };

export type Severity = "note" | "warning" | "error";

export type Snapshot = {
/**
 * Hearth's version.
 */
version: string,
/**
 * Settings.
 */
settings: Settings,
/**
 * Conversations, newest first.
 */
conversations: Array<ConversationSummary>,
/**
 * Models of the library.
 */
models: Array<Model>,
/**
 * State of the chat's worker.
 */
modelState: ModelState,
/**
 * Id of the default model for a new conversation.
 */
defaultModel: string | null, };

export type SnippetPart = {
/**
 * Text.
 */
text: string,
/**
 * Whether it matches the query.
 */
hit: boolean, };

export type Source = "bundled" | "catalog" | "file";

export type Stats = {
/**
 * Tokens of the prompt.
 */
promptTokens: number,
/**
 * Tokens of the prompt that were in the KV cache.
 */
cachedTokens: number,
/**
 * Generated tokens.
 */
tokens: number,
/**
 * Decode speed in tokens per second.
 */
tokensPerSecond: number,
/**
 * Prefill speed in tokens per second, cached tokens excluded.
 */
promptTokensPerSecond: number,
/**
 * Time to first token in seconds.
 */
firstTokenSeconds: number,
/**
 * Context in use after the answer, in tokens.
 */
contextUsed: number,
/**
 * Context length in tokens.
 */
context: number, };

export type Theme = "system" | "light" | "dark";

export type Thumb = "up" | "down";

export type TrainSettings = {
/**
 * LoRA rank.
 */
rank: number,
/**
 * LoRA alpha: the scale is alpha / rank (alpha / sqrt(rank) with `rslora`).
 */
alpha: number,
/**
 * LoRA dropout: probability of dropping an adapter's input.
 */
dropout: number,
/**
 * Rank-stabilised LoRA scaling.
 */
rslora: boolean,
/**
 * Target modules (`attn_q`, `q_proj`). Empty means all linear layers.
 */
targets: Array<string>,
/**
 * Peak learning rate.
 */
learningRate: number,
/**
 * Learning rate schedule.
 */
schedule: Schedule,
/**
 * Warm-up ratio: the fraction of steps with a rising learning rate.
 */
warmup: number,
/**
 * AdamW's weight decay.
 */
weightDecay: number,
/**
 * Gradient clipping norm; 0 disables it.
 */
maxGradientNorm: number,
/**
 * Maximum epochs. `None` means chosen by the number of examples.
 */
epochs: number | null,
/**
 * Maximum steps.
 */
maxSteps: number | null,
/**
 * Batch size in examples.
 */
batch: number | null,
/**
 * Gradient accumulation: batches per step.
 */
accumulation: number | null,
/**
 * Max sequence length in tokens; longer examples are truncated, with a notice.
 */
sequence: number | null,
/**
 * Seed: reproducible on the same machine.
 */
seed: number,
/**
 * Validation split: the fraction of examples for evaluation only.
 */
evalSplit: number,
/**
 * Steps between evaluations.
 */
evalEvery: number | null,
/**
 * Early stopping: evaluations without improvement; 0 disables it.
 */
patience: number,
/**
 * Whether examples are shuffled each epoch.
 */
shuffle: boolean,
/**
 * Id of the initial adapter.
 */
init: number | null,
/**
 * Steps between checkpoints.
 */
checkpointEvery: number | null,
/**
 * Precision of matrix products' factors.
 */
precision: Precision,
/**
 * Gradient checkpointing.
 */
checkpointing: Checkpointing,
/**
 * Whether prompts count towards the loss, too.
 */
trainOnPrompts: boolean, };

export type UsedAdapter = {
/**
 * Id; the adapter may be deleted.
 */
adapter: number,
/**
 * Name at that time.
 */
name: string,
/**
 * Scale.
 */
scale: number, };

export type Verdict = { "type": "fits" } | { "type": "fitsWithLessContext",
/**
 * The longest context that fits, in tokens.
 */
context: number, } | { "type": "slow" } | { "type": "wontFit" };

export type Verification = {
/**
 * Whether the export is usable.
 */
passed: boolean,
/**
 * Number of prompts compared.
 */
prompts: number,
/**
 * Mean Kullback-Leibler divergence of the export from the trained adapter, in nats per token.
 */
divergence: number,
/**
 * Mean Kullback-Leibler divergence of the base model from the trained adapter, in nats per
 * token.
 */
taught: number,
/**
 * Prompts with identical greedy answers.
 */
sameText: number,
/**
 * Summary in a sentence.
 */
summary: string, };

export type Votes = {
/**
 * For the answer with the adapter.
 */
tuned: number,
/**
 * For the base model's answer.
 */
base: number, };
