//! [`App`], the interface for a window, a server or a test.

use crate::{
    adapters, archive,
    chat::{self, Command},
    convert, downloads, folders,
    library::{
        Hub,
        hub::{is_endpoint, sweep_headers},
    },
    models,
    options::Options,
    prompt_cache,
    shared::Shared,
    store::{self, Store, conversation},
    tune, unsent,
    wire::{Announced, ModelState, Problem, ProblemCode, Settings, Snapshot},
};
use hearth_protocol::DataReason;
use std::{sync::Arc, time::Duration};
use tokio::sync::{mpsc, oneshot};

/// All actions of the user, one method each. Cheap to clone. Dropping the last clone ends the
/// workers.
#[derive(Clone)]
pub struct App {
    pub(crate) shared: Arc<Shared>,
    pub(crate) chat: mpsc::UnboundedSender<Command>,
    pub(crate) tune: mpsc::UnboundedSender<tune::Command>,
}

impl App {
    /// Completes the restoration of a backup, opens the store, removes the files of deleted runs
    /// and adapters, and starts the chat and fine-tuning tasks.
    ///
    /// `sink` receives every event in order, from any thread, and must not block. Call it inside a
    /// tokio runtime with time and IO. Workers start on demand.
    pub fn open(options: Options, sink: impl Fn(Announced) + Send + Sync + 'static) -> Result<Self, Problem> {
        store::while_closed(&options.data, || archive::complete(&options.data))?;
        let store = Store::open(&options.data)?;
        let shared = Arc::new(Shared::new(store, options, Box::new(sink))?);
        if let Err(problem) = tune::purge(&shared, i64::MAX) {
            tracing::warn!(%problem, "deleted runs and adapters could not be removed");
        }
        prompt_cache::remove_old_folder(&shared.data);
        if let Err(problem) = prompt_cache::sweep(&shared) {
            tracing::warn!(%problem, "the prompt cache of deleted conversations could not be removed");
        }
        back_up_daily(&shared);
        sweep_headers(shared.library.folder());
        tokio::task::spawn_blocking({
            let shared = shared.clone();
            move || {
                adapters::adopt(&shared, None);
                downloads::start(&shared);
            }
        });
        let chat = chat::start(shared.clone());
        let tune = tune::start(shared.clone());
        Ok(Self { shared, chat, tune })
    }

    /// The revision of the last event. What is read afterwards is at least as new as the events up
    /// to it.
    pub async fn revision(&self) -> Result<u64, Problem> {
        Ok(self.shared.announcer.revision())
    }

    /// The initial state of a window.
    pub async fn snapshot(&self) -> Result<Snapshot, Problem> {
        let model_state = self.model_state().await?;
        let live_models = self.request_chat(Command::LiveModels).await?;
        self.shared
            .blocking(|shared| {
                let (rows, unsent) = shared
                    .store
                    .read(|t| Ok((conversation::list(t)?, unsent::read(t, None)?)))?;
                let models = shared.models()?;
                Ok(Snapshot {
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                    settings: shared.settings(),
                    conversations: rows.iter().map(Into::into).collect(),
                    default_model: shared.library.default(&models).map(|model| model.id.clone()),
                    models: convert::models(&models),
                    folders: folders::list(shared)?,
                    model_state,
                    live_models,
                    default_hub: Hub::address(None),
                    unsent,
                    answering: shared.unfinished(),
                })
            })
            .await
    }

    /// Saves the settings, except [`Settings::last_model`]. A loaded model is reloaded if its load
    /// settings change; answers in progress are completed by the old one.
    pub async fn set_settings(&self, settings: Settings) -> Result<(), Problem> {
        if let Some(reason) = settings.mistake() {
            return Err(Problem::new(ProblemCode::BadRequest, reason));
        }
        settings.check_sampling()?;
        if settings.hub_endpoint.as_deref().is_some_and(|url| !is_endpoint(url)) {
            return Err(Problem::new(ProblemCode::BadRequest, DataReason::MirrorAddress));
        }
        self.shared
            .blocking(move |shared| {
                let places = (settings.model_folders.clone(), settings.list_other_programs);
                let previous = shared.change_settings(|previous| Settings {
                    // The caller's value may be older than the last load.
                    last_model: previous.last_model,
                    ..settings
                })?;
                let has_same_places = (previous.model_folders, previous.list_other_programs) == places;
                prompt_cache::trim(shared);
                if !has_same_places {
                    models::announce(shared)?;
                }
                Ok(())
            })
            .await?;
        if self.shared.settings().offline {
            self.shared.downloads.stop_all();
        }
        self.start_downloads().await?;
        self.send_chat(Command::ApplySettings)
    }

    /// The load state of the selected model.
    pub async fn model_state(&self) -> Result<ModelState, Problem> {
        self.request_chat(Command::State).await
    }

    /// Stops every answer, saves everything and shuts the workers down. The active run completes
    /// its step and writes a checkpoint within [`Options::shutdown_timeout`], and can be resumed.
    /// The app remains usable.
    pub async fn shut_down(&self) -> Result<(), Problem> {
        let (chat, tune) = tokio::join!(
            self.request_chat(Command::ShutDown),
            self.request_tune(tune::Command::ShutDown),
        );
        self.shared.downloads.close();
        self.shared.imports.cancel();
        self.shared.host.shut_down().await;
        self.shared.save_before_closing().await;
        chat.and(tune)
    }

    /// Whether a run is active. [`App::shut_down`] waits for its step.
    pub fn is_training(&self) -> bool {
        self.shared.active_run().is_some()
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    pub(crate) fn send_chat(&self, command: Command) -> Result<(), Problem> {
        self.chat.send(command).map_err(|_| closing())
    }

    pub(crate) async fn request_chat<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, Problem> {
        let (sender, reply) = oneshot::channel();
        self.send_chat(command(sender))?;
        reply.await.map_err(|_| closing())
    }

    pub(crate) fn send_tune(&self, command: tune::Command) -> Result<(), Problem> {
        self.tune.send(command).map_err(|_| closing())
    }

    pub(crate) async fn request_tune<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> tune::Command,
    ) -> Result<T, Problem> {
        let (sender, reply) = oneshot::channel();
        self.send_tune(command(sender))?;
        reply.await.map_err(|_| closing())
    }
}

/// The problem of a closed channel: the tasks end only with the runtime.
fn closing() -> Problem {
    Problem::new(ProblemCode::Internal, DataReason::Closing)
}

/// Interval between checks of the age of the last backup.
const BACKUP_CHECK_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Backs the store up once a day in the background, until the app is dropped.
fn back_up_daily(shared: &Arc<Shared>) {
    let shared = Arc::downgrade(shared);
    tokio::spawn(async move {
        let mut interval = tokio::time::interval(BACKUP_CHECK_INTERVAL);
        loop {
            interval.tick().await;
            let Some(shared) = shared.upgrade() else { return };
            let result = shared.blocking(|shared| Ok(shared.store.back_up_daily()?)).await;
            if let Err(problem) = result {
                tracing::warn!(%problem, "the store could not be backed up");
            }
        }
    });
}
