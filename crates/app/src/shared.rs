//! What the use cases, the chat and the fine-tuning share: the store, the library, what a person chose, and who listens.

use crate::{
    Options,
    library::{Library, Model, Reader},
    power::Power,
    saving::Held,
    store::{Store, StoreError, conversation, message, model, setting},
    tune::Errands,
    wire::{Code, ConversationSummary, Event, Message, Problem, Run, RunPoint, Settings},
};
use hearth_protocol::WorkerCommand;
use rusqlite::Transaction;
use serde_json::Value;
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::watch;

/// Hears every event, in order, from any thread; it must not block.
pub(crate) type Sink = Box<dyn Fn(Event) + Send + Sync>;

pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) library: Library,
    /// Where all of the app's files are.
    pub(crate) data: PathBuf,
    /// Folders of datasets that came with the app.
    pub(crate) samples: Vec<PathBuf>,
    /// Where workers keep packed weights, if they do.
    pub(crate) packed: Option<PathBuf>,
    /// How a worker is started.
    pub(crate) worker: WorkerCommand,
    pub(crate) power: Arc<dyn Power>,
    /// How long a run's step may take once the app is to close.
    pub(crate) close_within: Duration,
    sink: Sink,
    settings: Mutex<Settings>,
    /// Messages of which memory knows more than the store: answers that grow, and those that could not be saved yet.
    live: Mutex<HashMap<i64, Message>>,
    /// Whether another process holds the store.
    pub(crate) held: Mutex<Option<Held>>,
    /// Held while an answer is added: one at a time in a conversation.
    pub(crate) adding: Mutex<()>,
    /// Whether the chat is at work.
    answering: watch::Sender<bool>,
    /// Runs of which memory knows more than the store: the one that is under way.
    runs: Mutex<HashMap<i64, Run>>,
    /// Held while a run is begun: one at a time.
    pub(crate) beginning: Mutex<()>,
    pub(crate) errands: Errands,
}

impl Shared {
    pub(crate) fn new(store: Store, options: Options, sink: Sink) -> Result<Self, StoreError> {
        let settings = store.read(load_settings)?;
        // This process parses none of them.
        let reader = Reader::Probe(options.probe);
        Ok(Self {
            store,
            library: Library::new(options.bundled, &options.data, reader, options.facts),
            data: options.data,
            samples: options.samples,
            packed: options.packed,
            worker: options.worker,
            power: options.power,
            close_within: options.close_within,
            sink,
            settings: Mutex::new(settings),
            live: Mutex::default(),
            held: Mutex::default(),
            adding: Mutex::default(),
            answering: watch::Sender::new(false),
            runs: Mutex::default(),
            beginning: Mutex::default(),
            errands: Errands::default(),
        })
    }

    pub(crate) fn emit(&self, event: Event) {
        (self.sink)(event);
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps the settings, on disk first.
    pub(crate) fn set_settings(&self, settings: Settings) -> Result<(), StoreError> {
        self.store.write(|t| save_settings(t, &settings))?;
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings;
        Ok(())
    }

    /// The models on this machine; may start a process that reads files.
    pub(crate) fn models(&self) -> Result<Vec<Model>, StoreError> {
        let added: Vec<PathBuf> = self.store.read(|t| model::list(t))?;
        Ok(self.library.list(&added))
    }

    /// Runs work that may wait for the disk where waiting does no harm.
    pub(crate) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let shared = self.clone();
        match tokio::task::spawn_blocking(move || work(&shared)).await {
            Ok(result) => result,
            Err(error) => Err(Problem {
                code: Code::Internal,
                message: format!("Hearth made a mistake ({error}). What was saved is safe; try again."),
            }),
        }
    }

    /// Shows a message as memory has it, until [`Shared::settle`].
    pub(crate) fn keep_live(&self, message: Message) {
        self.lock_live().insert(message.id, message);
    }

    /// The store knows all of a message now.
    pub(crate) fn settle(&self, message: i64) {
        self.lock_live().remove(&message);
    }

    /// Messages that memory knows better, by id.
    pub(crate) fn live(&self) -> HashMap<i64, Message> {
        self.lock_live().clone()
    }

    /// Whether an answer of a conversation is still being made.
    pub(crate) fn is_answering(&self, conversation: i64) -> bool {
        self.lock_live()
            .values()
            .any(|message| message.conversation == conversation && is_unfinished(message))
    }

    /// Tells everybody how a conversation is now.
    pub(crate) fn emit_conversation(&self, row: &conversation::Conversation) {
        self.emit(Event::ConversationChanged {
            conversation: ConversationSummary::from(row),
            leaf: row.leaf,
        });
    }

    /// Says whether the chat is at work.
    pub(crate) fn set_answering(&self, answering: bool) {
        self.answering
            .send_if_modified(|before| std::mem::replace(before, answering) != answering);
    }

    /// Hears whether the chat is at work.
    pub(crate) fn answering(&self) -> watch::Receiver<bool> {
        self.answering.subscribe()
    }

    /// Shows a run as memory has it, until [`Shared::settle_run`].
    pub(crate) fn keep_run(&self, run: Run) {
        self.lock_runs().insert(run.id, run.clone());
        self.emit(Event::RunChanged { run: Box::new(run) });
    }

    /// The store knows all of a run now.
    pub(crate) fn settle_run(&self, id: i64) {
        self.lock_runs().remove(&id);
    }

    /// A run as memory has it.
    pub(crate) fn live_run(&self, id: i64) -> Option<Run> {
        self.lock_runs().get(&id).cloned()
    }

    /// The run that is under way, if one is.
    pub(crate) fn run_under_way(&self) -> Option<Run> {
        self.lock_runs().values().next().cloned()
    }

    /// Changes a run that is under way, and tells everybody if that made a difference.
    pub(crate) fn change_run(&self, id: i64, change: impl FnOnce(&mut Run)) {
        let mut runs = self.lock_runs();
        let Some(run) = runs.get_mut(&id) else { return };
        let before = run.clone();
        change(run);
        let run = run.clone();
        drop(runs);
        if run != before {
            self.emit(Event::RunChanged { run: Box::new(run) });
        }
    }

    /// Keeps the last step of a run that is under way; that is told by itself.
    pub(crate) fn run_stepped(&self, id: i64, point: RunPoint) {
        if let Some(run) = self.lock_runs().get_mut(&id) {
            run.last = Some(point);
        }
        self.emit(Event::RunPoint { run: id, point });
    }

    fn lock_live(&self) -> MutexGuard<'_, HashMap<i64, Message>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_runs(&self) -> MutexGuard<'_, HashMap<i64, Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn is_unfinished(message: &Message) -> bool {
    message::State::from(&message.state) == message::State::Unfinished
}

/// One row a field, so that an older Hearth leaves alone what it does not know. What cannot be read is as if never set.
fn load_settings(transaction: &Transaction<'_>) -> rusqlite::Result<Settings> {
    let mut settings = Settings::default();
    let Ok(Value::Object(fields)) = serde_json::to_value(&settings) else {
        return Ok(settings);
    };
    for key in fields.keys() {
        let Some(text) = setting::get(transaction, key)? else {
            continue;
        };
        let with = serde_json::from_str::<Value>(&text).and_then(|value| {
            let mut whole = serde_json::to_value(&settings)?;
            whole[key] = value;
            serde_json::from_value(whole)
        });
        match with {
            Ok(with) => settings = with,
            Err(error) => tracing::warn!(key, %error, "a setting cannot be read"),
        }
    }
    Ok(settings)
}

fn save_settings(transaction: &Transaction<'_>, settings: &Settings) -> rusqlite::Result<()> {
    let fields =
        serde_json::to_value(settings).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let Value::Object(fields) = fields else { return Ok(()) };
    for (key, value) in fields {
        setting::set(transaction, &key, &value.to_string())?;
    }
    Ok(())
}
