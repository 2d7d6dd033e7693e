// Generated from crates/app/src/wire; see crates/app/tests/it/wire.rs. Do not edit.

/** The app's commands. They reject with a {@link Problem}. */
export interface Commands {
  /** The initial state of the window. */
  snapshot(): Promise<Snapshot>;
  /** The revision of the last event. What is read afterwards is at least as new as the events up to it. */
  revision(): Promise<number>;
  openConversation(id: number): Promise<Conversation>;
  /** Starts a new conversation if `conversation` is `null`; `fresh` is what that begins with. */
  send(conversation: number | null, parent: number | null, text: string, files: Array<TextFile>, fresh: NewConversation): Promise<Sent>;
  /** Reads a text file for a message. */
  readTextFile(path: string): Promise<TextFile>;
  /** Generates a sibling of this answer. `overrides` are the model and settings that are not the conversation's. */
  regenerate(message: number, overrides: AnswerOverrides | null): Promise<Sent>;
  /** Adds a sibling of this user message and generates its answer. */
  edit(message: number, text: string): Promise<Sent>;
  /** Goes on with the last answer of a branch. */
  continueAnswer(message: number): Promise<Sent>;
  /** Adds a sibling of this answer with another text. `go_on` lets the model continue it. */
  editAnswer(message: number, text: string, goOn: boolean): Promise<Sent>;
  stop(conversation: number): Promise<void>;
  /** Switches to the branch through this message. */
  selectLeaf(conversation: number, message: number): Promise<Conversation>;
  /** Deletes a message and all messages below it, in all versions. Stops the answers among them. */
  deleteMessage(id: number): Promise<DeletedMessages>;
  /** Undoes the deletion of this message and of those below it. Rejects with `badRequest` if the message that it follows is deleted, too. */
  restoreMessages(id: number): Promise<Conversation>;
  /** Deleted messages in conversations that are not deleted. Last deleted first. */
  messageDeletions(): Promise<Array<MessageDeletion>>;
  /** Removes deleted messages for good. */
  purgeMessages(ids: Array<number>): Promise<void>;
  /** Copies the messages up to this one into a new conversation with this title. */
  branchOff(message: number, title: string): Promise<ConversationSummary>;
  /** Saves what is not sent in a conversation, or in a new one if that is `null`. */
  saveUnsent(conversation: number | null, change: UnsentChange): Promise<void>;
  /** Counts the tokens of a message that is being written, if the model that would answer it is loaded. A newer count cancels it. */
  countUnsent(draft: UnsentDraft): Promise<UnsentCount>;
  renameConversation(id: number, title: string): Promise<void>;
  deleteConversation(id: number): Promise<void>;
  restoreConversation(id: number): Promise<void>;
  /** Last deleted first. */
  deletedConversations(): Promise<Array<DeletedConversation>>;
  /** Removes deleted conversations for good. */
  purgeConversations(ids: Array<number>): Promise<void>;
  pinConversation(id: number, pinned: boolean): Promise<void>;
  setSystemPrompt(conversation: number, text: string | null): Promise<void>;
  setConversationSettings(conversation: number, chosen: ConversationSettings): Promise<void>;
  /** The built-in presets, then the user's by name. */
  presets(): Promise<Presets>;
  savePreset(name: string, values: PresetValues): Promise<Preset>;
  updatePreset(id: string, values: PresetValues): Promise<Preset>;
  /** Its id stays. */
  renamePreset(id: string, name: string): Promise<Preset>;
  deletePreset(id: string): Promise<void>;
  /** Undoes a deletion. */
  restorePreset(id: string): Promise<Preset>;
  importPreset(path: string): Promise<Preset>;
  exportPreset(id: string, path: string): Promise<void>;
  /** Applies a preset to a conversation, or to `fresh` if that is `null`. Returns the settings with it. */
  applyPreset(id: string, conversation: number | null, fresh: NewConversation): Promise<NewConversation>;
  createFolder(name: string): Promise<Folder>;
  updateFolder(folder: Folder): Promise<void>;
  /** Its conversations stay. */
  deleteFolder(id: number): Promise<void>;
  /** Undoes a deletion. */
  restoreFolder(id: number): Promise<void>;
  /** Moves a conversation into a folder, or out of its folder. */
  moveConversation(id: number, folder: number | null): Promise<void>;
  setTags(conversation: number, tags: Array<string>): Promise<void>;
  /** By name. */
  savedPrompts(): Promise<Array<SavedPrompt>>;
  /** Saves a new prompt if `id` is `null`. */
  savePrompt(id: number | null, name: string, text: string): Promise<SavedPrompt>;
  deletePrompt(id: number): Promise<void>;
  search(query: string, filter: SearchFilter): Promise<Array<SearchHit>>;
  /** Imports the conversations of an export of another program; a file, a ZIP archive or a folder. Reports progress through events. */
  importConversations(path: string): Promise<ImportReport>;
  /** Makes `importConversations` reject with `cancelled`; what was imported stays. */
  cancelImport(): Promise<void>;
  /** Writes a conversation, or all if it is `null`, to a file. */
  exportConversations(conversation: number | null, format: ChatFormat, labels: ExportLabels, path: string): Promise<ExportedChats>;
  /** Writes conversations, runs, adapters and datasets to one file. Rejects with `busy` during a run. */
  backUp(path: string): Promise<WrittenBackup>;
  /** Checks a backup, which replaces the present data at the next start. That data is moved aside. */
  restoreBackup(path: string): Promise<PendingRestore>;
  /** Cancels a restoration before the next start. */
  cancelRestore(): Promise<void>;
  dataPlace(): Promise<DataPlace>;
  /** The folder to which the data would be moved if this one was chosen: a new one in it, unless it is empty. */
  dataTarget(folder: string): Promise<string>;
  /** Cancels the move of the data folder. */
  cancelMove(): Promise<void>;
  /** Deletes the copy that the last move left behind. */
  deleteFormerData(): Promise<DeletedFormer>;
  loadModel(id: string): Promise<void>;
  unloadModel(): Promise<void>;
  addModel(path: string): Promise<Model>;
  /** Adds a merged export. The model has the adapter's name. */
  addMergedModel(path: string, adapter: number): Promise<Model>;
  /** Removes a model from the list; a file added by the user stays on disk. */
  removeModel(id: string): Promise<void>;
  /** The source of a model's chat template, if its file has one. */
  chatTemplate(model: string): Promise<string | null>;
  /** Lists the models on this machine again: folders and drives come and go. */
  rescanModels(): Promise<Array<Model>>;
  /** The models of the catalog, the three that suit this machine best first, and what each would be like here. Needs no network. */
  catalog(): Promise<Array<CatalogModel>>;
  /** Searches the hub for repositories with models, adapters, or originals. */
  searchHub(query: string, sort: HubSort, kind: HubKind): Promise<Array<HubModel>>;
  /** Repositories with GGUF files that were converted from a repository. */
  hubConversions(id: string): Promise<Array<HubModel>>;
  /** The models in a repository of the hub. */
  hubRepository(id: string): Promise<HubRepository>;
  /** Reads the header of a model that is not on this machine, some megabytes, and plans it. `source` is as in `startDownload`. */
  inspectRemote(source: string): Promise<RemoteModel>;
  /** Newest first. */
  downloads(): Promise<Array<Download>>;
  /** Queues a download: `hf.co/OWNER/REPO[:QUANT]`, an address of a file or page of the hub, `ollama://NAME[:TAG]`, any address of a GGUF file, or an id of the catalog. An equal one that is not done is resumed. */
  startDownload(source: string): Promise<Download>;
  pauseDownload(id: number): Promise<void>;
  /** Resumes a paused or failed download. */
  resumeDownload(id: number): Promise<void>;
  /** Removes a download from the list; an unfinished one loses its bytes. */
  removeDownload(id: number): Promise<void>;
  /** Asks the servers of downloaded models whether these have changed there. */
  checkUpdates(): Promise<Array<ModelUpdate>>;
  /** Whether there is a token of the hub, and where it was found; never the token itself. May take until the user has unlocked the system's keychain. */
  hubToken(): Promise<HubToken>;
  /** Saves a token in the system's keychain, and nowhere else. */
  setHubToken(token: string): Promise<HubToken>;
  /** Removes the token from the system's keychain. */
  removeHubToken(): Promise<HubToken>;
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
  inspectDataset(id: number, model: string, mapping: ColumnMapping | null, skipBroken: boolean, sequence: number | null, systemPrompt: string | null): Promise<Inspection>;
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
  /** Marks the end of a run as seen. */
  seeRun(id: number): Promise<void>;
  renameRun(id: number, name: string): Promise<void>;
  /** Deletes a run and its adapter; stops it if active. */
  deleteRun(id: number): Promise<void>;
  restoreRun(id: number): Promise<void>;
  /** Newest first. */
  adapters(): Promise<Array<Adapter>>;
  /** Imports a PEFT folder or a GGUF adapter for this model. `null` means for whatever it fits, which may be no model on this machine. */
  importAdapter(path: string, model: string | null): Promise<Adapter>;
  renameAdapter(id: number, name: string): Promise<void>;
  deleteAdapter(id: number): Promise<void>;
  restoreAdapter(id: number): Promise<void>;
  /** Exports (and verifies) an adapter; may take minutes. Reports progress through events. */
  exportAdapter(options: ExportOptions): Promise<Exported>;
  /** Cancels the export: `exportAdapter` rejects with `cancelled`, or skips the verification if it has written the file. */
  cancelExport(): Promise<void>;
  /** Sets the adapters of new answers; an empty list means the base model. */
  setConversationAdapters(conversation: number, choices: Array<AdapterChoice>): Promise<void>;
  /** Like `send`, with 2 to 4 answers side by side. */
  compare(conversation: number | null, parent: number | null, text: string, files: Array<TextFile>, answers: Array<ComparedAnswer>, fresh: NewConversation): Promise<Compared>;
  /** Votes for one of the compared answers, from which the conversation continues; `false` removes the vote. */
  voteAnswer(message: number, better: boolean): Promise<void>;
  /** Removes the rating if both are `null`. A correction alone counts as thumb down. */
  rateAnswer(message: number, thumb: Thumb | null, correction: string | null): Promise<void>;
  /** Number of answers that `datasetFromRatings` would write: rated good, or corrected. */
  ratedExamples(): Promise<number>;
  /** Writes the rated answers to a file of the app's and adds it as a dataset. */
  datasetFromRatings(name: string): Promise<Dataset>;
  /** Saves the settings. A loaded model is reloaded if its load settings change. */
  setSettings(settings: Settings): Promise<void>;
  /** Opens a native dialog with a title and a name of the files that it offers; `null` if cancelled. */
  chooseModelFile(title: string, files: string): Promise<string | null>;
  /** Opens a native dialog; `null` if cancelled. */
  chooseModelFolder(title: string): Promise<string | null>;
  /** Opens a native dialog; `null` if cancelled. */
  chooseDataFile(title: string, files: string): Promise<string | null>;
  /** Opens a native dialog for text files; empty if cancelled. */
  chooseTextFiles(title: string): Promise<Array<string>>;
  /** Opens a native dialog for a GGUF file or a PEFT folder; `null` if cancelled. */
  chooseAdapter(folder: boolean, title: string, files: string): Promise<string | null>;
  /** Opens a native dialog for an export of another program; `null` if cancelled. */
  chooseImport(folder: boolean, title: string, files: string): Promise<string | null>;
  /** Opens a native dialog for a new backup; `null` if cancelled. */
  chooseBackupTarget(title: string, files: string): Promise<string | null>;
  /** Opens a native dialog for a backup; `null` if cancelled. */
  chooseBackup(title: string, files: string): Promise<string | null>;
  /** Opens a native dialog for a preset's file; `null` if cancelled. */
  choosePreset(title: string, files: string): Promise<string | null>;
  /** Opens a native dialog for the file of a preset with this name; `null` if cancelled. */
  choosePresetTarget(name: string, title: string, files: string): Promise<string | null>;
  /** Opens a native dialog; `null` if cancelled. */
  chooseDataFolder(title: string): Promise<string | null>;
  /** Copies the data to another folder, then restarts Hearth. Reports progress through events; nothing can be saved meanwhile. */
  moveData(folder: string): Promise<void>;
  /** Shows a notification of the system, unless the window has the focus. */
  notify(title: string, body: string): Promise<void>;
  /** Sets the menu of the icon in the system's tray; `null` removes the icon. Returns whether the tray has the icon: not every desktop has a tray. */
  setTray(content: TrayContent | null): Promise<boolean>;
  /** Links that were opened since the last call, before the page loaded too. */
  takeLinks(): Promise<Array<Link>>;
  /** Restarts Hearth, such as after an update. */
  restart(): Promise<void>;
  /** Opens the data folder in the system's file manager. */
  openDataFolder(): Promise<void>;
  /** Shows a file or folder in the system's file manager. */
  showInFolder(path: string): Promise<void>;
  /** Opens a native dialog for a file of conversations with this name; `null` if cancelled. */
  chooseChatExport(format: ChatFormat, name: string, title: string): Promise<string | null>;
  /** Opens a native dialog for the format; `null` if cancelled. */
  chooseExportTarget(format: ExportFormat, name: string, title: string): Promise<string | null>;
}

/** Calls commands by their names and named arguments. */
export const commands = (invoke: <T>(command: string, named?: Record<string, unknown>) => Promise<T>): Commands => ({
  snapshot: () => invoke("snapshot"),
  revision: () => invoke("revision"),
  openConversation: (id) => invoke("open_conversation", { id }),
  send: (conversation, parent, text, files, fresh) => invoke("send", { conversation, parent, text, files, fresh }),
  readTextFile: (path) => invoke("read_text_file", { path }),
  regenerate: (message, overrides) => invoke("regenerate", { message, overrides }),
  edit: (message, text) => invoke("edit", { message, text }),
  continueAnswer: (message) => invoke("continue_answer", { message }),
  editAnswer: (message, text, goOn) => invoke("edit_answer", { message, text, goOn }),
  stop: (conversation) => invoke("stop", { conversation }),
  selectLeaf: (conversation, message) => invoke("select_leaf", { conversation, message }),
  deleteMessage: (id) => invoke("delete_message", { id }),
  restoreMessages: (id) => invoke("restore_messages", { id }),
  messageDeletions: () => invoke("message_deletions"),
  purgeMessages: (ids) => invoke("purge_messages", { ids }),
  branchOff: (message, title) => invoke("branch_off", { message, title }),
  saveUnsent: (conversation, change) => invoke("save_unsent", { conversation, change }),
  countUnsent: (draft) => invoke("count_unsent", { draft }),
  renameConversation: (id, title) => invoke("rename_conversation", { id, title }),
  deleteConversation: (id) => invoke("delete_conversation", { id }),
  restoreConversation: (id) => invoke("restore_conversation", { id }),
  deletedConversations: () => invoke("deleted_conversations"),
  purgeConversations: (ids) => invoke("purge_conversations", { ids }),
  pinConversation: (id, pinned) => invoke("pin_conversation", { id, pinned }),
  setSystemPrompt: (conversation, text) => invoke("set_system_prompt", { conversation, text }),
  setConversationSettings: (conversation, chosen) => invoke("set_conversation_settings", { conversation, chosen }),
  presets: () => invoke("presets"),
  savePreset: (name, values) => invoke("save_preset", { name, values }),
  updatePreset: (id, values) => invoke("update_preset", { id, values }),
  renamePreset: (id, name) => invoke("rename_preset", { id, name }),
  deletePreset: (id) => invoke("delete_preset", { id }),
  restorePreset: (id) => invoke("restore_preset", { id }),
  importPreset: (path) => invoke("import_preset", { path }),
  exportPreset: (id, path) => invoke("export_preset", { id, path }),
  applyPreset: (id, conversation, fresh) => invoke("apply_preset", { id, conversation, fresh }),
  createFolder: (name) => invoke("create_folder", { name }),
  updateFolder: (folder) => invoke("update_folder", { folder }),
  deleteFolder: (id) => invoke("delete_folder", { id }),
  restoreFolder: (id) => invoke("restore_folder", { id }),
  moveConversation: (id, folder) => invoke("move_conversation", { id, folder }),
  setTags: (conversation, tags) => invoke("set_tags", { conversation, tags }),
  savedPrompts: () => invoke("saved_prompts"),
  savePrompt: (id, name, text) => invoke("save_prompt", { id, name, text }),
  deletePrompt: (id) => invoke("delete_prompt", { id }),
  search: (query, filter) => invoke("search", { query, filter }),
  importConversations: (path) => invoke("import_conversations", { path }),
  cancelImport: () => invoke("cancel_import"),
  exportConversations: (conversation, format, labels, path) => invoke("export_conversations", { conversation, format, labels, path }),
  backUp: (path) => invoke("back_up", { path }),
  restoreBackup: (path) => invoke("restore_backup", { path }),
  cancelRestore: () => invoke("cancel_restore"),
  dataPlace: () => invoke("data_place"),
  dataTarget: (folder) => invoke("data_target", { folder }),
  cancelMove: () => invoke("cancel_move"),
  deleteFormerData: () => invoke("delete_former_data"),
  loadModel: (id) => invoke("load_model", { id }),
  unloadModel: () => invoke("unload_model"),
  addModel: (path) => invoke("add_model", { path }),
  addMergedModel: (path, adapter) => invoke("add_merged_model", { path, adapter }),
  removeModel: (id) => invoke("remove_model", { id }),
  chatTemplate: (model) => invoke("chat_template", { model }),
  rescanModels: () => invoke("rescan_models"),
  catalog: () => invoke("catalog"),
  searchHub: (query, sort, kind) => invoke("search_hub", { query, sort, kind }),
  hubConversions: (id) => invoke("hub_conversions", { id }),
  hubRepository: (id) => invoke("hub_repository", { id }),
  inspectRemote: (source) => invoke("inspect_remote", { source }),
  downloads: () => invoke("downloads"),
  startDownload: (source) => invoke("start_download", { source }),
  pauseDownload: (id) => invoke("pause_download", { id }),
  resumeDownload: (id) => invoke("resume_download", { id }),
  removeDownload: (id) => invoke("remove_download", { id }),
  checkUpdates: () => invoke("check_updates"),
  hubToken: () => invoke("hub_token"),
  setHubToken: (token) => invoke("set_hub_token", { token }),
  removeHubToken: () => invoke("remove_hub_token"),
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
  inspectDataset: (id, model, mapping, skipBroken, sequence, systemPrompt) => invoke("inspect_dataset", { id, model, mapping, skipBroken, sequence, systemPrompt }),
  runs: () => invoke("runs"),
  runPoints: (id) => invoke("run_points", { id }),
  trainDefaults: () => invoke("train_defaults"),
  startRun: (run) => invoke("start_run", { run }),
  pauseRun: (id) => invoke("pause_run", { id }),
  resumeRun: (id) => invoke("resume_run", { id }),
  stopRun: (id) => invoke("stop_run", { id }),
  seeRun: (id) => invoke("see_run", { id }),
  renameRun: (id, name) => invoke("rename_run", { id, name }),
  deleteRun: (id) => invoke("delete_run", { id }),
  restoreRun: (id) => invoke("restore_run", { id }),
  adapters: () => invoke("adapters"),
  importAdapter: (path, model) => invoke("import_adapter", { path, model }),
  renameAdapter: (id, name) => invoke("rename_adapter", { id, name }),
  deleteAdapter: (id) => invoke("delete_adapter", { id }),
  restoreAdapter: (id) => invoke("restore_adapter", { id }),
  exportAdapter: (options) => invoke("export_adapter", { options }),
  cancelExport: () => invoke("cancel_export"),
  setConversationAdapters: (conversation, choices) => invoke("set_conversation_adapters", { conversation, choices }),
  compare: (conversation, parent, text, files, answers, fresh) => invoke("compare", { conversation, parent, text, files, answers, fresh }),
  voteAnswer: (message, better) => invoke("vote_answer", { message, better }),
  rateAnswer: (message, thumb, correction) => invoke("rate_answer", { message, thumb, correction }),
  ratedExamples: () => invoke("rated_examples"),
  datasetFromRatings: (name) => invoke("dataset_from_ratings", { name }),
  setSettings: (settings) => invoke("set_settings", { settings }),
  chooseModelFile: (title, files) => invoke("choose_model_file", { title, files }),
  chooseModelFolder: (title) => invoke("choose_model_folder", { title }),
  chooseDataFile: (title, files) => invoke("choose_data_file", { title, files }),
  chooseTextFiles: (title) => invoke("choose_text_files", { title }),
  chooseAdapter: (folder, title, files) => invoke("choose_adapter", { folder, title, files }),
  chooseImport: (folder, title, files) => invoke("choose_import", { folder, title, files }),
  chooseBackupTarget: (title, files) => invoke("choose_backup_target", { title, files }),
  chooseBackup: (title, files) => invoke("choose_backup", { title, files }),
  choosePreset: (title, files) => invoke("choose_preset", { title, files }),
  choosePresetTarget: (name, title, files) => invoke("choose_preset_target", { name, title, files }),
  chooseDataFolder: (title) => invoke("choose_data_folder", { title }),
  moveData: (folder) => invoke("move_data", { folder }),
  notify: (title, body) => invoke("notify", { title, body }),
  setTray: (content) => invoke("set_tray", { content }),
  takeLinks: () => invoke("take_links"),
  restart: () => invoke("restart"),
  openDataFolder: () => invoke("open_data_folder"),
  showInFolder: (path) => invoke("show_in_folder", { path }),
  chooseChatExport: (format, name, title) => invoke("choose_chat_export", { format, name, title }),
  chooseExportTarget: (format, name, title) => invoke("choose_export_target", { format, name, title }),
});

/** The name of the Tauri event that carries every {@link Event}. */
export const EVENT_NAME = "hearth";

/** The settings of a new installation. */
export const defaultSettings: Settings = {"language":"system","theme":"system","contrast":"system","motion":"system","textSize":100,"enterSends":true,"repetitionLimit":300,"generatedTitles":true,"notifications":true,"tray":"on","shortcuts":{},"threads":null,"context":null,"device":null,"trainingDevice":null,"build":null,"gpuLayers":{"type":"auto"},"kv":"f16","drafts":{},"sampling":{},"lastModel":null,"promptCacheLimit":2000000000,"offline":false,"hubEndpoint":null,"listOtherPrograms":true,"modelFolders":[]};

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
 * Id of the model that it was trained on here, or imported for. `None` means that it was
 * imported or downloaded for whatever it fits.
 */
model: string | null,
/**
 * Name of that model.
 */
modelName: string | null,
/**
 * The name of its base, as its files give it: `OWNER/NAME`, a name, or a path.
 */
baseName: string | null,
/**
 * The same, if it is a repository of the hub.
 */
baseRepository: string | null,
/**
 * Architecture of its base, if its files say so.
 */
architecture: string | null,
/**
 * Its fit to each readable model of the library. Empty if its files cannot be read.
 */
matches: Array<AdapterMatch>,
/**
 * Size of its files in bytes.
 */
size: number,
/**
 * Where Hearth downloaded it from, if it did.
 */
downloadedFrom: string | null,
/**
 * License, if the hub says so.
 */
license: string | null,
/**
 * Whether deleting it deletes its files: true for adapters of runs and downloads.
 */
isDeletable: boolean,
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
 * Why it cannot be used. `None` means it can.
 */
problem: Problem | null,
/**
 * Entries of its PEFT configuration that match no module, so that they have no effect.
 */
unmatched: Array<UnmatchedEntries>, };

export type AdapterChoice = {
/**
 * Id of the adapter.
 */
adapter: number,
/**
 * Scale; 1 is as trained.
 */
scale: number, };

export type AdapterFit = { "type": "exact" } | { "type": "named" } | { "type": "sizes" } | { "type": "merged" } | { "type": "mismatch",
/**
 * Why.
 */
reason: AdapterMismatch, };

export type AdapterMatch = {
/**
 * Id of the model.
 */
model: string,
/**
 * The fit.
 */
fit: AdapterFit, };

export type AdapterMismatch = { "type": "architecture",
/**
 * The adapter's.
 */
adapter: string, } | { "type": "unsupported" } | { "type": "layers",
/**
 * Its base's.
 */
adapter: number,
/**
 * The model's.
 */
model: number, } | { "type": "linear",
/**
 * Name in a GGUF: `attn_q`.
 */
name: string,
/**
 * Input and output features of its base's.
 */
adapter: [number, number],
/**
 * The same of the model's.
 */
model: [number, number], } | { "type": "otherBase" };

export type AnswerOverrides = {
/**
 * Id of the model. `None` means the conversation's.
 */
model: string | null,
/**
 * Preset, as it was, with its system prompt if it has one. `None` means the conversation's
 * settings.
 */
preset: Preset | null,
/**
 * Sampling parameters that replace the conversation's or the preset's. `None` means none.
 */
sampling: SamplingOverrides | null, };

export type AnswerSettings = {
/**
 * Sampling parameters, with the seed that was drawn.
 */
sampling: SamplingParams,
/**
 * Most tokens. `None` means no limit.
 */
maxTokens: number | null,
/**
 * Texts that end it.
 */
stop: Array<string>,
/**
 * Whether the model was told to think. `None` means the chat template's default.
 */
thinking: boolean | null,
/**
 * The thinking effort that the model was told to use. `None` means the chat template's
 * default.
 */
effort: Effort | null,
/**
 * JSON schema that it follows. `None` means any text.
 */
jsonSchema: string | null, };

export type Answering = {
/**
 * Id of the conversation.
 */
conversation: number,
/**
 * Id of the answer.
 */
message: number, };

export type AutoSelection = "selected" | "unusable" | "software" | "sharesMemory" | "slowerThanCpu";

export type BackendOption = {
/**
 * `portable`, `vulkan`, `cuda` or `rocm`.
 */
build: string,
/**
 * The backend it uses.
 */
backend: string,
/**
 * Result of the device check. `None` means not checked yet.
 */
check: DeviceCheck | null,
/**
 * Largest buffer binding of a GPU kernel in this build, in bytes. `None` means unknown.
 */
largestBuffer: number | null, };

export type BackupDamage = { "type": "notAFile" } | { "type": "archive",
/**
 * The archive's error.
 */
detail: string, } | { "type": "fileList" } | { "type": "unreadable",
/**
 * The file's path in the backup.
 */
name: string,
/**
 * The archive's error.
 */
detail: string, } | { "type": "tooLarge",
/**
 * The file's path in the backup.
 */
name: string, } | { "type": "otherHash",
/**
 * The file's path in the backup.
 */
name: string, } | { "type": "corruptStore",
/**
 * SQLite's error.
 */
detail: string, } | { "type": "foreignStore",
/**
 * The difference.
 */
fault: StoreFault, };

export type BrokenLine = {
/**
 * Line number, from 1.
 */
line: number,
/**
 * Why it cannot be read.
 */
reason: BrokenReason, };

export type BrokenPreset = {
/**
 * Its name.
 */
file: string,
/**
 * Why.
 */
problem: Problem, };

export type BrokenReason = { "type": "tooLong",
/**
 * The limit in MiB.
 */
mib: number, } | { "type": "tooMuchMemory",
/**
 * The limit in MiB.
 */
mib: number, } | { "type": "notUtf8" } | { "type": "notJson",
/**
 * The parser's error.
 */
detail: string, } | { "type": "notObject",
/**
 * The kind of its value.
 */
json: JsonKind, } | { "type": "columnCount",
/**
 * Its columns.
 */
count: number,
/**
 * Columns of the header.
 */
expected: number,
/**
 * The character between columns.
 */
delimiter: Delimiter, } | { "type": "otherColumns",
/**
 * The missing column.
 */
column: string,
/**
 * The first of its columns; `…` stands for the rest.
 */
columns: Array<string>, } | { "type": "noColumns",
/**
 * The missing column.
 */
column: string, } | { "type": "notText",
/**
 * The column.
 */
column: string,
/**
 * The kind of its value.
 */
json: JsonKind, } | { "type": "empty" } | { "type": "emptyText" } | { "type": "emptyConversation" } | { "type": "noAnswer" } | { "type": "conversationIsText" } | { "type": "notConversation" } | { "type": "turnNotObject",
/**
 * The turn, from 1.
 */
turn: number, } | { "type": "turnWithoutRole",
/**
 * The turn, from 1.
 */
turn: number, } | { "type": "toolRole",
/**
 * The turn, from 1.
 */
turn: number,
/**
 * The role.
 */
role: string, } | { "type": "unknownRole",
/**
 * The turn, from 1.
 */
turn: number,
/**
 * The role.
 */
role: string, } | { "type": "toolCall",
/**
 * The turn, from 1.
 */
turn: number, } | { "type": "turnNotText",
/**
 * The turn, from 1.
 */
turn: number, } | { "type": "turnWithoutText",
/**
 * The turn, from 1.
 */
turn: number, };

export type BufferContent = { "type": "ropeTable" } | { "type": "promptActivations" } | { "type": "keys" } | { "type": "stepLogits" } | { "type": "batchActivations" } | { "type": "batchLogits" };

export type BuildReason = "only" | "unmeasured" | "onlyMeasured" | "fastest";

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

export type CatalogModel = {
/**
 * Id in the catalog, by which the page describes it.
 */
id: string,
/**
 * Display name.
 */
name: string,
/**
 * License of the weights.
 */
license: string,
/**
 * `owner/name` on the hub.
 */
repository: string,
/**
 * Name of the quantization: `Q4_K_M`.
 */
quantization: string,
/**
 * File size in bytes.
 */
fileSize: number,
/**
 * Id of the library's model, if it is on this machine.
 */
model: string | null,
/**
 * Its estimated performance on this machine.
 */
expectation: Expectation,
/**
 * Argument for `startDownload`.
 */
source: string, };

export type ChatFormat = "markdown" | "html" | "json";

export type ChatReason = { "type": "panicked",
/**
 * The runtime's error.
 */
detail: string, } | { "type": "emptyName" } | { "type": "noConversation" } | { "type": "noMessage" } | { "type": "messageDeleted" } | { "type": "parentDeleted" } | { "type": "emptyMessage" } | { "type": "emptyAnswer" } | { "type": "notUserMessage" } | { "type": "notAnAnswer" } | { "type": "notContinuable" } | { "type": "hasReplies" } | { "type": "answering" } | { "type": "answerNotStopped" } | { "type": "answerFailed" } | { "type": "notCompared" } | { "type": "notRatable" } | { "type": "comparedAnswerCount",
/**
 * Most answers.
 */
limit: number, } | { "type": "tooManyFiles",
/**
 * Most files.
 */
limit: number,
/**
 * Their number.
 */
count: number, } | { "type": "fileTooLarge",
/**
 * Its name, shortened.
 */
name: string,
/**
 * Bytes of its text.
 */
length: number,
/**
 * Most bytes.
 */
limit: number, } | { "type": "tooManyQueued",
/**
 * Most messages.
 */
limit: number, } | { "type": "conversationModelGone" } | { "type": "answerModelGone" } | { "type": "noModelYet" } | { "type": "workerOutOfMemory",
/**
 * Its end.
 */
cause: Problem, } | { "type": "workerDied",
/**
 * Its end.
 */
cause: Problem, } | { "type": "measurementCancelled" } | { "type": "measuring" } | { "type": "answeringWhileMeasuring" } | { "type": "nothingToMeasure" } | { "type": "threadsOrContext" } | { "type": "textSize" } | { "type": "tooManyShortcuts" } | { "type": "tooManySamplingDefaults",
/**
 * Most models.
 */
limit: number, } | { "type": "outOfRange",
/**
 * The parameter.
 */
setting: SamplingSetting,
/**
 * The smallest value.
 */
least: string,
/**
 * The largest value.
 */
most: string,
/**
 * The value.
 */
value: string, } | { "type": "tooManyTexts",
/**
 * The list.
 */
list: TextList,
/**
 * Most texts.
 */
limit: number,
/**
 * Their number.
 */
count: number, } | { "type": "textLength",
/**
 * The list.
 */
entry: TextList,
/**
 * Most bytes.
 */
limit: number,
/**
 * Bytes of the text.
 */
length: number, } | { "type": "bannedReplacement" } | { "type": "seedTooLarge",
/**
 * The largest seed.
 */
limit: number,
/**
 * The seed.
 */
seed: number, } | { "type": "lengthLimit",
/**
 * Most tokens.
 */
limit: number, } | { "type": "unknownModel" } | { "type": "unknownPreset" } | { "type": "noPreset" } | { "type": "builtInPreset" } | { "type": "tooManyPresets",
/**
 * Most presets.
 */
limit: number, } | { "type": "presetNameTooLong",
/**
 * Most characters.
 */
limit: number,
/**
 * Its characters.
 */
count: number, } | { "type": "presetNameTaken",
/**
 * The name.
 */
name: string, } | { "type": "presetPromptTooLong",
/**
 * Most bytes.
 */
limit: number,
/**
 * Its bytes.
 */
length: number, } | { "type": "presetTooLarge",
/**
 * Most bytes.
 */
limit: number,
/**
 * Its bytes.
 */
length: number, } | { "type": "presetUnreadable",
/**
 * The file.
 */
path: string,
/**
 * Why.
 */
cause: Problem, } | { "type": "presetNotOpened",
/**
 * The system's error.
 */
detail: string, } | { "type": "presetNotAFile" } | { "type": "presetFileTooLarge",
/**
 * Most bytes.
 */
limit: number, } | { "type": "presetNotJson" } | { "type": "notAPreset" } | { "type": "presetNewer" } | { "type": "presetValue",
/**
 * The parser's error, shortened.
 */
detail: string, } | { "type": "presetField",
/**
 * The field, shortened.
 */
name: string, } | { "type": "presetsTooLarge",
/**
 * Most bytes.
 */
limit: number, } | { "type": "morePresets",
/**
 * The number of those that are not read.
 */
count: number,
/**
 * Most presets.
 */
limit: number, } | { "type": "noFolder" } | { "type": "folderPromptTooLong",
/**
 * Most bytes.
 */
limit: number,
/**
 * Their bytes.
 */
length: number, } | { "type": "tagTooLong",
/**
 * Most characters.
 */
limit: number, } | { "type": "tooManyTags",
/**
 * Most tags.
 */
limit: number,
/**
 * Their number.
 */
count: number, } | { "type": "noPrompt" } | { "type": "promptNameTaken",
/**
 * The name, without the slash.
 */
name: string, } | { "type": "promptName",
/**
 * Most characters.
 */
limit: number, } | { "type": "promptText",
/**
 * Most bytes.
 */
limit: number, } | { "type": "tooManyPrompts",
/**
 * Most prompts.
 */
limit: number, } | { "type": "dialogNotOpened" } | { "type": "chosenNotAFile" } | { "type": "trayNotSet" } | { "type": "dataFolderNotOpened",
/**
 * The system's error.
 */
detail: string, };

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
 * Prompt.
 */
prompt: string | null,
/**
 * Context of the prompt (Alpaca's `input`).
 */
input: string | null,
/**
 * Answer.
 */
answer: string | null,
/**
 * Plain text to continue.
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
 * The answers, still empty, in the order of the request.
 */
answers: Array<Message>, };

export type ComparedAnswer = {
/**
 * Model and settings that are not the conversation's.
 */
overrides: AnswerOverrides,
/**
 * Adapters; none means the base model.
 */
adapters: Array<AdapterChoice>, };

export type Container = "jsonl" | "json" | "csv" | "tsv" | "parquet" | "text" | "markdown";

export type Contrast = "system" | "more";

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
 * The settings for new answers.
 */
settings: ConversationSettings,
/**
 * Id of the last message of the selected branch.
 */
leaf: number | null,
/**
 * All nodes of the tree, in creation order.
 */
messages: Array<Message>,
/**
 * Its draft and queued messages.
 */
unsent: Unsent, };

export type ConversationSettings = {
/**
 * Id of the model. `None` means the selected one.
 */
model: string | null,
/**
 * Id of the preset that was chosen. The settings may differ from it since.
 */
preset: string | null,
/**
 * Sampling parameters.
 */
sampling: SamplingOverrides,
/**
 * Most tokens of an answer. `None` means no limit.
 */
maxTokens: number | null,
/**
 * Texts that end an answer. `None` means none.
 */
stop: Array<string> | null,
/**
 * Thinking, if the model's chat template can switch it.
 */
thinking: ThinkingChoice,
/**
 * JSON schema that answers follow. `None` means any text.
 */
jsonSchema: string | null, };

export type ConversationSummary = {
/**
 * Id.
 */
id: number,
/**
 * Title; empty if the first message has no visible character.
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
 * Whether it is at the top of the list.
 */
pinned: boolean,
/**
 * Id of its folder.
 */
folder: number | null,
/**
 * Tags, sorted.
 */
tags: Array<string>, };

export type DataPlace = {
/**
 * The data folder.
 */
path: string,
/**
 * Bytes of Hearth's files in it.
 */
bytes: number,
/**
 * The copy that a move left in the folder before.
 */
former: FormerData | null,
/**
 * The backup that replaces it at the next start.
 */
pending: PendingRestore | null, };

export type DataReason = { "type": "noDataFolder" } | { "type": "folderUnusable",
/**
 * The folder.
 */
folder: string,
/**
 * The system's error.
 */
detail: string, } | { "type": "inUse",
/**
 * The data folder.
 */
folder: string, } | { "type": "storeNewer",
/**
 * The store's file.
 */
path: string,
/**
 * Its schema version.
 */
found: number,
/**
 * The newest supported schema version.
 */
known: number, } | { "type": "storeCorrupt",
/**
 * The store's file.
 */
path: string,
/**
 * SQLite's error.
 */
detail: string, } | { "type": "storeOfOtherProgram",
/**
 * The file.
 */
path: string, } | { "type": "storeForeign",
/**
 * The difference.
 */
fault: StoreFault, } | { "type": "migrationBackupFailed",
/**
 * The folder of backups.
 */
folder: string,
/**
 * The system's error.
 */
detail: string, } | { "type": "storeDiskFull",
/**
 * The store's file.
 */
path: string, } | { "type": "storeBusy",
/**
 * The store's file.
 */
path: string, } | { "type": "storeOccupied" } | { "type": "storeFrozen" } | { "type": "storeFailed",
/**
 * SQLite's error.
 */
detail: string, } | { "type": "closing" } | { "type": "mirrorAddress" } | { "type": "backupActive" } | { "type": "restoreActive" } | { "type": "moveActive" } | { "type": "runActive",
/**
 * The run's name.
 */
name: string, } | { "type": "restorePending" } | { "type": "noSpace",
/**
 * The data to write.
 */
contents: DiskContents,
/**
 * Their size.
 */
bytes: number,
/**
 * The folder to write to.
 */
folder: string,
/**
 * The free space of its disk.
 */
freeBytes: number,
/**
 * The part of it that has to stay free.
 */
reservedBytes: number, } | { "type": "backupWithUnsavedAnswer" } | { "type": "backupInDataFolder" } | { "type": "backupOfTooManyFiles" } | { "type": "backupNotRestorable",
/**
 * The error of its store.
 */
cause: Problem, } | { "type": "backupFailed",
/**
 * The file or folder.
 */
path: string,
/**
 * The system's error.
 */
detail: string, } | { "type": "notABackup",
/**
 * The file.
 */
path: string, } | { "type": "backupNewer",
/**
 * The backup.
 */
path: string,
/**
 * The version of that Hearth.
 */
version: string, } | { "type": "backupDamaged",
/**
 * The backup.
 */
path: string,
/**
 * The damage.
 */
damage: BackupDamage, } | { "type": "restoreCancelled" } | { "type": "restoreIncomplete",
/**
 * The data folder.
 */
folder: string,
/**
 * The system's error.
 */
detail: string, } | { "type": "restoreUnreadable",
/**
 * The data folder.
 */
folder: string,
/**
 * The file's name in it.
 */
name: string, } | { "type": "movedDataMissing",
/**
 * The folder.
 */
folder: string,
/**
 * The file that names it.
 */
path: string,
/**
 * The folder that is used without that file.
 */
base: string, } | { "type": "movedDataUnknown",
/**
 * The file.
 */
path: string,
/**
 * The error.
 */
detail: string,
/**
 * The folder that is used without that file.
 */
base: string, } | { "type": "moveToRelative" } | { "type": "moveIntoItself" } | { "type": "moveToSame" } | { "type": "moveToOtherFiles",
/**
 * The folder.
 */
folder: string, } | { "type": "moveToNewFiles",
/**
 * The folder.
 */
folder: string, } | { "type": "moveWithDownload" } | { "type": "moveWithUnsavedAnswer" } | { "type": "moveWithFormer",
/**
 * Its folder.
 */
folder: string, } | { "type": "moveCancelled" } | { "type": "moveFailed",
/**
 * The file or folder.
 */
path: string,
/**
 * The system's error.
 */
detail: string, } | { "type": "noFormer" } | { "type": "formerMissing",
/**
 * The folder.
 */
folder: string, } | { "type": "formerIsPresent" } | { "type": "formerListUnreadable",
/**
 * The list.
 */
path: string,
/**
 * The error.
 */
detail: string,
/**
 * The folder of the copy.
 */
folder: string,
/**
 * The user's way to free the space.
 */
cleanup: FormerCleanup, } | { "type": "formerUsed",
/**
 * The folder of the copy.
 */
folder: string,
/**
 * The user's way to free the space.
 */
cleanup: FormerCleanup, } | { "type": "formerNotDeleted",
/**
 * The folder of the copy.
 */
folder: string, } | { "type": "nothingToExport" } | { "type": "fileUnwritable",
/**
 * The file.
 */
path: string,
/**
 * The system's error.
 */
detail: string, } | { "type": "fileUnreadable",
/**
 * The file or folder.
 */
path: string,
/**
 * The system's error.
 */
detail: string, } | { "type": "pathNotText",
/**
 * The path, with replacements for these.
 */
path: string, } | { "type": "textNotAFile",
/**
 * Its name.
 */
name: string, } | { "type": "textTooLarge",
/**
 * Its name.
 */
name: string,
/**
 * The limit in MiB.
 */
limitMib: number, } | { "type": "textBinary",
/**
 * Its name.
 */
name: string, } | { "type": "noConversations",
/**
 * The file or folder.
 */
path: string, } | { "type": "importInterrupted",
/**
 * The error that ended it.
 */
cause: Problem,
/**
 * The number of imported conversations.
 */
count: number, } | { "type": "importCancelled" } | { "type": "importNotAFile",
/**
 * Its path.
 */
path: string, } | { "type": "importDamaged",
/**
 * The archive.
 */
path: string,
/**
 * The error of the archive.
 */
detail: string, } | { "type": "importUnreadable",
/**
 * The error.
 */
detail: string, } | { "type": "importTooLarge",
/**
 * The limit.
 */
limitBytes: number, } | { "type": "importTooManyFiles",
/**
 * The limit.
 */
limit: number, } | { "type": "importTooManyEntries",
/**
 * The limit.
 */
limit: number, };

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
 * Why it cannot be used. `None` means it can.
 */
problem: Problem | null, };

export type DeletedConversation = {
/**
 * Id.
 */
id: number,
/**
 * Title.
 */
title: string,
/**
 * Days until it is purged, rounded up. That happens at the first start after them.
 */
daysLeft: number, };

export type DeletedFormer = {
/**
 * Number of files in Hearth's folders there that were not copied, and stay.
 */
left: number,
/**
 * The path of one of them.
 */
example: string | null, };

export type DeletedMessages = {
/**
 * The conversation without them.
 */
conversation: Conversation,
/**
 * Their number.
 */
count: number, };

export type Delimiter = { "type": "comma" } | { "type": "semicolon" } | { "type": "tab" };

export type Device = {
/**
 * Value for `--device`: `cpu`, `gpu0` and so on.
 */
id: string,
/**
 * Identity that is stable across restarts; also accepted by `--device`.
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
 * Why it is or is not usable.
 */
status: DeviceStatus,
/**
 * Why no GPU is known, of the CPU. `None` means that the graphics drivers answered.
 */
driverProblem: DriverProblem | null,
/**
 * Driver name and version. `None` for a CPU, or if unknown.
 */
driver: string | null,
/**
 * API version of the driver: `Vulkan 1.3.280`.
 */
api: string | null,
/**
 * Utilization from 0 to 1. `None` means unknown.
 */
load: number | null,
/**
 * Physical cores of a CPU. `None` for a GPU.
 */
cores: number | null,
/**
 * Performance cores among them; all, if there is only one kind.
 */
performanceCores: number | null,
/**
 * Backends that can use it: `cpu`, `vulkan`, `metal`, `dx12`, `cuda`, `rocm`. The first is the
 * one in `backend`.
 */
backendNames: Array<string>,
/**
 * Largest buffer binding of a GPU kernel, in bytes. `None` means unknown.
 */
largestBuffer: number | null,
/**
 * The builds of Hearth that can use it; the automatic choice first.
 */
backends: Array<BackendOption>,
/**
 * Whether a GPU is used without being requested, and why not. `None` for a CPU.
 */
selection: AutoSelection | null,
/**
 * Why the first of [`DeviceInfo::backends`] is the automatic choice of a GPU. `None` if none
 * of them matches the CPU's results, and for a CPU.
 */
buildReason: BuildReason | null, };

export type DeviceCheck = {
/**
 * The first mismatch with the CPU's results. `None` means that all results match.
 */
mismatch: Mismatch | null,
/**
 * Bandwidth of weights in decode, in bytes per second, without the overheads below.
 */
bytesPerSecond: number,
/**
 * Overhead of a decode step, in seconds.
 */
stepSeconds: number,
/**
 * Overhead of each layer in a decode step, in seconds: a GPU launches about twelve kernels for
 * it.
 */
layerSeconds: number,
/**
 * Prefill throughput in multiply-accumulates per second.
 */
macsPerSecond: number,
/**
 * Duration of the check in seconds.
 */
seconds: number,
/**
 * Kernels launched on a GPU.
 */
kernelsLaunched: number,
/**
 * Distinct kernels, each compiled by the driver.
 */
kernelsCompiled: number,
/**
 * Utilization of the CPU around its check, from 0 to 1, by other programs and by other
 * processes of Hearth. `None` means unknown, and for a GPU.
 */
load: number | null, };

export type DeviceStatus = { "type": "unknown" } | { "type": "cpu",
/**
 * Physical cores.
 */
cores: number,
/**
 * The instruction set in use: `AVX2`.
 */
instructions: string, } | { "type": "usable",
/**
 * Names of its APIs: `Vulkan`, `CUDA`.
 */
apis: Array<string>, } | { "type": "software" } | { "type": "softwareUnusable" } | { "type": "lost" } | { "type": "virtualMachine" } | { "type": "noVulkanDriver" } | { "type": "nvidiaDriverUnused" } | { "type": "nvidiaWithoutVulkan" } | { "type": "cudaDriverTooOld" } | { "type": "libdeviceMissing" } | { "type": "buildWithoutVulkan" } | { "type": "notConformant" } | { "type": "featuresMissing",
/**
 * The driver's API and version: `Vulkan 1.0.3`.
 */
api: string, } | { "type": "mismatch",
/**
 * The mismatch.
 */
mismatch: Mismatch, };

export type DiskContents = { "type": "newBackup" } | { "type": "restoredBackup" } | { "type": "dataFolder" };

export type Download = {
/**
 * Id.
 */
id: number,
/**
 * Display name.
 */
name: string,
/**
 * The requested source: the argument of `startDownload`.
 */
source: string,
/**
 * Bytes on disk.
 */
done: number,
/**
 * Total bytes. `None` means that the hub was not asked yet.
 */
total: number | null,
/**
 * Present speed in bytes per second; 0 if it does not run.
 */
bytesPerSecond: number,
/**
 * Whether it goes on where it ended once it is paused or fails, as far as its server has said.
 * Otherwise it may start from the beginning.
 */
resumes: boolean,
/**
 * State.
 */
state: DownloadState, };

export type DownloadState = { "type": "queued" } | { "type": "running" } | { "type": "checking" } | { "type": "waiting",
/**
 * Why.
 */
problem: Problem,
/**
 * Time of the next attempt, in milliseconds since the Unix epoch.
 */
retryAt: number, } | { "type": "paused" } | { "type": "failed",
/**
 * Why.
 */
problem: Problem, } | { "type": "done",
/**
 * Id of the library's model. `None` means that it is no chat model, or was deleted since.
 */
model: string | null,
/**
 * Id of the adapter, if it is one that was not deleted since.
 */
adapter: number | null, };

export type DraftKind = "ngram" | "firstLayers" | "model";

export type DraftProblem = { "type": "missing" } | { "type": "unreadable",
/**
 * Its name.
 */
name: string, } | { "type": "cannotDraft",
/**
 * Its name.
 */
name: string, };

export type DraftSetting = { "type": "auto" } | { "type": "none" } | { "type": "firstLayers" } | { "type": "model",
/**
 * Its id.
 */
model: string, };

export type DraftStats = {
/**
 * The kind of draft.
 */
kind: DraftKind,
/**
 * Tokens that it proposed.
 */
drafted: number,
/**
 * Proposed tokens that the model chose too.
 */
accepted: number,
/**
 * Measured decode speed divided by the speed of plain decoding, whose steps were measured too;
 * 1 if nothing was drafted.
 */
gain: number,
/**
 * Share of the decode steps that verified a draft.
 */
used: number,
/**
 * Whether it had switched itself off when the answer ended, and `gain` is below 1.
 */
stopped: boolean, };

export type DriverProblem = { "type": "process",
/**
 * The failure.
 */
failure: ProcessFailure, };

export type DroppedTurns = {
/**
 * Number of messages dropped from the beginning (after the system prompt).
 */
messages: number,
/**
 * Their tokens.
 */
tokens: number, };

export type Effort = "low" | "medium" | "high";

export type EndReason = "completed" | "earlyStop" | "stopped";

export type Event = { "type": "modelState",
/**
 * The new state.
 */
state: ModelState, } | { "type": "liveModel",
/**
 * Its id.
 */
model: string,
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
 * Whether it is a thought.
 */
kind: TextKind,
/**
 * Text to append to the last part if that is of this kind, else the text of a new part.
 */
text: string,
/**
 * Tokens generated so far.
 */
tokens: number,
/**
 * Speed of decoding so far, in tokens per second.
 */
tokensPerSecond: number,
/**
 * Tokens of the context in use.
 */
contextUsed: number, } | { "type": "messageFolded",
/**
 * The message in full.
 */
message: Message, } | { "type": "messageChanged",
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
id: number, } | { "type": "conversationsChanged",
/**
 * All conversations now, newest first.
 */
conversations: Array<ConversationSummary>, } | { "type": "importProgress",
/**
 * From 0 to 1.
 */
fraction: number, } | { "type": "exportProgress",
/**
 * Id of the adapter.
 */
adapter: number,
/**
 * From 0 to 1.
 */
fraction: number,
/**
 * The stage.
 */
stage: Stage, } | { "type": "restoreProgress",
/**
 * From 0 to 1.
 */
fraction: number, } | { "type": "moveProgress",
/**
 * From 0 to 1.
 */
fraction: number, } | { "type": "foldersChanged",
/**
 * All folders now.
 */
folders: Array<Folder>, } | { "type": "promptsChanged",
/**
 * All of them now, by name.
 */
prompts: Array<SavedPrompt>, } | { "type": "presetsChanged",
/**
 * All presets now.
 */
presets: Presets, } | { "type": "modelsChanged",
/**
 * Models of the library now.
 */
models: Array<Model>, } | { "type": "downloadsChanged",
/**
 * All downloads now, newest first.
 */
downloads: Array<Download>, } | { "type": "downloadProgress",
/**
 * Its id.
 */
id: number,
/**
 * Bytes on disk.
 */
done: number,
/**
 * Total bytes.
 */
total: number,
/**
 * Present speed in bytes per second.
 */
bytesPerSecond: number, } | { "type": "workerDied",
/**
 * Id of the model.
 */
model: string,
/**
 * The reason.
 */
problem: Problem, } | { "type": "measureProgress",
/**
 * From 0 to 1.
 */
fraction: number, } | { "type": "devicesMeasured" } | { "type": "contextUsed",
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
 * The run, in its final state.
 */
run: Run, } | { "type": "storeLocked",
/**
 * Whether it is still locked.
 */
locked: boolean, } | { "type": "linksOpened" } | { "type": "closing",
/**
 * Id of the run.
 */
run: number, } | { "type": "adaptersChanged",
/**
 * All adapters now.
 */
adapters: Array<Adapter>, };

export type ExampleShape = "messages" | "shareGpt" | "alpaca" | "promptAnswer" | "text";

export type Expectation = {
/**
 * Whether it fits in the memory that is free now.
 */
verdict: Verdict,
/**
 * Expected decode speed in tokens per second. `None` means that it does not fit.
 */
tokensPerSecond: number | null,
/**
 * Whether the speed follows from a measurement of this machine, and not from an assumption.
 */
isMeasured: boolean,
/**
 * Whether other programs slowed the measurement down. The app measures again when the machine
 * is idle.
 */
wasBusy: boolean, };

export type ExportFormat = { "type": "ggufLora" } | { "type": "peft" } | { "type": "gguf",
/**
 * Quantization of its weights (`Q4_K`, `Q8_0`, `F16`). `None`: as in the base model.
 */
kind: string | null, };

export type ExportLabels = {
/**
 * BCP 47 tag of the language.
 */
language: string,
/**
 * The title of several conversations.
 */
conversations: string,
/**
 * The user as author.
 */
user: string,
/**
 * The model as author, if its name is unknown.
 */
assistant: string,
/**
 * The system as author.
 */
system: string,
/**
 * The heading of the system prompt.
 */
systemPrompt: string,
/**
 * The heading of a thought.
 */
thought: string,
/**
 * The heading of a tool call, before its name.
 */
toolCall: string,
/**
 * The heading of a tool's result, before its name.
 */
toolResult: string,
/**
 * The label before an image's name.
 */
image: string,
/**
 * The label before a file's name.
 */
file: string, };

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
 * The file or folder written.
 */
path: string,
/**
 * Its size in bytes.
 */
bytes: number,
/**
 * The Modelfile for Ollama beside a GGUF.
 */
modelfile: string | null,
/**
 * Result of the verification, if requested.
 */
verification: Verification | null,
/**
 * Notices about the adapter.
 */
notices: Array<Notice>, };

export type ExportedChats = {
/**
 * The file.
 */
path: string,
/**
 * Number of conversations.
 */
conversations: number,
/**
 * Its size in bytes.
 */
bytes: number, };

export type FetchFailure = { "type": "invalidAddress",
/**
 * The HTTP library's error.
 */
detail: string, } | { "type": "hostNotFound" } | { "type": "unreachable",
/**
 * The system's error.
 */
detail: string, } | { "type": "timedOut" } | { "type": "tooSlow" } | { "type": "broken",
/**
 * The system's error.
 */
detail: string, } | { "type": "endedEarly" } | { "type": "other",
/**
 * The HTTP library's error.
 */
detail: string, } | { "type": "noThreads",
/**
 * The system's error.
 */
detail: string, } | { "type": "invalidRedirect" } | { "type": "redirectLoop" } | { "type": "insecureRedirect" } | { "type": "privateRedirect" } | { "type": "accessRefused",
/**
 * HTTP status: `403 Forbidden`.
 */
status: string, } | { "type": "loginUnencrypted" } | { "type": "loginRefused" } | { "type": "loginRequired" } | { "type": "notFound" } | { "type": "badStatus",
/**
 * HTTP status: `503 Service Unavailable`.
 */
status: string, } | { "type": "webPage" } | { "type": "unexpectedResponse" } | { "type": "tooLarge" } | { "type": "malformedRange" } | { "type": "beyondEnd" } | { "type": "otherRange" } | { "type": "otherSize" } | { "type": "tooLong" } | { "type": "changed" } | { "type": "noSize" } | { "type": "noChecksum" } | { "type": "configTooLong",
/**
 * Its length in bytes.
 */
length: number,
/**
 * The longest that is accepted, in bytes.
 */
limit: number, } | { "type": "notGguf" } | { "type": "headerBeyondEnd" } | { "type": "headerTooLarge" } | { "type": "headersTooLarge" } | { "type": "otherFormat" };

export type Finding = {
/**
 * Its kind, with the data.
 */
kind: FindingKind,
/**
 * Its severity.
 */
severity: Severity,
/**
 * Affected lines, the first twenty.
 */
lines: Array<number>, };

export type FindingKind = { "type": "broken",
/**
 * Their number.
 */
count: number,
/**
 * The first of them.
 */
line: number,
/**
 * Why it cannot be read.
 */
broken: BrokenReason, } | { "type": "refused",
/**
 * Their number.
 */
count: number,
/**
 * The line of the first.
 */
line: number,
/**
 * Why it cannot be tokenized.
 */
refusal: Refusal, } | { "type": "dropped",
/**
 * Their number.
 */
count: number,
/**
 * The sequence length in tokens.
 */
sequence: number, } | { "type": "truncated",
/**
 * Their number.
 */
count: number,
/**
 * The sequence length in tokens.
 */
sequence: number, } | { "type": "lastAnswer",
/**
 * Their number.
 */
count: number, } | { "type": "thoughts",
/**
 * Examples with thoughts.
 */
count: number, } | { "type": "unsure" } | { "type": "preferences",
/**
 * Their column.
 */
column: string, } | { "type": "rowLimit",
/**
 * The maximum.
 */
rows: number,
/**
 * The first line that is ignored.
 */
line: number, } | { "type": "textLimit",
/**
 * The maximum in MiB.
 */
mib: number,
/**
 * The first line that is ignored.
 */
line: number, } | { "type": "noExample" } | { "type": "oneExample" } | { "type": "fewExamples",
/**
 * Their number.
 */
count: number, } | { "type": "fewSequences",
/**
 * Their number.
 */
count: number, } | { "type": "someExamples",
/**
 * Their number.
 */
count: number, } | { "type": "someSequences",
/**
 * Their number.
 */
count: number, } | { "type": "secrets",
/**
 * Their number.
 */
count: number,
/**
 * The kinds of secrets.
 */
secrets: Array<Secret>, } | { "type": "emptyAnswers",
/**
 * Their number.
 */
count: number, } | { "type": "duplicates",
/**
 * Their number.
 */
count: number, } | { "type": "nearDuplicates",
/**
 * Their number.
 */
count: number, } | { "type": "comparedFirst",
/**
 * Number of searched examples, from the first.
 */
count: number, } | { "type": "leaks",
/**
 * Their number.
 */
count: number,
/**
 * All validation examples.
 */
total: number, } | { "type": "shortFacts" } | { "type": "longDocument" };

export type Flaw = { "type": "empty" } | { "type": "webPage" } | { "type": "notGguf" } | { "type": "missingTensors",
/**
 * Its length in bytes.
 */
length: number,
/**
 * Where the last tensor ends.
 */
end: number, } | { "type": "missingHeader",
/**
 * Its length in bytes.
 */
length: number, };

export type Folder = {
/**
 * Id.
 */
id: number,
/**
 * Name.
 */
name: string,
/**
 * Default system prompt of its conversations. `None` means the model's default.
 */
systemPrompt: string | null,
/**
 * Default settings of its conversations.
 */
settings: ConversationSettings, };

export type FormerCleanup = { "type": "deleteFolder" } | { "type": "keepPlace" } | { "type": "lookOrDelete" };

export type FormerData = {
/**
 * The folder.
 */
path: string,
/**
 * Bytes of Hearth's files in it.
 */
bytes: number, };

export type GpuLayers = { "type": "auto" } | { "type": "all" } | { "type": "count", "count": number };

export type HubKind = "models" | "adapters" | "originals";

export type HubModel = {
/**
 * `owner/name`.
 */
id: string,
/**
 * Downloads in the last month.
 */
downloads: number,
/**
 * Likes.
 */
likes: number,
/**
 * Time of the last change, if known.
 */
updatedAt: number | null,
/**
 * `general.architecture` of its files, if the hub says so.
 */
architecture: string | null,
/**
 * Whether Hearth supports the architecture. `None` means unknown.
 */
isSupported: boolean | null,
/**
 * Number of parameters, if the hub says so.
 */
parameters: number | null,
/**
 * Training context length in tokens, if the hub says so.
 */
contextTrained: number | null,
/**
 * Whether its terms must be accepted on the hub before a download.
 */
isGated: boolean,
/**
 * Whether its tags say that it has adapters.
 */
isAdapter: boolean,
/**
 * `OWNER/NAME` of the adapters' base, if the tags name it.
 */
base: string | null,
/**
 * Its estimated performance on this machine in 4 bits, if the number of parameters is known.
 */
expectation: Expectation | null, };

export type HubRepository = {
/**
 * `owner/name`.
 */
id: string,
/**
 * Its page, for a browser.
 */
page: string,
/**
 * License, if the hub says so.
 */
license: string | null,
/**
 * Whether its terms must be accepted on the hub before a download.
 */
isGated: boolean,
/**
 * `OWNER/NAME` of its adapters' base, if its tags name it.
 */
base: string | null,
/**
 * The models in it, from small to large, then the adapters.
 */
variants: Array<HubVariant>, };

export type HubSort = "trending" | "downloads" | "likes" | "updated";

export type HubToken = {
/**
 * Where the token in use was found: the first of these that has one. `null` means that there
 * is none.
 */
source: TokenSource | null,
/**
 * Whether requests to the hub carry it: another hub of the settings does not get it.
 */
isSent: boolean,
/**
 * The system's keychain, also while the token of the environment is in use.
 */
keychain: KeychainState, };

export type HubVariant = {
/**
 * Name of the quantization, or else of the file.
 */
name: string,
/**
 * The file, of a split model the first.
 */
file: string,
/**
 * Number of files.
 */
files: number,
/**
 * Total size of the files in bytes.
 */
size: number,
/**
 * Its estimated performance on this machine, from its size.
 */
expectation: Expectation,
/**
 * Whether it is the best one that runs well on this machine.
 */
isRecommended: boolean,
/**
 * Whether it is a LoRA adapter.
 */
isAdapter: boolean,
/**
 * Id of the library's model, if it was downloaded.
 */
model: string | null,
/**
 * Id of the adapter, if it was downloaded.
 */
adapter: number | null,
/**
 * Argument for `startDownload` and `inspectRemote`.
 */
source: string, };

export type ImportFormat = "hearth" | "chatGpt" | "claude" | "lmStudio" | "jan" | "openWebUi" | "llamaCpp" | "shareGpt" | "openAi";

export type ImportReport = {
/**
 * The formats that were found.
 */
formats: Array<ImportFormat>,
/**
 * Conversations in the export.
 */
found: number,
/**
 * New conversations.
 */
imported: number,
/**
 * Conversations that were imported before and got new messages.
 */
extended: number,
/**
 * Conversations that were imported before, without new messages.
 */
known: number,
/**
 * New messages.
 */
messages: number,
/**
 * Conversations that were not imported.
 */
skipped: Array<Skipped>, };

export type Inspection = {
/**
 * The file format.
 */
container: Container,
/**
 * The format of the examples.
 */
shape: ExampleShape,
/**
 * Names of the columns.
 */
columns: Array<string>,
/**
 * The column mapping, detected or as requested.
 */
mapping: ColumnMapping,
/**
 * Whether the user should confirm the mapping.
 */
unsure: boolean,
/**
 * Usable examples.
 */
examples: number,
/**
 * Their tokens, template included.
 */
tokens: number,
/**
 * Tokens in the loss.
 */
trainedTokens: number,
/**
 * Length in tokens: median, 95th percentile, maximum.
 */
lengths: [number, number, number],
/**
 * Maximum sequence length that a run would use.
 */
sequence: number,
/**
 * Examples longer than it.
 */
truncated: number,
/**
 * Examples, token by token.
 */
previews: Array<Preview>,
/**
 * Findings, most serious first.
 */
findings: Array<Finding>,
/**
 * Malformed lines, the first hundred.
 */
broken: Array<BrokenLine>,
/**
 * Total number of malformed lines.
 */
brokenTotal: number, };

export type JsonKind = { "type": "null" } | { "type": "boolean" } | { "type": "number" } | { "type": "string" } | { "type": "list" } | { "type": "object" };

export type Kept = { "type": "resumes" } | { "type": "restarts" } | { "type": "nothing" };

export type KeychainState = "saved" | "empty" | "missing" | "locked";

export type KvType = "f16" | "q8_0";

export type Language = "system" | "en" | "de" | "es" | "zh-CN";

export type LargeBuffer = {
/**
 * The GPU's name.
 */
device: string,
/**
 * Its content.
 */
buffer: BufferContent,
/**
 * Its size.
 */
bytes: number,
/**
 * The GPU's limit.
 */
limitBytes: number, };

export type Link = { "type": "model",
/**
 * The model as `startDownload` takes it.
 */
source: string,
/**
 * Where it comes from.
 */
place: LinkPlace, } | { "type": "conversation",
/**
 * Its id.
 */
id: number, } | { "type": "refused",
/**
 * Why.
 */
reason: LinkRefusal, };

export type LinkPlace = { "type": "hub",
/**
 * Owner of the repository.
 */
owner: string,
/**
 * Name of the repository.
 */
name: string,
/**
 * Branch, tag or commit. `None` means the default branch.
 */
revision: string | null,
/**
 * The quantization, if one is named.
 */
quantization: string | null,
/**
 * Path of the file, if one is named.
 */
file: string | null, } | { "type": "ollama",
/**
 * The registry's host.
 */
host: string,
/**
 * Its owner. `None` means Ollama's own library.
 */
owner: string | null,
/**
 * Its name.
 */
name: string,
/**
 * Its tag.
 */
tag: string, } | { "type": "web",
/**
 * The host, with its port if one is named.
 */
host: string,
/**
 * File name.
 */
file: string, };

export type LinkRefusal = "tooLong" | "hiddenCharacters" | "unknownForm" | "unknownSource";

export type LoadReason = { "type": "noSuchDevice",
/**
 * The requested id or identity.
 */
name: string,
/**
 * The ids that exist.
 */
known: Array<string>, } | { "type": "badThreads",
/**
 * The number.
 */
threads: number,
/**
 * The most.
 */
max: number, } | { "type": "noDevice" } | { "type": "cpuAmongGpus" } | { "type": "deviceUnusable",
/**
 * Its name.
 */
device: string,
/**
 * Why.
 */
deviceStatus: DeviceStatus, } | { "type": "notInThisBuild",
/**
 * Its name.
 */
device: string,
/**
 * Why.
 */
deviceStatus: DeviceStatus, } | { "type": "notChecked",
/**
 * Its name.
 */
device: string,
/**
 * The build.
 */
build: string,
/**
 * The error.
 */
detail: string, } | { "type": "unknownBuild",
/**
 * Its name.
 */
build: string, } | { "type": "buildNotInstalled",
/**
 * Its name.
 */
build: string, } | { "type": "buildNotInstalledFor",
/**
 * Its name.
 */
build: string,
/**
 * Names of the devices.
 */
devices: Array<string>, } | { "type": "buildMismatch",
/**
 * The build.
 */
build: string,
/**
 * Names of the devices.
 */
devices: Array<string>,
/**
 * The first mismatch.
 */
mismatch: Mismatch, } | { "type": "buildCannotUse",
/**
 * The build.
 */
build: string,
/**
 * Names of the devices.
 */
devices: Array<string>, } | { "type": "modelTooLarge",
/**
 * The memory that it needs.
 */
need: MemoryNeed, } | { "type": "contextTooLarge",
/**
 * The memory that it needs.
 */
need: MemoryNeed, } | { "type": "batchTooLargeForGpu",
/**
 * The buffer.
 */
notice: Notice, } | { "type": "tooManyGpuLayers",
/**
 * The buffer.
 */
notice: Notice, } | { "type": "contextTooLargeForGpu",
/**
 * The buffer.
 */
notice: Notice,
/**
 * The longest context that fits, in tokens.
 */
context: number, } | { "type": "draftUnusable",
/**
 * Its file.
 */
path: string,
/**
 * Why.
 */
cause: Problem, } | { "type": "draftCorrupt",
/**
 * Its file.
 */
path: string, } | { "type": "draftVocabulary",
/**
 * Its file.
 */
path: string,
/**
 * Share of the model's tokens that it has, in percent.
 */
percent: number, } | { "type": "draftLayers",
/**
 * The requested number of them.
 */
layers: number,
/**
 * Layers of the model.
 */
total: number,
/**
 * The most that can draft.
 */
most: number, } | { "type": "adapterMissing",
/**
 * The path.
 */
path: string, } | { "type": "adapterScale",
/**
 * The scale.
 */
scale: string, };

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
kv: KvType,
/**
 * The draft of speculative decoding.
 */
draft: DraftSetting, };

export type LogitBias = {
/**
 * The text.
 */
text: string,
/**
 * Added to their logits. `None` bans them.
 */
bias: number | null, } | {
/**
 * Its id.
 */
id: number,
/**
 * Added to its logit. `None` bans it.
 */
bias: number | null, };

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
 * Speed of decoding, in tokens per second.
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

export type MemoryNeed = { "type": "model",
/**
 * The weights.
 */
weightsBytes: number,
/**
 * The context in tokens.
 */
context: number,
/**
 * Its KV cache.
 */
contextBytes: number,
/**
 * Buffers of a pass.
 */
buffersBytes: number,
/**
 * The machine's memory.
 */
totalBytes: number,
/**
 * The free part of it.
 */
freeBytes: number, } | { "type": "withDraft",
/**
 * The weights.
 */
weightsBytes: number,
/**
 * The context in tokens.
 */
context: number,
/**
 * Its KV cache.
 */
contextBytes: number,
/**
 * The draft model.
 */
draftBytes: number,
/**
 * Buffers of a pass.
 */
buffersBytes: number,
/**
 * The machine's memory.
 */
totalBytes: number,
/**
 * The free part of it.
 */
freeBytes: number, };

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
 * Parts.
 */
parts: Array<Part>,
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
 * The turns dropped from the prompt, because the context is too short.
 */
dropped: DroppedTurns | null,
/**
 * The active adapters. Empty means the base model.
 */
adapters: Array<UsedAdapter>,
/**
 * Id of the next answer of a side-by-side comparison. The last answer has the id of the first
 * one.
 */
comparison: number | null,
/**
 * Whether the user preferred it to the other answers.
 */
better: boolean,
/**
 * The user's rating.
 */
rating: Rating | null,
/**
 * The settings that made it. `None` means that it is no answer, or older than they are.
 */
settings: AnswerSettings | null,
/**
 * Whether the user wrote it, or its beginning, although it is an answer.
 */
edited: boolean,
/**
 * The model and settings that are not its conversation's. `None` means none.
 */
overrides: AnswerOverrides | null, };

export type MessageDeletion = {
/**
 * Id of the first message: the others are below it.
 */
id: number,
/**
 * Id of the conversation.
 */
conversation: number,
/**
 * Title of the conversation.
 */
title: string,
/**
 * First words of the first message. Empty if it has no text.
 */
firstWords: string,
/**
 * Number of messages.
 */
count: number,
/**
 * Days until they are purged, rounded up. That happens at the first start after them.
 */
daysLeft: number, };

export type MessageState = { "type": "complete" } | { "type": "waiting" } | { "type": "loading",
/**
 * From 0 to 1.
 */
fraction: number,
/**
 * The stage.
 */
stage: Stage, } | { "type": "prefill",
/**
 * Tokens done, cached ones included.
 */
done: number,
/**
 * Tokens of the prompt.
 */
total: number, } | { "type": "streaming" } | { "type": "stopped" } | { "type": "truncated",
/**
 * Why.
 */
reason: TruncationReason, } | { "type": "failed",
/**
 * Why.
 */
problem: Problem, };

export type Mismatch = { "type": "detail",
/**
 * A whole sentence, in English.
 */
detail: string, } | { "type": "elements",
/**
 * The check's case: an operation and its shapes.
 */
case: string,
/**
 * The output's name.
 */
output: string,
/**
 * Elements out of tolerance.
 */
wrong: number,
/**
 * Total elements.
 */
elements: number,
/**
 * Row of the worst element.
 */
row: number,
/**
 * Column of the worst element.
 */
column: number,
/**
 * Its value, perhaps `NaN`.
 */
actual: string,
/**
 * The CPU's value.
 */
expected: string, } | { "type": "losses",
/**
 * Its error in percent, perhaps `NaN`.
 */
percent: string, } | { "type": "crashed",
/**
 * The panic's message.
 */
detail: string, } | { "type": "process",
/**
 * The failure.
 */
failure: ProcessFailure, };

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
 * Whether Hearth was checked with a real file of this architecture, and not only with models
 * of random weights.
 */
checkedWithRealFile: boolean,
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
 * Its id in the catalog, if it is there, by which the page describes it.
 */
catalogId: string | null,
/**
 * Default system prompt of conversations.
 */
systemPrompt: string | null,
/**
 * Default sampling parameters.
 */
sampling: SamplingParams,
/**
 * Where these come from.
 */
samplingSource: SamplingSource,
/**
 * Origin.
 */
source: Source,
/**
 * License of the weights, if known.
 */
license: string | null,
/**
 * Where it was downloaded from, if Hearth downloaded it.
 */
downloadedFrom: string | null,
/**
 * Whether removing it deletes its files.
 */
isDeletable: boolean,
/**
 * Why the model cannot be loaded. `None` means it can.
 */
problem: Problem | null,
/**
 * Ids of the models that can draft for it.
 */
drafts: Array<string>, };

export type ModelInfo = {
/**
 * The file.
 */
path: string,
/**
 * The model's name from its metadata.
 */
name: string,
/**
 * `llama`, `qwen2` and so on.
 */
architecture: string,
/**
 * The file's quantization: `Q4_1`.
 */
quantization: string,
/**
 * Number of weights.
 */
parameters: number,
/**
 * Bytes of the file.
 */
fileSize: number,
/**
 * Transformer layers.
 */
layers: number,
/**
 * Allocated context in tokens.
 */
context: number,
/**
 * Context in tokens that the model was trained with.
 */
contextTrained: number,
/**
 * Id of the device that computes the output layer.
 */
device: string,
/**
 * CPU threads in use.
 */
threads: number,
/**
 * The load time in seconds.
 */
loadSeconds: number,
/**
 * Notices for the user, for example that the file has no chat template.
 */
notices: Array<Notice>,
/**
 * Layers on GPUs.
 */
gpuLayers: number,
/**
 * Total layers: transformer layers, prediction layers included, and the output layer.
 */
layersTotal: number,
/**
 * Element type of the KV cache.
 */
kv: KvType,
/**
 * The memory plan of the loaded model.
 */
placement: Array<PlannedDevice>,
/**
 * The draft of speculative decoding. `None` means plain decoding.
 */
draft: DraftKind | null,
/**
 * The thinking that its chat template can switch.
 */
thinking: ThinkingSupport, };

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
 * The stage.
 */
stage: Stage, } | { "type": "ready",
/**
 * Its id.
 */
model: string,
/**
 * The loaded model.
 */
info: ModelInfo,
/**
 * Why it does not use the chosen draft model. `None` means that it does, or that none was
 * chosen.
 */
draftProblem: DraftProblem | null, } | { "type": "failed",
/**
 * Its id.
 */
model: string,
/**
 * Why.
 */
problem: Problem, };

export type ModelUpdate = {
/**
 * Id of the model.
 */
model: string,
/**
 * Argument for `startDownload`, which replaces the model by the version on the server.
 */
source: string,
/**
 * The server's response.
 */
state: UpdateState, };

export type ModelsOwn = "model";

export type ModelsReason = { "type": "unknownModel",
/**
 * The requested name.
 */
name: string,
/**
 * Ids of the library's models.
 */
known: Array<string>, } | { "type": "unknownModelOfNone",
/**
 * The requested name.
 */
name: string, } | { "type": "notDownloaded",
/**
 * The requested name.
 */
name: string,
/**
 * The model's id in the catalog.
 */
id: string,
/**
 * Ids of the library's models.
 */
known: Array<string>, } | { "type": "notDownloadedOfNone",
/**
 * The requested name.
 */
name: string,
/**
 * The model's id in the catalog.
 */
id: string, } | { "type": "notInCatalog",
/**
 * The requested name.
 */
name: string,
/**
 * Ids of the catalog.
 */
known: Array<string>, } | { "type": "modelGone" } | { "type": "noSuchFile",
/**
 * The file.
 */
path: string, } | { "type": "noAccess",
/**
 * The path.
 */
path: string,
/**
 * The system's error.
 */
detail: string, } | { "type": "unreadable",
/**
 * The file.
 */
path: string,
/**
 * The system's error.
 */
detail: string, } | { "type": "unreadablePath",
/**
 * The file.
 */
path: string, } | { "type": "notRead",
/**
 * The file.
 */
path: string, } | { "type": "readerNotStarted",
/**
 * The file to read.
 */
path: string,
/**
 * The program.
 */
program: string,
/**
 * The system's error.
 */
detail: string, } | { "type": "readerTimedOut",
/**
 * The file.
 */
path: string,
/**
 * The time limit in seconds.
 */
seconds: number, } | { "type": "readerOutOfMemory",
/**
 * The file.
 */
path: string, } | { "type": "readerExited",
/**
 * The file.
 */
path: string,
/**
 * The exit code.
 */
exitCode: number, } | { "type": "readerSignaled",
/**
 * The file.
 */
path: string,
/**
 * The signal's number.
 */
signal: number, } | { "type": "readerKilled",
/**
 * The file.
 */
path: string, } | { "type": "readerPanicked",
/**
 * The file.
 */
path: string, } | { "type": "architectureTooLong",
/**
 * The file.
 */
path: string,
/**
 * Its length in bytes.
 */
length: number, } | { "type": "templateTooLong",
/**
 * The file.
 */
path: string,
/**
 * Its length in bytes.
 */
length: number,
/**
 * The longest that is shown, in bytes.
 */
limit: number, } | { "type": "isAdapter",
/**
 * The file.
 */
path: string, } | { "type": "nonUtf8Path",
/**
 * The path.
 */
path: string, } | { "type": "bundled",
/**
 * Its name.
 */
name: string, } | { "type": "addedByHand",
/**
 * The file.
 */
path: string, } | { "type": "foreign",
/**
 * The file.
 */
path: string, } | { "type": "downloadInProgress",
/**
 * Its name.
 */
name: string, } | { "type": "notDeleted",
/**
 * The file.
 */
path: string,
/**
 * The system's error.
 */
detail: string, } | { "type": "notWritten",
/**
 * The file.
 */
path: string,
/**
 * The system's error.
 */
detail: string, } | { "type": "downloadFailed",
/**
 * Name of the model or file.
 */
name: string,
/**
 * Its address, without a query.
 */
url: string,
/**
 * Why.
 */
fetchFailure: FetchFailure,
/**
 * Whether a retry reuses the bytes received so far.
 */
kept: Kept, } | { "type": "changedMeanwhile",
/**
 * Name of the model or file.
 */
name: string,
/**
 * Its address, without a query.
 */
url: string, } | { "type": "flawed",
/**
 * Name of the model or file.
 */
name: string,
/**
 * Its address, without a query.
 */
url: string,
/**
 * Why.
 */
flaw: Flaw, } | { "type": "hashMismatch",
/**
 * Name of the model or file.
 */
name: string,
/**
 * Its address, without a query.
 */
url: string,
/**
 * The download's SHA-256.
 */
found: string, } | { "type": "requestFailed",
/**
 * The requested item.
 */
item: string,
/**
 * Why.
 */
fetchFailure: FetchFailure, } | { "type": "searchFailed",
/**
 * Why.
 */
fetchFailure: FetchFailure, } | { "type": "nothingToDownload",
/**
 * `owner/name`.
 */
repository: string, } | { "type": "noSuchVariant",
/**
 * `owner/name`.
 */
repository: string,
/**
 * The requested name.
 */
wanted: string,
/**
 * The names in it.
 */
known: Array<string>, } | { "type": "unsafeName",
/**
 * The name.
 */
name: string, } | { "type": "badReference",
/**
 * The text.
 */
reference: string, } | { "type": "unencrypted",
/**
 * The address.
 */
url: string, } | { "type": "noSpace",
/**
 * Name of the model.
 */
name: string,
/**
 * Folder of downloads.
 */
folder: string,
/**
 * The required space.
 */
neededBytes: number,
/**
 * The free space.
 */
freeBytes: number, } | { "type": "offlineBySetting" } | { "type": "offlineByVariable",
/**
 * The variable.
 */
variable: string, } | { "type": "alreadyDownloading",
/**
 * Its name.
 */
name: string, } | { "type": "deletedMeanwhile",
/**
 * Its file.
 */
path: string, } | { "type": "alteredMeanwhile",
/**
 * The file.
 */
path: string, } | { "type": "downloadCancelled" } | { "type": "downloadLost" } | { "type": "downloadRemoved" } | { "type": "notAToken" } | { "type": "keychainMissing" } | { "type": "keychainLocked" } | { "type": "keychainFailed",
/**
 * The system's error.
 */
detail: string, } | { "type": "keychainAmbiguous" } | { "type": "keychainTooLong" } | { "type": "keychainDamaged" } | { "type": "keychainEnded" } | { "type": "updateNoRecord" } | { "type": "updateNoHashes" } | { "type": "updateNoRecordedVersion" } | { "type": "updateNoQuery" } | { "type": "updateNoVersion" } | { "type": "updateTooLate" } | { "type": "adapterGone" } | { "type": "adapterMoved",
/**
 * Name of the adapter.
 */
name: string,
/**
 * Where they were.
 */
path: string, } | { "type": "adapterModelGone",
/**
 * Name of the base model.
 */
model: string, } | { "type": "adapterMismatch",
/**
 * Name of the adapter.
 */
name: string, } | { "type": "adapterOfOtherModel",
/**
 * Name of the adapter.
 */
name: string,
/**
 * Name of its base model.
 */
base: string, } | { "type": "adapterWithoutModel",
/**
 * Name of the adapter.
 */
name: string, };

export type Motion = "system" | "reduce";

export type NewConversation = {
/**
 * Settings of its answers.
 */
settings: ConversationSettings,
/**
 * System prompt. `None` means the folder's or model's default.
 */
systemPrompt: string | null,
/**
 * Id of the folder that it is created in.
 */
folder: number | null,
/**
 * The adapters of its answers. Empty means the base model.
 */
adapters: Array<AdapterChoice>, };

export type NewRun = {
/**
 * Display name. `None` means the dataset's name. A name that another run or an imported
 * adapter has gets a number.
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
 * Column mapping. `None` means recognized.
 */
mapping: ColumnMapping | null,
/**
 * Whether malformed lines are skipped. Otherwise a file with one is refused.
 */
skipBroken: boolean,
/**
 * Settings.
 */
settings: TrainSettings, };

export type Notice = { "type": "detail",
/**
 * A whole sentence or more, in English.
 */
detail: string, } | { "type": "fits" } | { "type": "slowOnCpu",
/**
 * Bytes of weights that the CPU reads per token.
 */
bytes: number, } | { "type": "slowDecode" } | { "type": "deviceFull",
/**
 * Its name.
 */
device: string,
/**
 * The memory that the plan needs on it.
 */
neededBytes: number,
/**
 * Its free memory.
 */
freeBytes: number, } | { "type": "contextTooLong",
/**
 * The planned context in tokens.
 */
context: number,
/**
 * The longest that fits, in tokens.
 */
fits: number, } | { "type": "contextFits",
/**
 * The longest that fits, in tokens.
 */
context: number, } | { "type": "bufferTooLarge" } & LargeBuffer | { "type": "contextShortened",
/**
 * The planned context in tokens.
 */
context: number,
/**
 * The usual one in tokens.
 */
usual: number, } | { "type": "layersOnCpu",
/**
 * Layers on GPUs.
 */
onGpus: number,
/**
 * All layers.
 */
total: number, } | { "type": "contextAvoids",
/**
 * Its length in tokens.
 */
context: number, } | { "type": "batchAvoids",
/**
 * Its tokens.
 */
tokens: number, } | { "type": "memoryTight",
/**
 * The memory that it needs.
 */
need: MemoryNeed, } | { "type": "fewerGpuLayers",
/**
 * Layers on GPUs now.
 */
layers: number,
/**
 * Layers that failed.
 */
failed: number,
/**
 * The GPU's error.
 */
cause: Problem, } | { "type": "cpuAlone",
/**
 * Layers that failed.
 */
failed: number,
/**
 * The GPU's error.
 */
cause: Problem, } | { "type": "beyondTraining",
/**
 * The context in tokens.
 */
context: number,
/**
 * The context in tokens that the model was trained with.
 */
trained: number, } | { "type": "chatMlTemplate" } | { "type": "plainTemplate" } | { "type": "missingBytes",
/**
 * The first of these bytes, in hexadecimal.
 */
byte: string, } | { "type": "unknownSettings",
/**
 * Names of settings in the file.
 */
names: Array<string>, } | { "type": "moreUnknownSettings",
/**
 * Names of settings in the file.
 */
names: Array<string>,
/**
 * The number of others.
 */
more: number, } | { "type": "draftUnused",
/**
 * Why.
 */
cause: Problem, } | { "type": "gpuGone",
/**
 * Why.
 */
cause: Problem, } | { "type": "gpuFailed" } | { "type": "adapterOfOtherQuantization",
/**
 * Name of the file that it was trained on.
 */
file: string, } | { "type": "entriesUnmatched",
/**
 * The setting that has them.
 */
setting: string,
/**
 * The entries.
 */
entries: Array<string>, } | { "type": "moreEntriesUnmatched",
/**
 * The setting that has them.
 */
setting: string,
/**
 * The first of the entries.
 */
entries: Array<string>,
/**
 * The number of others.
 */
more: number, } | { "type": "trainedOnGpus",
/**
 * The number of them.
 */
layers: number,
/**
 * All layers.
 */
total: number,
/**
 * Names of the GPUs.
 */
devices: Array<string>, } | { "type": "bestAdapterLost",
/**
 * Why.
 */
cause: Problem, } | { "type": "finding",
/**
 * The finding.
 */
finding: FindingKind, };

export type Outcome = {
/**
 * Why it ended.
 */
reason: EndReason,
/**
 * Steps done, including those before a resume.
 */
steps: number,
/**
 * The step of the saved adapter: the best by validation loss, or the last.
 */
bestStep: number,
/**
 * Mean loss over the last tenth of the steps.
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
 * Perplexity of the base model on a short general text.
 */
generalBefore: number | null,
/**
 * The same with the adapter: a large increase means forgetting.
 */
generalAfter: number | null,
/**
 * Tokens per second over the steps.
 */
tokensPerSecond: number,
/**
 * Duration of the steps in seconds.
 */
seconds: number,
/**
 * Peak resident memory in bytes.
 */
peakMemory: number,
/**
 * The adapter's folder; empty in outcomes that an earlier version stored.
 */
adapter: string, };

export type Part = { "type": "text",
/**
 * The text.
 */
text: string, } | { "type": "thinking",
/**
 * The text.
 */
text: string, } | { "type": "toolCall",
/**
 * Id, which the result repeats.
 */
id: string,
/**
 * The tool.
 */
name: string,
/**
 * The arguments, usually an object.
 */
arguments: unknown, } | { "type": "toolResult",
/**
 * Id of the call.
 */
id: string,
/**
 * The tool.
 */
name: string,
/**
 * The result.
 */
text: string, } | { "type": "image",
/**
 * File name.
 */
name: string,
/**
 * `image/png` and so on.
 */
mediaType: string,
/**
 * The file.
 */
path: string,
/**
 * Its size in bytes.
 */
bytes: number, } | { "type": "file",
/**
 * File name.
 */
name: string,
/**
 * `text/markdown` and so on.
 */
mediaType: string,
/**
 * Its text.
 */
text: string, };

export type PauseReason = "person" | "chat" | "battery";

export type PendingChange = "pause" | "stop";

export type PendingRestore = {
/**
 * When it was made.
 */
madeAt: number,
/**
 * Number of its conversations.
 */
conversations: number,
/**
 * Number of files that are restored.
 */
files: number,
/**
 * Files in it that are not restored.
 */
skipped: Array<SkippedFiles>,
/**
 * The folder to which the present data is moved.
 */
aside: string, };

export type Piece = {
/**
 * The text.
 */
text: string,
/**
 * Its tokens.
 */
tokens: number,
/**
 * Whether it is in the loss.
 */
trained: boolean,
/**
 * Whether it comes from the chat template (special tokens, role names).
 */
template: boolean,
/**
 * Whether it is truncated by the maximum sequence length.
 */
truncated: boolean, };

export type Plan = {
/**
 * Whether every device has enough free memory for its part.
 */
fits: boolean,
/**
 * The same, as a verdict for the user.
 */
verdict: Verdict,
/**
 * The reasons, and what limits the plan.
 */
notices: Array<Notice>,
/**
 * Planned context in tokens.
 */
context: number,
/**
 * Longest context that fits with these layers on GPUs, in tokens; 0 if none does.
 */
contextFits: number,
/**
 * Layers on GPUs.
 */
gpuLayers: number,
/**
 * Total layers: transformer layers, prediction layers included, and the output layer.
 */
layersTotal: number,
/**
 * Maximum number of layers that fit on GPUs with this context.
 */
layersFit: number,
/**
 * Element type of the KV cache.
 */
kv: KvType,
/**
 * The devices of the plan; the CPU is always first.
 */
devices: Array<PlannedDevice>,
/**
 * The build of Hearth that it is for: `portable`, `vulkan`, `cuda` or `rocm`.
 */
build: string,
/**
 * That build's executable. `None` means the one that made the plan.
 */
program: string | null,
/**
 * The GPUs of the plan as a value for [`PlanRequest::device`], or `cpu`.
 */
device: string,
/**
 * Predicted seconds of a typical turn. `None` means that the devices were not measured.
 */
turnSeconds: number | null,
/**
 * Expected decode speed in tokens per second, after a short prompt and without a draft.
 * `None` means that the devices were not measured with weights in the model's formats.
 */
tokensPerSecond: number | null, };

export type PlannedDevice = {
/**
 * Its id, as in [`crate::DeviceInfo`].
 */
id: string,
/**
 * Its identity, as in [`crate::DeviceInfo`].
 */
identity: string,
/**
 * Product name.
 */
name: string,
/**
 * Weights.
 */
weights: number,
/**
 * KV cache for the planned context.
 */
kv: number,
/**
 * The part of `kv` for snapshots, which make regeneration possible in windowed layers.
 */
snapshots: number,
/**
 * The draft of speculative decoding: weights, KV cache and buffers of a draft model. Pages
 * that a draft borrows from its target are part of `kv`.
 */
draft: number,
/**
 * Activations and other buffers of a pass.
 */
compute: number,
/**
 * Reserved for other programs.
 */
margin: number,
/**
 * Total memory. `None` means unknown.
 */
total: number | null,
/**
 * Free memory, without this model. `None` means unknown.
 */
free: number | null,
/**
 * Layers on this device: `token_embd`, `blk.0` and so on, `output`.
 */
layers: Array<string>,
/**
 * Whether all of it fits.
 */
fits: boolean, };

export type Precision = "auto" | "f32" | "bf16";

export type Preset = {
/**
 * Id, used in every command. It stays when the preset is renamed.
 */
id: string,
/**
 * Name.
 */
name: string,
/**
 * Whether it is Hearth's own, which cannot be changed.
 */
isBuiltIn: boolean,
/**
 * Its settings.
 */
values: PresetValues, };

export type PresetValues = {
/**
 * System prompt. `None` means that the preset has none, and leaves a conversation's own.
 */
systemPrompt: string | null,
/**
 * Sampling parameters.
 */
sampling: SamplingOverrides,
/**
 * Most tokens of an answer. `None` means no limit.
 */
maxTokens: number | null,
/**
 * Texts that end an answer. `None` means none.
 */
stop: Array<string> | null,
/**
 * Thinking.
 */
thinking: ThinkingChoice,
/**
 * JSON schema that answers follow. `None` means any text.
 */
jsonSchema: string | null, };

export type Presets = {
/**
 * The built-in ones, then the user's by name.
 */
presets: Array<Preset>,
/**
 * Files that cannot be read.
 */
broken: Array<BrokenPreset>, };

export type Preview = {
/**
 * Line or row in the file, from 1.
 */
line: number,
/**
 * Its text in pieces; adjacent tokens with the same flags form one piece.
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
 * The cause.
 */
reason: Reason, };

export type ProcessFailure = { "type": "notStarted",
/**
 * The program.
 */
program: string,
/**
 * The system's error.
 */
detail: string, } | { "type": "crashed",
/**
 * The signal or exception.
 */
detail: string, } | { "type": "exited",
/**
 * The exit code.
 */
code: number, } | { "type": "noAnswer" } | { "type": "timedOut",
/**
 * The time limit in seconds.
 */
seconds: number, };

export type QueuedMessage = {
/**
 * Its text.
 */
text: string,
/**
 * Its files.
 */
files: Array<TextFile>, };

export type Rating = {
/**
 * Thumb.
 */
thumb: Thumb,
/**
 * The corrected answer.
 */
correction: string | null, };

export type Reason = { "area": "detail",
/**
 * A whole sentence or more, in English.
 */
detail: string, } | { "area": "load" } & LoadReason | { "area": "request" } & RequestReason | { "area": "training" } & TrainingReason | { "area": "worker" } & WorkerReason | { "area": "models" } & ModelsReason | { "area": "data" } & DataReason | { "area": "chat" } & ChatReason | { "area": "tune" } & TuneReason;

export type Refusal = { "type": "detail",
/**
 * A sentence in English, without a full stop.
 */
detail: string, } | { "type": "noAnswer" } | { "type": "tooManyTokens",
/**
 * The maximum, in millions of tokens.
 */
millions: number, };

export type RemoteModel = {
/**
 * Name in the file, or else of the file.
 */
name: string,
/**
 * `llama`, `qwen2` and so on.
 */
architecture: string,
/**
 * `Q4_K_M` and so on.
 */
quantization: string,
/**
 * Number of parameters.
 */
parameters: number,
/**
 * Training context length in tokens; 0 means unknown.
 */
contextTrained: number,
/**
 * Size of the files in bytes.
 */
fileSize: number,
/**
 * Where its bytes would go on this machine.
 */
plan: Plan, };

export type RequestReason = { "type": "noModel" } | { "type": "cancelled" } | { "type": "measurementCancelled" } | { "type": "gpuFailed",
/**
 * The GPU's error.
 */
cause: Problem, } | { "type": "emptyMessage" } | { "type": "promptTooLong",
/**
 * Tokens of the prompt.
 */
tokens: number,
/**
 * The most that fit.
 */
fits: number,
/**
 * The context in tokens.
 */
context: number,
/**
 * Tokens of the context that are reserved for the answer.
 */
reserved: number, } | { "type": "answerTooLong",
/**
 * Tokens of the answer.
 */
tokens: number,
/**
 * The same with the message before it.
 */
needed: number,
/**
 * The context in tokens.
 */
context: number, } | { "type": "noAnswerToContinue" } | { "type": "answerNotContinuable" } | { "type": "imageUnsupported",
/**
 * The image's name.
 */
name: string, } | { "type": "contextTooShort",
/**
 * The context in tokens.
 */
context: number, } | { "type": "settingInvalid",
/**
 * Which, and why, without a full stop.
 */
detail: string, } | { "type": "noSuchToken",
/**
 * The token's id.
 */
id: number,
/**
 * Tokens of the model.
 */
tokens: number,
/**
 * Id of the last of them.
 */
last: number, } | { "type": "noTokenLeft" } | { "type": "logitsNotFinite" } | { "type": "schemaTooLong",
/**
 * Its length in bytes.
 */
length: number,
/**
 * The longest in bytes.
 */
most: number, } | { "type": "schemaNotJson",
/**
 * The parser's error.
 */
detail: string, } | { "type": "schemaNotAnObject" } | { "type": "schemaNeedsEndOfTurn" } | { "type": "schemasCompiling" } | { "type": "schemaTooSlow" } | { "type": "schemaNotFollowed" } | { "type": "schemaFailed",
/**
 * The library's reason, without a full stop.
 */
detail: string, } | { "type": "schemaUnsupported",
/**
 * The library's reason, without a full stop.
 */
detail: string, } | { "type": "patternInvalid",
/**
 * The pattern.
 */
pattern: string,
/**
 * The parser's error, without a full stop.
 */
detail: string, } | { "type": "patternAssertion",
/**
 * The pattern.
 */
pattern: string, };

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
endedAt: number | null,
/**
 * The request that takes effect after the current step. `None` if the run is not active.
 */
pending: PendingChange | null,
/**
 * Whether the user has seen its end. True for an active run.
 */
seen: boolean, };

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
 * Validation examples.
 */
evalExamples: number,
/**
 * Examples truncated to the maximum sequence length.
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
 * Maximum sequence length in tokens.
 */
sequence: number,
/**
 * Trainable parameters.
 */
parameters: number,
/**
 * Precision of its GEMMs.
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
 * Peak resident memory of the dry run, in bytes.
 */
peakMemory: number,
/**
 * Estimated seconds per step.
 */
stepSeconds: number,
/**
 * Estimated total seconds.
 */
totalSeconds: number,
/**
 * Notices for the user.
 */
notices: Array<Notice>, };

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
 * The stage.
 */
stage: Stage, } | { "type": "planned" } | { "type": "running" } | { "type": "paused",
/**
 * Why.
 */
reason: PauseReason, } | { "type": "finished" } | { "type": "stopped" } | { "type": "failed",
/**
 * Why.
 */
problem: Problem, } | { "type": "interrupted",
/**
 * The reason.
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

export type SamplingOverrides = {
/**
 * See [`SamplingParams::temperature`].
 */
temperature: number | null,
/**
 * See [`SamplingParams::top_k`].
 */
topK: number | null,
/**
 * See [`SamplingParams::top_p`].
 */
topP: number | null,
/**
 * See [`SamplingParams::min_p`].
 */
minP: number | null,
/**
 * See [`SamplingParams::typical_p`].
 */
typicalP: number | null,
/**
 * See [`SamplingParams::top_n_sigma`].
 */
topNSigma: number | null,
/**
 * See [`SamplingParams::repetition_penalty`].
 */
repetitionPenalty: number | null,
/**
 * See [`SamplingParams::frequency_penalty`].
 */
frequencyPenalty: number | null,
/**
 * See [`SamplingParams::presence_penalty`].
 */
presencePenalty: number | null,
/**
 * See [`SamplingParams::repeat_last_n`].
 */
repeatLastN: number | null,
/**
 * See [`SamplingParams::xtc_probability`].
 */
xtcProbability: number | null,
/**
 * See [`SamplingParams::xtc_threshold`].
 */
xtcThreshold: number | null,
/**
 * See [`SamplingParams::dry_multiplier`].
 */
dryMultiplier: number | null,
/**
 * See [`SamplingParams::dry_base`].
 */
dryBase: number | null,
/**
 * See [`SamplingParams::dry_allowed_length`].
 */
dryAllowedLength: number | null,
/**
 * See [`SamplingParams::dry_last_n`].
 */
dryLastN: number | null,
/**
 * See [`SamplingParams::mirostat_tau`].
 */
mirostatTau: number | null,
/**
 * See [`SamplingParams::mirostat_eta`].
 */
mirostatEta: number | null,
/**
 * See [`SamplingParams::dynatemp_range`].
 */
dynatempRange: number | null,
/**
 * See [`SamplingParams::dynatemp_exponent`].
 */
dynatempExponent: number | null,
/**
 * See [`SamplingParams::mirostat`].
 */
mirostat: boolean | null,
/**
 * See [`SamplingParams::dry_breakers`]. An empty list means none.
 */
dryBreakers: Array<string> | null,
/**
 * See [`SamplingParams::logit_bias`].
 */
logitBias: Array<LogitBias> | null,
/**
 * See [`SamplingParams::banned_strings`].
 */
bannedStrings: Array<string> | null,
/**
 * See [`SamplingParams::seed`]. `None` draws a random one for each answer.
 */
seed: number | null, };

export type SamplingParams = {
/**
 * 0 means greedy.
 */
temperature: number,
/**
 * Top-k: the number of most likely tokens to keep; 0 disables it.
 */
topK: number,
/**
 * Nucleus sampling: keep the most likely tokens whose probabilities add up to p; 1 disables
 * it.
 */
topP: number,
/**
 * Min-p: tokens less likely than this fraction of the most likely one are dropped; 0 disables
 * it.
 */
minP: number,
/**
 * Divides the logits of tokens seen in the last [`SamplingParams::repeat_last_n`]; 1 disables
 * it.
 */
repetitionPenalty: number,
/**
 * Subtracted from a token's logit for each time it was seen; 0 disables it.
 */
frequencyPenalty: number,
/**
 * Subtracted once from the logit of a token that was seen; 0 disables it.
 */
presencePenalty: number,
/**
 * Window of the penalties, in tokens.
 */
repeatLastN: number,
/**
 * Locally typical sampling: keep the tokens whose surprise is closest to the expected one,
 * until their probabilities add up to p; 1 disables it.
 */
typicalP: number,
/**
 * Top-nσ: keep tokens within this many standard deviations of the highest logit; 0 or less
 * disables it.
 */
topNSigma: number,
/**
 * XTC: the chance, per token, that the most likely tokens are excluded; 0 disables it.
 */
xtcProbability: number,
/**
 * XTC excludes all tokens at least this likely but the least likely of them; more than 0.5
 * disables it.
 */
xtcThreshold: number,
/**
 * DRY: scale of the penalty for tokens that would continue a repetition; 0 disables it.
 */
dryMultiplier: number,
/**
 * DRY: growth of the penalty with each further repeated token.
 */
dryBase: number,
/**
 * DRY: length in tokens from which a repetition is penalized.
 */
dryAllowedLength: number,
/**
 * DRY: window in tokens; 0 disables it.
 */
dryLastN: number,
/**
 * DRY: texts at which a repetition ends.
 */
dryBreakers: Array<string>,
/**
 * Mirostat 2: keeps the surprise of the tokens near a target, in place of all filters but the
 * temperature.
 */
mirostat: boolean,
/**
 * Mirostat: target surprise, in bits.
 */
mirostatTau: number,
/**
 * Mirostat: learning rate.
 */
mirostatEta: number,
/**
 * Dynamic temperature: the temperature varies by this much up and down, with the entropy of
 * the tokens; 0 disables it.
 */
dynatempRange: number,
/**
 * Dynamic temperature: exponent of the normalized entropy.
 */
dynatempExponent: number,
/**
 * Added to the logits of tokens.
 */
logitBias: Array<LogitBias>,
/**
 * Texts that the answer never contains; case matters.
 */
bannedStrings: Array<string>,
/**
 * The same seed gives the same answer on a CPU. `None` draws a random one.
 */
seed: number | null, };

export type SamplingSetting = { "type": "temperature" } | { "type": "topK" } | { "type": "topP" } | { "type": "minP" } | { "type": "typicalP" } | { "type": "topNSigma" } | { "type": "repetitionPenalty" } | { "type": "frequencyPenalty" } | { "type": "presencePenalty" } | { "type": "repeatLastN" } | { "type": "xtcProbability" } | { "type": "xtcThreshold" } | { "type": "dryMultiplier" } | { "type": "dryBase" } | { "type": "dryAllowedLength" } | { "type": "dryLastN" } | { "type": "mirostatTau" } | { "type": "mirostatEta" } | { "type": "dynatempRange" } | { "type": "dynatempExponent" } | { "type": "logitBias" };

export type SamplingSource = "catalog" | "file" | "builtIn";

export type SavedPrompt = {
/**
 * Id.
 */
id: number,
/**
 * The name after the slash: letters, digits, `-` and `_`.
 */
name: string,
/**
 * The text. A `{{variable}}` in it is asked for when it is inserted.
 */
text: string, };

export type Schedule = "cosine" | "linear" | "constant";

export type SearchFilter = {
/**
 * Id of the folder.
 */
folder: number | null,
/**
 * A tag of the conversation.
 */
tag: string | null,
/**
 * Author of the message. With one, titles are not searched.
 */
role: Role | null,
/**
 * Earliest time of the message (of a title, of the conversation's last message), in
 * milliseconds since 1970.
 */
since: number | null,
/**
 * Latest such time.
 */
until: number | null, };

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

export type Secret = { "type": "privateKey" } | { "type": "awsKey" } | { "type": "githubToken" } | { "type": "gitlabToken" } | { "type": "slackToken" } | { "type": "anthropicKey" } | { "type": "openaiKey" } | { "type": "huggingFaceToken" } | { "type": "googleKey" } | { "type": "stripeKey" } | { "type": "npmToken" } | { "type": "pypiToken" } | { "type": "emailPassword" } | { "type": "cardNumber" };

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
 * Language of the window.
 */
language: Language,
/**
 * Color theme.
 */
theme: Theme,
/**
 * Contrast.
 */
contrast: Contrast,
/**
 * Motion.
 */
motion: Motion,
/**
 * Text size in percent.
 */
textSize: number,
/**
 * Whether Enter sends a message. Otherwise it begins a new line, and Ctrl or Command with
 * Enter sends.
 */
enterSends: boolean,
/**
 * Repeated tokens after which an answer ends. 0 means that it never ends for this reason.
 */
repetitionLimit: number,
/**
 * Whether the model titles a conversation after its first answer. Otherwise the title is the
 * first words.
 */
generatedTitles: boolean,
/**
 * Whether the system notifies when a long answer, a download or a run ends while the window is
 * not in use.
 */
notifications: boolean,
/**
 * Whether the tray has an icon.
 */
tray: TraySetting,
/**
 * Changed keyboard shortcuts: the key of an action (`Mod+Shift+K`; empty means none) by its
 * id. Unknown ids are ignored.
 */
shortcuts: { [key in string]: string },
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
 * The draft of speculative decoding, by id of the model that it drafts for: a draft model fits
 * few others. A model without an entry has [`DraftSetting::Auto`].
 */
drafts: { [key in string]: DraftSetting },
/**
 * The user's default sampling parameters, by id of the model, over the catalog's or file's.
 */
sampling: { [key in string]: SamplingOverrides },
/**
 * Id of the last loaded model, which is loaded when a message is sent. Only loading a model
 * changes it.
 */
lastModel: string | null,
/**
 * Most bytes of the prompt cache on disk; 0 switches it off.
 */
promptCacheLimit: number,
/**
 * Whether searches and downloads are switched off. Nothing else of Hearth uses the network.
 */
offline: boolean,
/**
 * Address of the hub or of a mirror. `None` means `HF_ENDPOINT`, or else huggingface.co.
 */
hubEndpoint: string | null,
/**
 * Whether models of other programs are listed: the Hugging Face cache, LM Studio, Ollama, Jan
 * and llama.cpp.
 */
listOtherPrograms: boolean,
/**
 * More folders with models.
 */
modelFolders: Array<string>, };

export type Severity = "note" | "warning" | "error";

export type SkipReason = "empty" | "malformed" | "tooLarge" | "tooManyValues" | "tooManyMessages" | "unknownFormat" | "unreadable";

export type Skipped = {
/**
 * Why.
 */
reason: SkipReason,
/**
 * The limit that they exceed, if that is why.
 */
limit: number | null,
/**
 * Number of these conversations.
 */
count: number,
/**
 * The title of one of them.
 */
example: string | null, };

export type SkippedFileReason = "name" | "tooDeep" | "notAFile" | "notAPreset" | "unreadable";

export type SkippedFiles = {
/**
 * Why.
 */
reason: SkippedFileReason,
/**
 * Number of these files.
 */
count: number,
/**
 * One of them, in the data folder.
 */
example: string, };

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
 * Folders, in the order of their creation.
 */
folders: Array<Folder>,
/**
 * Models of the library.
 */
models: Array<Model>,
/**
 * State of the selected model.
 */
modelState: ModelState,
/**
 * States of all models that are loaded, being loaded or could not be loaded.
 */
liveModels: Array<ModelState>,
/**
 * Id of the default model for a new conversation.
 */
defaultModel: string | null,
/**
 * Address of the hub, unless the settings name another one.
 */
defaultHub: string,
/**
 * The draft of a new conversation.
 */
unsent: Unsent,
/**
 * The answers being generated.
 */
answering: Array<Answering>, };

export type SnippetPart = {
/**
 * Text.
 */
text: string,
/**
 * Whether it matches the query.
 */
hit: boolean, };

export type Source = "bundled" | "catalog" | "file" | "folder" | "huggingFace" | "lmStudio" | "ollama" | "jan" | "llamaCpp";

export type Stage = { "type": "starting" } | { "type": "openingFile" } | { "type": "readingVocabulary" } | { "type": "readingWeights" } | { "type": "allocatingCache" } | { "type": "measuring" } | { "type": "checkingDevice",
/**
 * The GPU's name.
 */
device: string, } | { "type": "waitingForMemory" } | { "type": "loadingOnCpu" } | { "type": "openingModel" } | { "type": "readingData" } | { "type": "dryRun" } | { "type": "writing" } | { "type": "merging" } | { "type": "verifying" };

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
 * The decode speed in tokens per second.
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
context: number,
/**
 * Statistics of the draft of speculative decoding. `None` means that there was none, or that
 * the row was written by a version without drafts.
 */
draft: DraftStats | null,
/**
 * Time from the first thinking token to the first text token, in seconds. `None` means that
 * there was no thinking, or that the row was written by a version that did not measure it.
 */
thinkingSeconds: number | null, };

export type StoreFault = { "type": "otherProgram" } | { "type": "unknownVersion",
/**
 * The version.
 */
version: number, } | { "type": "foreignEntry",
/**
 * Its name.
 */
name: string, } | { "type": "misplacedMessage" } | { "type": "largeNumbers",
/**
 * Their table.
 */
table: string, };

export type TextChange = {
/**
 * Revision of the text that is changed. `None` means an empty text.
 */
base: number | null,
/**
 * Revision of the changed text, which no other text of any page has.
 */
revision: number,
/**
 * First UTF-16 code unit of the change.
 */
start: number,
/**
 * Number of removed code units.
 */
removed: number,
/**
 * The text in their place.
 */
inserted: string, };

export type TextFile = {
/**
 * File name.
 */
name: string,
/**
 * Its text.
 */
text: string, };

export type TextKind = "text" | "thinking";

export type TextList = { "type": "stopStrings" } | { "type": "sequenceBreakers" } | { "type": "bannedStrings" } | { "type": "biasedTokens" };

export type Theme = "system" | "light" | "dark";

export type ThinkingChoice = {
/**
 * Whether the model thinks.
 */
enabled: ThinkingSwitch | null,
/**
 * The thinking effort.
 */
effort: ThinkingEffort | null, };

export type ThinkingEffort = Effort | ModelsOwn;

export type ThinkingSupport = {
/**
 * Whether the model thinks by default. `None` means that it cannot be switched on or off.
 */
switch: boolean | null,
/**
 * Whether [`Effort`] has an effect.
 */
effort: boolean, };

export type ThinkingSwitch = boolean | ModelsOwn;

export type Thumb = "up" | "down";

export type TokenSource = "environment" | "keychain" | "file";

export type TrainSettings = {
/**
 * LoRA rank.
 */
rank: number,
/**
 * LoRA alpha: the adapter's scale is alpha / rank (alpha / sqrt(rank) with
 * [`TrainSettings::rslora`]).
 */
alpha: number,
/**
 * LoRA dropout, from 0 to 1.
 */
dropout: number,
/**
 * Rank-stabilized scaling. <https://arxiv.org/abs/2312.03732>
 */
rslora: boolean,
/**
 * Target modules, by GGUF name (`attn_q`) or Hugging Face name (`q_proj`); empty means all.
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
 * Warm-up, as a fraction of the steps.
 */
warmup: number,
/**
 * AdamW's decoupled weight decay. <https://arxiv.org/abs/1711.05101>
 */
weightDecay: number,
/**
 * Gradient clipping: maximum norm; 0 disables it.
 */
maxGradientNorm: number,
/**
 * Maximum epochs. `None`: chosen from the number of examples.
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
 * Maximum sequence length in tokens; longer examples are truncated and reported.
 */
sequence: number | null,
/**
 * Random seed. The same seed on the same machine gives the same run.
 */
seed: number,
/**
 * Validation split, as a fraction of the examples.
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
 * Whether to shuffle the examples in each epoch.
 */
shuffle: boolean,
/**
 * An adapter to start from.
 */
init: number | null,
/**
 * Steps between checkpoints.
 */
checkpointEvery: number | null,
/**
 * Precision of the GEMMs.
 */
precision: Precision,
/**
 * Gradient checkpointing.
 */
checkpointing: Checkpointing,
/**
 * Whether the loss includes prompts, too, not only answers.
 */
trainOnPrompts: boolean,
/**
 * System prompt of conversations in the data that have none. `None`: the chat template
 * decides; empty: an empty system message.
 */
systemPrompt: string | null, };

export type TrainingReason = { "type": "runUnreadable",
/**
 * The run's folder.
 */
folder: string,
/**
 * The error.
 */
detail: string, } | { "type": "runFileMissing",
/**
 * The run's folder.
 */
folder: string, } | { "type": "runNewer",
/**
 * The run's folder.
 */
folder: string,
/**
 * Version of the settings.
 */
version: number,
/**
 * The newest version that this Hearth reads.
 */
supported: number, } | { "type": "runOfOtherModel",
/**
 * The run's folder.
 */
folder: string,
/**
 * The difference, without a full stop.
 */
detail: string, } | { "type": "folderInUse",
/**
 * The folder.
 */
folder: string,
/**
 * The file in it.
 */
path: string, } | { "type": "folderHasOtherFile",
/**
 * The folder.
 */
folder: string,
/**
 * The file's name.
 */
name: string, } | { "type": "runLocked",
/**
 * The folder.
 */
folder: string, } | { "type": "gpuFailed",
/**
 * The driver's message.
 */
detail: string, } | { "type": "outIsModelfile",
/**
 * The file to write to.
 */
path: string, } | { "type": "outIsModel",
/**
 * The file to write to.
 */
path: string, } | { "type": "outIsAdapter",
/**
 * The file to write to.
 */
path: string, } | { "type": "adapterBesideFiles",
/**
 * The folder.
 */
folder: string, } | { "type": "unknownQuantization",
/**
 * Its name.
 */
name: string,
/**
 * The names that exist.
 */
known: Array<string>, } | { "type": "brokenLine",
/**
 * The dataset.
 */
path: string,
/**
 * The line, from 1.
 */
line: number,
/**
 * Why it cannot be read.
 */
broken: BrokenReason, } | { "type": "brokenLines",
/**
 * The dataset.
 */
path: string,
/**
 * The first of the lines, from 1.
 */
line: number,
/**
 * Why it cannot be read.
 */
broken: BrokenReason,
/**
 * The number of the other lines.
 */
count: number, } | { "type": "noReadableLine",
/**
 * The dataset.
 */
path: string,
/**
 * The first line, from 1.
 */
line: number,
/**
 * Why it cannot be read.
 */
broken: BrokenReason, } | { "type": "systemPromptTooLong",
/**
 * The size of one copy.
 */
bytes: number,
/**
 * The number of examples.
 */
examples: number, } | { "type": "validationSplit",
/**
 * The requested fraction.
 */
split: string, };

export type TrayContent = {
/**
 * The entry that opens the window.
 */
open: string,
/**
 * The running tasks, one a line, or a line that says that there are none.
 */
running: Array<string>,
/**
 * The entry that ends Hearth.
 */
quit: string, };

export type TraySetting = "off" | "on" | "keepRunning";

export type TruncationReason = "length" | "contextFull" | "repetition";

export type TuneReason = { "type": "noDataset" } | { "type": "datasetUnreadable",
/**
 * The file.
 */
path: string,
/**
 * The system's error.
 */
detail: string, } | { "type": "fileUnreadable",
/**
 * The file.
 */
path: string,
/**
 * The system's error.
 */
detail: string, } | { "type": "fileIsFolder",
/**
 * The folder.
 */
path: string, } | { "type": "nothingRated" } | { "type": "ratingsNotWritten",
/**
 * Its file.
 */
path: string,
/**
 * The system's error.
 */
detail: string, } | { "type": "noRun" } | { "type": "notActive" } | { "type": "completed" } | { "type": "notSaved",
/**
 * Its name.
 */
name: string, } | { "type": "otherRun",
/**
 * Its name.
 */
name: string, } | { "type": "ended" } | { "type": "closed" } | { "type": "runOutOfMemory",
/**
 * Its end.
 */
cause: Problem, } | { "type": "runInterrupted",
/**
 * Its end.
 */
cause: Problem, };

export type UnmatchedEntries = {
/**
 * The setting's name: `alpha_pattern`.
 */
setting: string,
/**
 * The first of them, shortened.
 */
entries: Array<string>,
/**
 * Number of the others.
 */
more: number, };

export type Unsent = {
/**
 * The draft's text.
 */
text: string,
/**
 * The draft's files.
 */
files: Array<TextFile>,
/**
 * The queued messages, in order.
 */
queue: Array<QueuedMessage>, };

export type UnsentChange = {
/**
 * The draft's text.
 */
text: string | null,
/**
 * The draft's files.
 */
files: Array<TextFile> | null,
/**
 * The queued messages.
 */
queue: Array<QueuedMessage> | null, };

export type UnsentCount = { "type": "counted",
/**
 * Token counts.
 */
tokens: UnsentTokens, } | { "type": "unknown" } | { "type": "unavailable" };

export type UnsentDraft = {
/**
 * Id of the conversation. `None` means a new one.
 */
conversation: number | null,
/**
 * Id of the message before it. `None` means that it is the first.
 */
leaf: number | null,
/**
 * The change of its text.
 */
text: TextChange,
/**
 * Its files. `None` means that they have not changed.
 */
files: Array<TextFile> | null,
/**
 * The initial state of a new conversation.
 */
fresh: NewConversation, };

export type UnsentTokens = {
/**
 * Tokens of the conversation without the message.
 */
conversation: number,
/**
 * Tokens of the prompt if the message is sent, without dropped turns.
 */
total: number, };

export type UpdateState = { "type": "current" } | { "type": "available" } | { "type": "unknown",
/**
 * Why.
 */
problem: Problem, };

export type UsedAdapter = {
/**
 * Id; the adapter may be deleted.
 */
adapter: number,
/**
 * Name at that time; empty if it was deleted before.
 */
name: string,
/**
 * Scale.
 */
scale: number, };

export type Verdict = { "type": "fits" } | { "type": "fitsWithLessContext",
/**
 * The longest that fits, in tokens.
 */
context: number, } | { "type": "slow" } | { "type": "wontFit" };

export type Verification = {
/**
 * Whether the export passed.
 */
passed: boolean,
/**
 * Whether the adapter changes what the model says. Without, there is nothing to compare.
 */
learned: boolean,
/**
 * Replayed prompts.
 */
prompts: number,
/**
 * Mean Kullback-Leibler divergence from the trained model, in nats per token.
 */
divergence: number,
/**
 * The same divergence of the base model, as a measure of how much was learnt, in nats per
 * token.
 */
taught: number,
/**
 * Prompts with identical greedy answers.
 */
sameText: number,
/**
 * The result, for the user.
 */
result: VerificationResult, };

export type VerificationResult = { "type": "nothingLearned" } | { "type": "matches",
/**
 * Retained part of the training in percent, rounded down.
 */
retainedPercent: number,
/**
 * Prompts with identical greedy answers.
 */
same: number,
/**
 * All prompts.
 */
prompts: number, } | { "type": "tooCoarse",
/**
 * Retained part of the training in percent, rounded down.
 */
retainedPercent: number,
/**
 * Prompts with identical greedy answers.
 */
same: number,
/**
 * All prompts.
 */
prompts: number, } | { "type": "nothingLearnedTooCoarse",
/**
 * Prompts with identical greedy answers.
 */
same: number,
/**
 * All prompts.
 */
prompts: number, } | { "type": "differs",
/**
 * Retained part of the training in percent, rounded down.
 */
retainedPercent: number,
/**
 * Prompts with identical greedy answers.
 */
same: number,
/**
 * All prompts.
 */
prompts: number, } | { "type": "nothingLearnedDiffers",
/**
 * Prompts with identical greedy answers.
 */
same: number,
/**
 * All prompts.
 */
prompts: number, };

export type Votes = {
/**
 * For the answer with the adapter.
 */
tuned: number,
/**
 * For the base model's answer.
 */
base: number, };

export type WorkerExit = { "type": "signal",
/**
 * Its number.
 */
signal: number, } | { "type": "code",
/**
 * The exit code.
 */
code: number, } | { "type": "none" } | { "type": "unknown",
/**
 * The system's error.
 */
detail: string, };

export type WorkerReason = { "type": "missing",
/**
 * Its path.
 */
path: string, } | { "type": "notStarted",
/**
 * The executable.
 */
path: string,
/**
 * The system's error.
 */
detail: string, } | { "type": "notReady",
/**
 * The time limit.
 */
seconds: number, } | { "type": "notAWorker",
/**
 * The executable.
 */
path: string, } | { "type": "otherVersion",
/**
 * Its version.
 */
version: string, } | { "type": "outOfMemory" } | { "type": "killed" } | { "type": "exited",
/**
 * The way in which it ended.
 */
exit: WorkerExit, } | { "type": "closedOutput" } | { "type": "outputUnreadable",
/**
 * The system's error.
 */
detail: string, } | { "type": "invalidMessage",
/**
 * The beginning of the line.
 */
line: string, } | { "type": "unaskedAnswer",
/**
 * The request's id.
 */
request: number, } | { "type": "silent",
/**
 * The time limit.
 */
seconds: number, } | { "type": "logged",
/**
 * The end.
 */
cause: Problem,
/**
 * The line.
 */
line: string, } | { "type": "ended" } | { "type": "cancelNotConfirmed",
/**
 * The time limit.
 */
seconds: number, } | { "type": "noResponse",
/**
 * The time limit.
 */
seconds: number, } | { "type": "unexpectedAnswer" } | { "type": "invalidRequest",
/**
 * The parser's error.
 */
detail: string, } | { "type": "modelUnloaded" } | { "type": "inspectionReplaced" } | { "type": "planReplaced" } | { "type": "diskFull",
/**
 * The file or folder.
 */
path: string,
/**
 * The system's error.
 */
detail: string, } | { "type": "fileUnreadable",
/**
 * The file or folder.
 */
path: string,
/**
 * The system's error.
 */
detail: string, } | { "type": "internal",
/**
 * The error.
 */
detail: string, };

export type WrittenBackup = {
/**
 * The file.
 */
path: string,
/**
 * Its size in bytes.
 */
bytes: number,
/**
 * Number of files in it.
 */
files: number,
/**
 * Files of the data folder that are not in it.
 */
skipped: Array<SkippedFiles>, };
