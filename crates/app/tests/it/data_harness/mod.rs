//! An app over a temporary data folder, without models.

use crate::support;
use hearth_app::{
    App, Options,
    store::{
        adapter,
        download::{self, State},
    },
    wire::{Announced, Conversation, Event, ExportLabels, ImportReport, Problem, Settings},
};
use rusqlite::Transaction;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};
use tempfile::TempDir;

/// An app without models, its folder and its events.
pub struct Harness {
    pub app: App,
    pub folder: TempDir,
    pub events: Arc<Mutex<Vec<Event>>>,
}

/// The words of exports in English.
pub fn export_labels() -> ExportLabels {
    let of = str::to_owned;
    ExportLabels {
        language: of("en"),
        conversations: of("Conversations"),
        user: of("You"),
        assistant: of("Assistant"),
        system: of("System"),
        system_prompt: of("System prompt"),
        thought: of("Thought"),
        tool_call: of("Tool call"),
        tool_result: of("Tool result"),
        image: of("Image"),
        file: of("File"),
    }
}

/// Opens the data in a folder. `act` gets the app and each event, on the thread that emits it.
pub fn open_acting(data: &Path, act: impl Fn(&App, Event) + Send + Sync + 'static) -> App {
    let itself: Arc<OnceLock<App>> = Arc::default();
    let acting = itself.clone();
    let opened = App::open(support::options(data), move |Announced { event, .. }| {
        if let Some(app) = acting.get() {
            act(app, event);
        }
    });
    itself.get_or_init(|| opened.expect("an app")).clone()
}

impl Harness {
    pub fn new() -> Self {
        Self::open(tempfile::tempdir().expect("a folder"))
    }

    /// Opens the data in a folder.
    pub fn open(folder: TempDir) -> Self {
        Self::try_open(folder).expect("an app")
    }

    pub fn try_open(folder: TempDir) -> Result<Self, Problem> {
        let options = support::options(&folder.path().join("data"));
        Self::with(folder, options)
    }

    pub fn with(folder: TempDir, options: Options) -> Result<Self, Problem> {
        let events: Arc<Mutex<Vec<Event>>> = Arc::default();
        let sink = events.clone();
        let app = App::open(options, move |Announced { event, .. }| {
            sink.lock().expect("events").push(event)
        })?;
        Ok(Self { app, folder, events })
    }

    /// Ends the app. Returns its folder.
    pub async fn close(self) -> TempDir {
        let Self { app, folder, events } = self;
        app.shut_down().await.expect("an end");
        drop(app);
        // The last clone of the app drops the sink.
        while Arc::strong_count(&events) > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        folder
    }

    /// Adds an adapter with its files at a path.
    pub fn add_adapter(&self, path: &Path) {
        let new = adapter::New {
            name: "An adapter",
            run: None::<i64>,
            model: "tiny",
            model_name: "A tiny model",
            path: path.to_str().expect("text"),
            created_at: 1,
        };
        self.app.store().write(|t| adapter::add(t, &new)).expect("a row");
    }

    /// Adds a download of each state, the last to this path. Nothing is requested: the app is
    /// offline.
    pub async fn add_downloads(&self, done: &Path) {
        let offline = Settings {
            offline: true,
            ..self.app.snapshot().await.expect("a snapshot").settings
        };
        self.app.set_settings(offline).await.expect("offline");
        let states = [
            State::Queued,
            State::Paused,
            State::Failed(r#"{"code":"download","message":"No."}"#.to_owned()),
            State::Done(done.to_str().expect("text").to_owned()),
        ];
        let add = |t: &Transaction<'_>| {
            for (at, state) in states.iter().enumerate() {
                let id = download::queue(t, &format!("hf.co/o/m{at}"), "a model", at as i64)?;
                download::set_state(t, id, state)?;
            }
            Ok(())
        };
        self.app.store().write(add).expect("rows");
    }

    /// The states of the downloads, oldest first.
    pub fn download_states(&self) -> Vec<State> {
        let mut rows = self.app.store().read(|t| download::list(t)).expect("rows");
        rows.sort_by_key(|row| row.id);
        rows.into_iter().map(|row| row.state).collect()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub async fn import(&self, path: impl Into<PathBuf>) -> Result<ImportReport, Problem> {
        self.app.import_conversations(path.into()).await
    }

    /// Imports a text as a file of this name.
    pub async fn import_text(&self, name: &str, text: impl AsRef<[u8]>) -> Result<ImportReport, Problem> {
        let path = self.path(name);
        fs::write(&path, text).expect("a file");
        self.import(path).await
    }

    pub async fn import_json(&self, value: &Value) -> ImportReport {
        self.import_text("export.json", value.to_string())
            .await
            .expect("an import")
    }

    /// All conversations, newest first.
    pub async fn all(&self) -> Vec<Conversation> {
        let listed = self.app.snapshot().await.expect("a snapshot").conversations;
        let mut all = Vec::new();
        for row in listed {
            all.push(self.app.open_conversation(row.id).await.expect("a conversation"));
        }
        all
    }

    pub async fn only(&self) -> Conversation {
        let mut all = self.all().await;
        assert_eq!(all.len(), 1);
        all.remove(0)
    }
}
