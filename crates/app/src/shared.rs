//! The state that use cases, chat and fine-tuning share: store, library, settings and event sink.

use crate::{
    announce::{Announcer, Sink, Topic},
    cancellation::Cancellation,
    convert::from_json,
    data_work::DataWork,
    downloads::Downloads,
    foreign_lock::ForeignLock,
    library::{self, Library, Model, Place, Reader, catalog, hub::Keychain},
    lock::lock,
    options::Options,
    power::{OnBattery, Power},
    settings,
    store::{
        Store, StoreError, conversation, message,
        model::{self, Merged},
    },
    title,
    wire::{
        Answering, ChatReason, ConversationSummary, Event, Message, Problem, ProblemCode, Run, RunPoint, Settings,
        TrainSettings,
    },
};
use hearth_protocol::{HostOptions, ModelHost, TextKind, append_text};
use std::{
    collections::HashMap,
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Semaphore, watch};

/// Most concurrent requests to a hub. Each occupies a thread.
const MAX_HUB_REQUESTS: usize = 8;

pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) library: Library,
    /// The folder with the file that names the data folder, if that was moved.
    pub(crate) base: PathBuf,
    /// The data folder.
    pub(crate) data: PathBuf,
    pub(crate) data_work: DataWork,
    pub(crate) imports: Cancellation,
    /// Number of cancellations of exports.
    pub(crate) export_cancellations: watch::Sender<u64>,
    pub(crate) restorations: Cancellation,
    pub(crate) moves: Cancellation,
    /// Held while a plan's model is looked up; waiters are served in order.
    pub(crate) planning: tokio::sync::Mutex<()>,
    /// Folders of the sample datasets.
    pub(crate) samples: Vec<PathBuf>,
    /// The folder of packed weights. `None` switches the cache off.
    pub(crate) packed: Option<PathBuf>,
    /// The workers of all models.
    pub(crate) host: ModelHost,
    pub(crate) power: Arc<dyn Power>,
    pub(crate) on_battery: Arc<OnBattery>,
    /// See [`Options::chat_idle_delay`].
    pub(crate) chat_idle_delay: Duration,
    /// See [`Options::shutdown_timeout`].
    pub(crate) shutdown_timeout: Duration,
    pub(crate) announcer: Announcer,
    settings: Mutex<Settings>,
    /// Held while the settings are changed.
    changing_settings: Mutex<()>,
    /// Messages newer than their rows in the store: growing answers, and those not saved yet.
    live: Mutex<HashMap<i64, Message>>,
    pub(crate) foreign_lock: Mutex<ForeignLock>,
    /// Held while an answer is added: a conversation has one unfinished answer at most.
    pub(crate) adding: Mutex<()>,
    /// Held while a preset is changed: the names of their files are chosen one at a time.
    pub(crate) changing_presets: Mutex<()>,
    /// Whether the chat is busy.
    answering: watch::Sender<bool>,
    /// See [`Shared::computations`].
    computations: AtomicU64,
    /// Number of titles that are being generated.
    titles: AtomicU64,
    /// Whether the CPU waits to be measured again.
    pub(crate) is_remeasuring: AtomicBool,
    /// See [`Options::remeasure_delay`].
    pub(crate) remeasure_delay: Duration,
    /// Runs newer than their rows in the store: the active one.
    runs: Mutex<HashMap<i64, Run>>,
    /// Held while a run is started: only one is active at a time.
    pub(crate) starting_run: Mutex<()>,
    pub(crate) downloads: Downloads,
    /// See [`Shared::asking`].
    hub_permits: Arc<Semaphore>,
    pub(crate) keychain: Arc<dyn Keychain>,
    /// Folders of other programs.
    programs: Vec<Place>,
}

/// A title that is being generated.
pub(crate) struct Titling<'a>(&'a Shared);

impl Drop for Titling<'_> {
    fn drop(&mut self) {
        self.0.titles.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    pub(crate) fn new(store: Store, options: Options, sink: Sink) -> Result<Self, StoreError> {
        let settings = store.read(|t| settings::load(t))?;
        // This process parses no model file.
        let reader = Reader::Probe(options.probe);
        let library = Library::new(options.bundled, &options.data, reader, options.metadata_file);
        library.set_places(library::places(&settings, options.programs.clone()));
        Ok(Self {
            store,
            library,
            base: options.base,
            data: options.data,
            data_work: DataWork::default(),
            imports: Cancellation::default(),
            export_cancellations: watch::Sender::default(),
            restorations: Cancellation::default(),
            moves: Cancellation::default(),
            planning: tokio::sync::Mutex::default(),
            samples: options.samples,
            packed: options.packed,
            host: ModelHost::new(HostOptions {
                worker: options.worker,
                idle_unload: options.idle_unload,
            }),
            on_battery: OnBattery::new(options.power.clone()),
            power: options.power,
            chat_idle_delay: options.chat_idle_delay,
            shutdown_timeout: options.shutdown_timeout,
            announcer: Announcer::new(sink),
            settings: Mutex::new(settings),
            changing_settings: Mutex::default(),
            live: Mutex::default(),
            foreign_lock: Mutex::default(),
            adding: Mutex::default(),
            changing_presets: Mutex::default(),
            answering: watch::Sender::new(false),
            computations: AtomicU64::new(0),
            titles: AtomicU64::new(0),
            is_remeasuring: AtomicBool::new(false),
            remeasure_delay: options.remeasure_delay,
            runs: Mutex::default(),
            starting_run: Mutex::default(),
            downloads: Downloads::default(),
            hub_permits: Arc::new(Semaphore::new(MAX_HUB_REQUESTS)),
            keychain: options.keychain,
            programs: options.programs,
        })
    }

    /// See [`Announcer::emit`].
    pub(crate) fn emit(&self, event: Event) {
        self.announcer.emit(event);
    }

    pub(crate) fn settings(&self) -> Settings {
        lock(&self.settings).clone()
    }

    /// Changes the settings: saves them in the store, then applies them. Returns the previous ones.
    pub(crate) fn change_settings(&self, change: impl FnOnce(Settings) -> Settings) -> Result<Settings, StoreError> {
        let _one_at_a_time = lock(&self.changing_settings);
        let previous = self.settings();
        let settings = change(previous.clone());
        self.store.write(|t| settings::save(t, &settings))?;
        self.library
            .set_places(library::places(&settings, self.programs.clone()));
        *lock(&self.settings) = settings;
        Ok(previous)
    }

    /// The models on this machine; may start a probe process.
    pub(crate) fn models(&self) -> Result<Vec<Model>, StoreError> {
        let (added, merged) = self.added_files()?;
        let models = self.library.list(&added).into_iter();
        Ok(models.map(|model| with_adapter(model, &merged)).collect())
    }

    /// The model with an id. Reads no other model's file; may start a probe process.
    pub(crate) fn model(&self, id: &str) -> Result<Option<Model>, StoreError> {
        let (added, merged) = self.added_files()?;
        Ok(self.library.find(id, &added).map(|model| with_adapter(model, &merged)))
    }

    /// The default model of the library. Reads files up to that one.
    pub(crate) fn default_model(&self) -> Result<Option<Model>, StoreError> {
        let (added, merged) = self.added_files()?;
        Ok(self
            .library
            .find_default(&added)
            .map(|model| with_adapter(model, &merged)))
    }

    /// The models that were added by path, and the adapters in merged ones.
    fn added_files(&self) -> Result<(Vec<PathBuf>, HashMap<PathBuf, Merged>), StoreError> {
        self.store.read(|t| Ok((model::list(t)?, model::merged(t)?)))
    }

    /// Runs blocking work (disk, locks) on tokio's blocking threads.
    pub(crate) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let shared = self.clone();
        match tokio::task::spawn_blocking(move || work(&shared)).await {
            Ok(result) => result,
            Err(error) => {
                let detail = error.to_string();
                Err(Problem::new(ProblemCode::Internal, ChatReason::Panicked { detail }))
            }
        }
    }

    /// Like [`Shared::blocking`], for requests to a hub. Their number is limited, so that servers
    /// that do not respond cannot occupy all blocking threads.
    pub(crate) async fn asking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let permit = self.hub_permits.clone().acquire_owned().await;
        self.blocking(move |shared| {
            // Held until the work ends, even if its receiver is gone.
            let _permit = permit;
            work(shared)
        })
        .await
    }

    /// Shadows a message's row in the store, until [`Shared::clear_live`].
    pub(crate) fn set_live(&self, message: Message) {
        self.lock_live().insert(message.id, message);
    }

    /// Adds text to a growing answer.
    pub(crate) fn extend_live(&self, message: i64, kind: TextKind, text: &str) {
        if let Some(message) = self.lock_live().get_mut(&message) {
            append_text(&mut message.parts, kind, text);
        }
    }

    /// Announces a growing answer whose text became a thought.
    pub(crate) fn fold_live(&self, message: &Message) {
        self.set_live(message.clone());
        self.emit(Event::MessageFolded {
            message: Box::new(message.clone()),
        });
    }

    /// Replaces the parts of rows by the parts of live messages, which are newer if the disk was
    /// full.
    pub(crate) fn complete(&self, rows: &mut [message::Message]) {
        let live = self.lock_live();
        for row in rows {
            if let Some(message) = live.get(&row.id) {
                row.parts.clone_from(&message.parts);
            }
        }
    }

    /// Ends the shadowing of a message, whose row in the store is complete.
    pub(crate) fn clear_live(&self, message: i64) {
        self.lock_live().remove(&message);
    }

    /// Shadows a message's row, and announces it.
    pub(crate) fn show(&self, message: Message) {
        self.set_live(message.clone());
        self.emit(Event::MessageChanged {
            message: Box::new(message),
        });
    }

    /// Announces the current state of a message, unless it was removed.
    pub(crate) fn announce_message(&self, id: i64) -> Result<(), StoreError> {
        self.announcer.announce(Topic::Messages, || {
            // Live messages first: a message that ends in between is complete in the store.
            let live = self.lock_live().get(&id).cloned();
            let message = match live {
                Some(message) => Some(message),
                None => self.store.read(|t| message::get(t, id))?.map(Message::from),
            };
            Ok(message.map(|message| Event::MessageChanged {
                message: Box::new(message),
            }))
        })
    }

    /// Messages newer than their rows, by id.
    pub(crate) fn live(&self) -> HashMap<i64, Message> {
        self.lock_live().clone()
    }

    /// The unfinished answers.
    pub(crate) fn unfinished(&self) -> Vec<Answering> {
        let live = self.lock_live();
        let answers = live.values().filter(|message| is_unfinished(message));
        let answering = |message: &Message| Answering {
            conversation: message.conversation,
            message: message.id,
        };
        answers.map(answering).collect()
    }

    /// Whether a conversation has an unfinished answer.
    pub(crate) fn is_answering(&self, conversation: i64) -> bool {
        self.unfinished()
            .iter()
            .any(|answer| answer.conversation == conversation)
    }

    /// Announces the state of a conversation in the store: that it has changed or was removed.
    pub(crate) fn announce_conversation(&self, id: i64) -> Result<(), StoreError> {
        self.announcer.announce(Topic::Conversations, || {
            let row = self.store.read(|t| conversation::get(t, id))?;
            Ok(
                row.map_or(Event::ConversationRemoved { id }, |row| Event::ConversationChanged {
                    conversation: ConversationSummary::from(&row),
                    leaf: row.leaf,
                }),
            )
        })
    }

    /// Announces all conversations, after many of them have changed.
    pub(crate) fn announce_conversations(&self) -> Result<(), StoreError> {
        self.announcer.announce(Topic::Conversations, || {
            let rows = self.store.read(|t| conversation::list(t))?;
            Ok(Event::ConversationsChanged {
                conversations: rows.iter().map(ConversationSummary::from).collect(),
            })
        })
    }

    /// Sets whether the chat is busy.
    pub(crate) fn set_answering(&self, answering: bool) {
        if answering {
            self.count_computation();
        }
        self.answering
            .send_if_modified(|current| std::mem::replace(current, answering) != answering);
    }

    /// Watches whether the chat is busy.
    pub(crate) fn answering(&self) -> watch::Receiver<bool> {
        self.answering.subscribe()
    }

    /// Shadows a run's row in the store, until [`Shared::clear_live_run`].
    pub(crate) fn set_live_run(&self, run: Run) {
        self.count_computation();
        self.lock_runs().insert(run.id, run.clone());
        self.emit(Event::RunChanged { run: Box::new(run) });
    }

    /// Ends the shadowing of a run, whose row in the store is complete.
    pub(crate) fn clear_live_run(&self, id: i64) {
        self.lock_runs().remove(&id);
    }

    /// A run that is newer than its row in the store.
    pub(crate) fn live_run(&self, id: i64) -> Option<Run> {
        self.lock_runs().get(&id).cloned()
    }

    /// The active run.
    pub(crate) fn active_run(&self) -> Option<Run> {
        self.lock_runs().values().next().cloned()
    }

    /// Counts an answer, a title, a load or a run that starts.
    pub(crate) fn count_computation(&self) {
        self.computations.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of answers, titles, loads and runs that have started. A measurement is undisturbed if
    /// nothing was in progress at its start and the number is the same at its end.
    pub(crate) fn computations(&self) -> u64 {
        self.computations.load(Ordering::Relaxed)
    }

    /// Marks a title as being generated until the result is dropped.
    pub(crate) fn begin_title(&self) -> Titling<'_> {
        self.count_computation();
        self.titles.fetch_add(1, Ordering::Relaxed);
        Titling(self)
    }

    /// Whether an answer, a title or a run is in progress, which a measurement would slow down.
    pub(crate) fn is_computing(&self) -> bool {
        *self.answering.borrow() || self.titles.load(Ordering::Relaxed) > 0 || self.active_run().is_some()
    }

    /// Changes the active run and emits [`Event::RunChanged`] if it differs.
    pub(crate) fn change_run(&self, id: i64, change: impl FnOnce(&mut Run)) {
        let mut runs = self.lock_runs();
        let Some(run) = runs.get_mut(&id) else { return };
        let before = run.clone();
        change(run);
        if *run != before {
            // Under the lock, so that no older state is emitted later.
            let run = Box::new(run.clone());
            self.emit(Event::RunChanged { run });
        }
    }

    /// Sets the last step of the active run and emits [`Event::RunPoint`] only.
    pub(crate) fn run_stepped(&self, id: i64, point: RunPoint) {
        if let Some(run) = self.lock_runs().get_mut(&id) {
            run.last = Some(point);
        }
        self.emit(Event::RunPoint { run: id, point });
    }

    fn lock_live(&self) -> MutexGuard<'_, HashMap<i64, Message>> {
        lock(&self.live)
    }

    fn lock_runs(&self) -> MutexGuard<'_, HashMap<i64, Run>> {
        lock(&self.runs)
    }
}

/// A model with the name, the system prompt and the base of the adapter that was merged into it, if
/// there is one.
fn with_adapter(model: Model, merged: &HashMap<PathBuf, Merged>) -> Model {
    if merged.is_empty() {
        return model;
    }
    let adapter = merged.get(&model.path).or_else(|| {
        // The keys are canonical paths. A folder of models may be a link.
        let path = fs::canonicalize(&model.path).ok()?;
        merged.get(&library::plain(&path))
    });
    let Some(adapter) = adapter else {
        return model;
    };
    let run = adapter.run.as_ref();
    let settings: TrainSettings = from_json(run.map(|run| run.settings.as_str())).unwrap_or_default();
    // Files outside of the app's folders have other ids.
    let base_entry = run.and_then(|run| catalog::find(&run.model).or_else(|| catalog::find(&run.model_name)));
    Model {
        // A backup may have brought any name.
        name: title::normalized(&adapter.name).unwrap_or(model.name),
        training_prompt: settings.system_prompt,
        base_entry,
        ..model
    }
}

/// Whether a message is an answer that has not ended.
pub(crate) fn is_unfinished(message: &Message) -> bool {
    message::State::from(&message.state) == message::State::Unfinished
}
