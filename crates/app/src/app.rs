//! The app: what a window, a server or a test holds.

use crate::{
    chat::{self, Command},
    kept,
    library::{self, probe::ProbeCommand},
    power::{AlwaysOn, Power},
    shared::Shared,
    store::{Store, conversation},
    tune,
    wire::{Code, Event, ModelState, Problem, Settings, Snapshot},
};
use hearth_protocol::WorkerCommand;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// Where an [`App`] finds what it needs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Holds the conversations and the downloaded models; made if it is not there.
    pub data: PathBuf,
    /// Folders that may hold models which came with the app.
    pub bundled: Vec<PathBuf>,
    /// Folders that may hold datasets which came with the app.
    pub samples: Vec<PathBuf>,
    /// Where workers keep packed weights, if they do.
    pub packed: Option<PathBuf>,
    /// Where the facts of models are kept from start to start, if they are.
    pub facts: Option<PathBuf>,
    /// How a worker is started.
    pub worker: WorkerCommand,
    /// How the process is started that reads files which anybody may have made.
    pub probe: ProbeCommand,
    /// The machine's power, which a run saves.
    pub power: Arc<dyn Power>,
    /// How long a run that is under way may take to end its step and make a checkpoint when the app closes.
    pub close_within: Duration,
}

/// See [`Options::close_within`]: longer than most steps, and no longer than a person waits.
const CLOSE_WITHIN: Duration = Duration::from_secs(30);

impl Options {
    /// As the environment has it. The worker is `HEARTH_WORKER`, or the `hearth` beside this executable; `resources` is
    /// where a package keeps its files. Nothing is known of the power.
    pub fn from_environment(resources: Option<&Path>) -> Result<Self, Problem> {
        let data = library::data_folder().ok_or_else(|| Problem {
            code: Code::Store,
            message: "This system has no place for the data of apps. Set HEARTH_DATA to a folder.".to_owned(),
        })?;
        let named = std::env::var_os("HEARTH_WORKER").filter(|path| !path.is_empty());
        let beside = || {
            let executable = std::env::current_exe().unwrap_or_default();
            executable.with_file_name(format!("hearth{}", std::env::consts::EXE_SUFFIX))
        };
        let worker = WorkerCommand::new(named.map_or_else(beside, PathBuf::from));
        Ok(Self {
            data,
            bundled: library::bundled_folders(resources),
            samples: library::sample_folders(resources),
            packed: library::packed_folder(),
            facts: library::facts_file(),
            probe: (&worker).into(),
            worker,
            power: Arc::new(AlwaysOn),
            close_within: CLOSE_WITHIN,
        })
    }
}

/// All that a person can do, one method each; cheap to clone. The last clone that goes ends the worker.
#[derive(Clone)]
pub struct App {
    pub(crate) shared: Arc<Shared>,
    pub(crate) chat: mpsc::UnboundedSender<Command>,
    pub(crate) tune: mpsc::UnboundedSender<tune::Command>,
}

impl App {
    /// Opens the store and starts the chat. What was deleted before is removed for good. `sink` hears every event in order, from any thread, and must not block.
    /// Call it inside a tokio runtime with time and IO. No worker is started before it is needed.
    pub fn open(options: Options, sink: impl Fn(Event) + Send + Sync + 'static) -> Result<Self, Problem> {
        let store = Store::open(&options.data)?;
        let shared = Arc::new(Shared::new(store, options, Box::new(sink))?);
        if let Err(problem) = tune::purge(&shared, i64::MAX) {
            tracing::warn!(%problem, "what was deleted could not be removed");
        }
        if let Err(problem) = kept::sweep(&shared) {
            tracing::warn!(%problem, "what was kept of deleted conversations could not be removed");
        }
        back_up_daily(&shared);
        let chat = chat::start(shared.clone());
        let tune = tune::start(shared.clone());
        Ok(Self { shared, chat, tune })
    }

    /// All that a window needs to begin.
    pub async fn snapshot(&self) -> Result<Snapshot, Problem> {
        let model_state = self.model_state().await?;
        self.shared
            .blocking(|shared| {
                let rows = shared.store.read(|t| conversation::list(t))?;
                let models = shared.models()?;
                Ok(Snapshot {
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                    settings: shared.settings(),
                    conversations: rows.iter().map(Into::into).collect(),
                    default_model: shared.library.default(&models).map(|model| model.id.clone()),
                    models: models.iter().map(Into::into).collect(),
                    model_state,
                })
            })
            .await
    }

    /// Keeps what a person chose. A loaded model is loaded anew where that changes it. The last model is only ever set by
    /// loading one: a window that did not hear of that yet does not undo it.
    pub async fn set_settings(&self, settings: Settings) -> Result<(), Problem> {
        if settings.threads == Some(0) || settings.context.is_some_and(|tokens| tokens < 128) {
            let message = "At least 1 thread and 128 tokens of context are needed.".to_owned();
            return Err(Problem {
                code: Code::BadRequest,
                message,
            });
        }
        self.shared
            .blocking(move |shared| {
                shared.set_settings(settings)?;
                kept::trim(shared);
                Ok(())
            })
            .await?;
        self.tell(Command::Reconsider)
    }

    /// What is loaded.
    pub async fn model_state(&self) -> Result<ModelState, Problem> {
        self.ask(Command::State).await
    }

    /// Stops every answer, keeps what was said and learnt, and ends the workers. A run ends its step and makes a checkpoint, for which
    /// it has [`Options::close_within`], and can be resumed. The app can still be used.
    pub async fn shut_down(&self) -> Result<(), Problem> {
        let (chat, tune) = tokio::join!(self.ask(Command::ShutDown), self.ask_tune(tune::Command::ShutDown));
        self.shared.save_before_closing().await;
        chat.and(tune)
    }

    /// Whether a run of fine-tuning is under way, whose step [`App::shut_down`] waits for.
    pub fn is_training(&self) -> bool {
        self.shared.run_under_way().is_some()
    }

    /// The store, for whoever looks after it.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    pub(crate) fn tell(&self, command: Command) -> Result<(), Problem> {
        self.chat.send(command).map_err(|_| gone())
    }

    pub(crate) async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, Problem> {
        let (reply, answer) = oneshot::channel();
        self.tell(command(reply))?;
        answer.await.map_err(|_| gone())
    }

    pub(crate) fn tell_tune(&self, command: tune::Command) -> Result<(), Problem> {
        self.tune.send(command).map_err(|_| gone())
    }

    pub(crate) async fn ask_tune<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> tune::Command,
    ) -> Result<T, Problem> {
        let (reply, answer) = oneshot::channel();
        self.tell_tune(command(reply))?;
        answer.await.map_err(|_| gone())
    }
}

/// The tasks end only with the runtime.
fn gone() -> Problem {
    Problem {
        code: Code::Internal,
        message: "Hearth is closing. Start it again.".to_owned(),
    }
}

/// How often it is asked whether the last copy of the store is a day old.
const BACKUP_ASKED_EVERY: Duration = Duration::from_secs(60 * 60);

/// Copies the store once a day for as long as the app is there, beside whatever else goes on.
fn back_up_daily(shared: &Arc<Shared>) {
    let shared = Arc::downgrade(shared);
    tokio::spawn(async move {
        let mut hours = tokio::time::interval(BACKUP_ASKED_EVERY);
        loop {
            hours.tick().await;
            let Some(shared) = shared.upgrade() else { return };
            let copied = shared.blocking(|shared| Ok(shared.store.back_up_daily()?)).await;
            if let Err(problem) = copied {
                tracing::warn!(%problem, "the conversations could not be copied");
            }
        }
    });
}
