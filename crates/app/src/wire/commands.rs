//! The table of the window's commands.

/// Passes the table of the window's commands to a macro: the rows of `app`, each a use case of
/// [`App`](crate::App) with these arguments and this result, and the rows of `window`, each a
/// function of the desktop crate. Every command may fail with a [`Problem`](crate::wire::Problem).
///
/// The desktop crate makes Tauri's commands from it, [`typescript`](crate::wire::typescript) the
/// page's.
#[macro_export]
macro_rules! commands {
    ($define:ident) => {
        $define! {
            app {
                /// The initial state of the window.
                fn snapshot() -> Snapshot;

                /// The revision of the last event. What is read afterwards is at least as new as
                /// the events up to it.
                fn revision() -> u64;

                fn open_conversation(id: i64) -> Conversation;
                /// Starts a new conversation if `conversation` is `null`; `fresh` is what that
                /// begins with.
                fn send(
                    conversation: Option<i64>,
                    parent: Option<i64>,
                    text: String,
                    files: Vec<TextFile>,
                    fresh: NewConversation
                ) -> Sent;
                /// Reads a text file for a message.
                fn read_text_file(path: PathBuf) -> TextFile;
                /// Generates a sibling of this answer. `overrides` are the model and settings that
                /// are not the conversation's.
                fn regenerate(message: i64, overrides: Option<AnswerOverrides>) -> Sent;
                /// Adds a sibling of this user message and generates its answer.
                fn edit(message: i64, text: String) -> Sent;
                /// Goes on with the last answer of a branch.
                fn continue_answer(message: i64) -> Sent;
                /// Adds a sibling of this answer with another text. `go_on` lets the model
                /// continue it.
                fn edit_answer(message: i64, text: String, go_on: bool) -> Sent;
                fn stop(conversation: i64) -> ();
                /// Switches to the branch through this message.
                fn select_leaf(conversation: i64, message: i64) -> Conversation;
                /// Deletes a message and all messages below it, in all versions. Stops the answers
                /// among them.
                fn delete_message(id: i64) -> DeletedMessages;
                /// Undoes the deletion of this message and of those below it. Rejects with
                /// `badRequest` if the message that it follows is deleted, too.
                fn restore_messages(id: i64) -> Conversation;
                /// Deleted messages in conversations that are not deleted. Last deleted first.
                fn message_deletions() -> Vec<MessageDeletion>;
                /// Removes deleted messages for good.
                fn purge_messages(ids: Vec<i64>) -> ();
                /// Copies the messages up to this one into a new conversation with this title.
                fn branch_off(message: i64, title: String) -> ConversationSummary;
                /// Saves what is not sent in a conversation, or in a new one if that is `null`.
                fn save_unsent(conversation: Option<i64>, change: UnsentChange) -> ();
                /// Counts the tokens of a message that is being written, if the model that would
                /// answer it is loaded. A newer count cancels it.
                fn count_unsent(draft: UnsentDraft) -> UnsentCount;
                fn rename_conversation(id: i64, title: String) -> ();
                fn delete_conversation(id: i64) -> ();
                fn restore_conversation(id: i64) -> ();
                /// Last deleted first.
                fn deleted_conversations() -> Vec<DeletedConversation>;
                /// Removes deleted conversations for good.
                fn purge_conversations(ids: Vec<i64>) -> ();
                fn pin_conversation(id: i64, pinned: bool) -> ();
                fn set_system_prompt(conversation: i64, text: Option<String>) -> ();
                fn set_conversation_settings(conversation: i64, chosen: ConversationSettings) -> ();
                /// The built-in presets, then the user's by name.
                fn presets() -> Presets;
                fn save_preset(name: String, values: PresetValues) -> Preset;
                fn update_preset(id: String, values: PresetValues) -> Preset;
                /// Its id stays.
                fn rename_preset(id: String, name: String) -> Preset;
                fn delete_preset(id: String) -> ();
                /// Undoes a deletion.
                fn restore_preset(id: String) -> Preset;
                fn import_preset(path: PathBuf) -> Preset;
                fn export_preset(id: String, path: PathBuf) -> ();
                /// Applies a preset to a conversation, or to `fresh` if that is `null`. Returns the
                /// settings with it.
                fn apply_preset(
                    id: String,
                    conversation: Option<i64>,
                    fresh: NewConversation
                ) -> NewConversation;
                fn create_folder(name: String) -> Folder;
                fn update_folder(folder: Folder) -> ();
                /// Its conversations stay.
                fn delete_folder(id: i64) -> ();
                /// Undoes a deletion.
                fn restore_folder(id: i64) -> ();
                /// Moves a conversation into a folder, or out of its folder.
                fn move_conversation(id: i64, folder: Option<i64>) -> ();
                fn set_tags(conversation: i64, tags: Vec<String>) -> ();
                /// By name.
                fn saved_prompts() -> Vec<SavedPrompt>;
                /// Saves a new prompt if `id` is `null`.
                fn save_prompt(id: Option<i64>, name: String, text: String) -> SavedPrompt;
                fn delete_prompt(id: i64) -> ();
                fn search(query: String, filter: SearchFilter) -> Vec<SearchHit>;
                /// Imports the conversations of an export of another program; a file, a ZIP archive
                /// or a folder. Reports progress through events.
                fn import_conversations(path: PathBuf) -> ImportReport;
                /// Makes `importConversations` reject with `cancelled`; what was imported stays.
                fn cancel_import() -> ();
                /// Writes a conversation, or all if it is `null`, to a file.
                fn export_conversations(
                    conversation: Option<i64>,
                    format: ChatFormat,
                    labels: ExportLabels,
                    path: PathBuf
                ) -> ExportedChats;
                /// Writes conversations, runs, adapters and datasets to one file. Rejects with
                /// `busy` during a run.
                fn back_up(path: PathBuf) -> WrittenBackup;
                /// Checks a backup, which replaces the present data at the next start. That data is
                /// moved aside.
                fn restore_backup(path: PathBuf) -> PendingRestore;
                /// Cancels a restoration before the next start.
                fn cancel_restore() -> ();
                fn data_place() -> DataPlace;
                /// The folder to which the data would be moved if this one was chosen: a new one in
                /// it, unless it is empty.
                fn data_target(folder: PathBuf) -> String;
                /// Cancels the move of the data folder.
                fn cancel_move() -> ();
                /// Deletes the copy that the last move left behind.
                fn delete_former_data() -> DeletedFormer;

                fn load_model(id: String) -> ();
                fn unload_model() -> ();
                fn add_model(path: PathBuf) -> Model;
                /// Adds a merged export. The model has the adapter's name.
                fn add_merged_model(path: PathBuf, adapter: i64) -> Model;
                /// Removes a model from the list; a file added by the user stays on disk.
                fn remove_model(id: String) -> ();
                /// The source of a model's chat template, if its file has one.
                fn chat_template(model: String) -> Option<String>;
                /// Lists the models on this machine again: folders and drives come and go.
                fn rescan_models() -> Vec<Model>;

                /// The models of the catalog, the three that suit this machine best first, and what
                /// each would be like here. Needs no network.
                fn catalog() -> Vec<CatalogModel>;
                /// Searches the hub for repositories with models, adapters, or originals.
                fn search_hub(query: String, sort: HubSort, kind: HubKind) -> Vec<HubModel>;
                /// Repositories with GGUF files that were converted from a repository.
                fn hub_conversions(id: String) -> Vec<HubModel>;
                /// The models in a repository of the hub.
                fn hub_repository(id: String) -> HubRepository;
                /// Reads the header of a model that is not on this machine, some megabytes, and
                /// plans it. `source` is as in `startDownload`.
                fn inspect_remote(source: String) -> RemoteModel;
                /// Newest first.
                fn downloads() -> Vec<Download>;
                /// Queues a download: `hf.co/OWNER/REPO[:QUANT]`, an address of a file or page of
                /// the hub, `ollama://NAME[:TAG]`, any address of a GGUF file, or an id of the
                /// catalog. An equal one that is not done is resumed.
                fn start_download(source: String) -> Download;
                fn pause_download(id: i64) -> ();
                /// Resumes a paused or failed download.
                fn resume_download(id: i64) -> ();
                /// Removes a download from the list; an unfinished one loses its bytes.
                fn remove_download(id: i64) -> ();
                /// Asks the servers of downloaded models whether these have changed there.
                fn check_updates() -> Vec<ModelUpdate>;
                /// Whether there is a token of the hub, and where it was found; never the token
                /// itself. May take until the user has unlocked the system's keychain.
                fn hub_token() -> HubToken;
                /// Saves a token in the system's keychain, and nowhere else.
                fn set_hub_token(token: String) -> HubToken;
                /// Removes the token from the system's keychain.
                fn remove_hub_token() -> HubToken;

                /// The devices that can run a model, with their current memory and load.
                fn devices() -> Vec<Device>;
                /// Checks a device (compares its results with the CPU's) and measures it, with
                /// every build that can use it. May take minutes. Returns all devices.
                fn check_device(device: String) -> Vec<Device>;
                /// The memory plan of a model. Rejects with `superseded` if a newer plan was
                /// requested meanwhile.
                fn plan(model: String, load_settings: LoadSettings) -> Plan;
                /// Measures prefill and decode speed; reports progress through events.
                fn measure() -> Measurement;
                /// Makes `measure` reject with `cancelled`.
                fn stop_measuring() -> ();
                /// Newest first.
                fn measurements() -> Vec<Measurement>;
                /// The caches on disk.
                fn caches() -> Vec<CacheUsage>;
                /// Clears a cache; returns all caches. Nothing else is deleted.
                fn clear_cache(cache: Cache) -> Vec<CacheUsage>;
                /// A description of the machine and of Hearth's state, for bug reports.
                fn report() -> String;

                fn datasets() -> Vec<Dataset>;
                /// Bundled datasets; pass their paths to `addDataset`.
                fn sample_datasets() -> Vec<SampleDataset>;
                /// Returns the existing dataset if the file was added before.
                fn add_dataset(path: PathBuf) -> Dataset;
                fn rename_dataset(id: i64, name: String) -> ();
                /// Removes a dataset from the list; its file stays.
                fn remove_dataset(id: i64) -> ();
                fn restore_dataset(id: i64) -> ();
                /// Inspects a dataset as a run on this model would read it. Without a mapping the
                /// columns are detected.
                fn inspect_dataset(
                    id: i64,
                    model: String,
                    mapping: Option<ColumnMapping>,
                    skip_broken: bool,
                    sequence: Option<u32>,
                    system_prompt: Option<String>
                ) -> Inspection;

                /// Newest first.
                fn runs() -> Vec<Run>;
                fn run_points(id: i64) -> RunCurves;
                /// The default training settings.
                fn train_defaults() -> TrainSettings;
                /// Rejects with `busy` while another run is active or paused.
                fn start_run(run: NewRun) -> Run;
                fn pause_run(id: i64) -> ();
                /// Resumes a paused run, or an interrupted or failed one from its last checkpoint.
                fn resume_run(id: i64) -> ();
                /// Stops a run and saves its adapter. A second call, while the worker is still
                /// running, kills it.
                fn stop_run(id: i64) -> ();
                /// Marks the end of a run as seen.
                fn see_run(id: i64) -> ();
                fn rename_run(id: i64, name: String) -> ();
                /// Deletes a run and its adapter; stops it if active.
                fn delete_run(id: i64) -> ();
                fn restore_run(id: i64) -> ();

                /// Newest first.
                fn adapters() -> Vec<Adapter>;
                /// Imports a PEFT folder or a GGUF adapter for this model. `null` means for
                /// whatever it fits, which may be no model on this machine.
                fn import_adapter(path: PathBuf, model: Option<String>) -> Adapter;
                fn rename_adapter(id: i64, name: String) -> ();
                fn delete_adapter(id: i64) -> ();
                fn restore_adapter(id: i64) -> ();
                /// Exports (and verifies) an adapter; may take minutes. Reports progress through
                /// events.
                fn export_adapter(options: ExportOptions) -> Exported;
                /// Cancels the export: `exportAdapter` rejects with `cancelled`, or skips the
                /// verification if it has written the file.
                fn cancel_export() -> ();

                /// Sets the adapters of new answers; an empty list means the base model.
                fn set_conversation_adapters(conversation: i64, choices: Vec<AdapterChoice>) -> ();
                /// Like `send`, with 2 to 4 answers side by side.
                fn compare(
                    conversation: Option<i64>,
                    parent: Option<i64>,
                    text: String,
                    files: Vec<TextFile>,
                    answers: Vec<ComparedAnswer>,
                    fresh: NewConversation
                ) -> Compared;
                /// Votes for one of the compared answers, from which the conversation continues;
                /// `false` removes the vote.
                fn vote_answer(message: i64, better: bool) -> ();
                /// Removes the rating if both are `null`. A correction alone counts as thumb down.
                fn rate_answer(message: i64, thumb: Option<Thumb>, correction: Option<String>) -> ();
                /// Number of answers that `datasetFromRatings` would write: rated good, or
                /// corrected.
                fn rated_examples() -> usize;
                /// Writes the rated answers to a file of the app's and adds it as a dataset.
                fn dataset_from_ratings(name: String) -> Dataset;
            }

            window {
                /// Saves the settings. A loaded model is reloaded if its load settings change.
                fn set_settings(settings: Settings) -> ();
                /// Opens a native dialog with a title and a name of the files that it offers;
                /// `null` if cancelled.
                fn choose_model_file(title: String, files: String) -> Option<String>;
                /// Opens a native dialog; `null` if cancelled.
                fn choose_model_folder(title: String) -> Option<String>;
                /// Opens a native dialog; `null` if cancelled.
                fn choose_data_file(title: String, files: String) -> Option<String>;
                /// Opens a native dialog for text files; empty if cancelled.
                fn choose_text_files(title: String) -> Vec<String>;
                /// Opens a native dialog for a GGUF file or a PEFT folder; `null` if cancelled.
                fn choose_adapter(folder: bool, title: String, files: String) -> Option<String>;
                /// Opens a native dialog for an export of another program; `null` if cancelled.
                fn choose_import(folder: bool, title: String, files: String) -> Option<String>;
                /// Opens a native dialog for a new backup; `null` if cancelled.
                fn choose_backup_target(title: String, files: String) -> Option<String>;
                /// Opens a native dialog for a backup; `null` if cancelled.
                fn choose_backup(title: String, files: String) -> Option<String>;
                /// Opens a native dialog for a preset's file; `null` if cancelled.
                fn choose_preset(title: String, files: String) -> Option<String>;
                /// Opens a native dialog for the file of a preset with this name; `null` if
                /// cancelled.
                fn choose_preset_target(name: String, title: String, files: String) -> Option<String>;
                /// Opens a native dialog; `null` if cancelled.
                fn choose_data_folder(title: String) -> Option<String>;
                /// Copies the data to another folder, then restarts Hearth. Reports progress
                /// through events; nothing can be saved meanwhile.
                fn move_data(folder: PathBuf) -> ();
                /// Shows a notification of the system, unless the window has the focus.
                fn notify(title: String, body: String) -> ();
                /// Sets the menu of the icon in the system's tray; `null` removes the icon. Returns
                /// whether the tray has the icon: not every desktop has a tray.
                fn set_tray(content: Option<TrayContent>) -> bool;
                /// Links that were opened since the last call, before the page loaded too.
                fn take_links() -> Vec<Link>;
                /// Restarts Hearth, such as after an update.
                fn restart() -> ();
                /// Opens the data folder in the system's file manager.
                fn open_data_folder() -> ();
                /// Shows a file or folder in the system's file manager.
                fn show_in_folder(path: PathBuf) -> ();
                /// Opens a native dialog for a file of conversations with this name; `null` if
                /// cancelled.
                fn choose_chat_export(format: ChatFormat, name: String, title: String) -> Option<String>;
                /// Opens a native dialog for the format; `null` if cancelled.
                fn choose_export_target(format: ExportFormat, name: String, title: String) -> Option<String>;
            }
        }
    };
}
