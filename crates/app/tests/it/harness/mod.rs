//! An app with a temporary folder and a fake worker, driven by a test.

pub mod runs;

use crate::support;
use hearth_app::{
    App, Options,
    wire::{Compared, Conversation, Event, Message, MessageState, ModelState, NewConversation, Problem, Sent},
};
use hearth_protocol::GenerateRequest;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{sync::mpsc, time::timeout};

/// Time limit of every wait for an event, which only a hang exceeds.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The notice of a model or run in another build of the fake worker.
pub const OTHER_BUILD: &str = "Another build of Hearth.";

/// An app with a temporary folder, and its events.
pub struct Harness {
    pub app: App,
    pub events: mpsc::UnboundedReceiver<Event>,
    pub folder: TempDir,
}

impl std::ops::Deref for Harness {
    type Target = App;

    fn deref(&self) -> &App {
        &self.app
    }
}

pub fn options(folder: &TempDir) -> Options {
    Options {
        bundled: vec![folder.path().join("bundled")],
        samples: vec![folder.path().join("samples")],
        packed: Some(folder.path().join("cache/packed")),
        metadata_file: Some(folder.path().join("cache/models.json")),
        worker: support::worker(),
        shutdown_timeout: PATIENCE,
        ..support::options(&folder.path().join("data"))
    }
}

impl Harness {
    /// With these bundled models.
    pub fn new(models: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for model in models {
            support::model(&folder.path().join("bundled"), model);
        }
        Self::open(folder)
    }

    pub fn open(folder: TempDir) -> Self {
        let options = options(&folder);
        Self::with(folder, options)
    }

    pub fn with(folder: TempDir, options: Options) -> Self {
        let (send, events) = mpsc::unbounded_channel();
        let app = App::open(options, move |announced| drop(send.send(announced.event))).expect("an app");
        Self { app, events, folder }
    }

    pub fn tiny() -> Self {
        Self::new(&["tiny.gguf"])
    }

    /// [`Self::tiny`] with other options.
    pub fn tiny_with(change: impl FnOnce(&mut Options)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        support::model(&folder.path().join("bundled"), "tiny.gguf");
        let mut options = options(&folder);
        change(&mut options);
        Self::with(folder, options)
    }

    /// The models `tiny`, named "A tiny model", and `other`, named "Another model".
    pub fn with_two_models() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let bundled = folder.path().join("bundled");
        support::model(&bundled, "tiny.gguf");
        support::named_model(&bundled, "other.gguf", "Another model");
        Self::open(folder)
    }

    /// Restarts the app with the same folder.
    pub async fn again(self) -> Self {
        self.app.shut_down().await.expect("an end");
        let Self {
            app,
            folder,
            mut events,
        } = self;
        drop(app);
        // The last clone of the app drops the sink and the store's lock.
        while timeout(PATIENCE, events.recv()).await.expect("an end").is_some() {}
        Self::open(folder)
    }

    pub async fn next<T>(&mut self, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
        let find = async {
            loop {
                let event = self.events.recv().await.expect("an app that lives");
                if let Some(actual) = wanted(event) {
                    return actual;
                }
            }
        };
        timeout(PATIENCE, find).await.expect("the event that was waited for")
    }

    /// The message once its answer has ended.
    pub async fn ended(&mut self, id: i64) -> Message {
        self.next(|event| match event {
            Event::MessageChanged { message } if message.id == id && !under_way(&message) => Some(*message),
            _ => None,
        })
        .await
    }

    /// The messages once all answers have ended, in any order.
    pub async fn all_ended<const N: usize>(&mut self, ids: [i64; N]) -> [Message; N] {
        let mut ended = [const { None }; N];
        self.next(|event| {
            if let Event::MessageChanged { message } = event
                && !under_way(&message)
                && let Some(at) = ids.iter().position(|id| *id == message.id)
            {
                ended[at] = Some(*message);
            }
            ended.iter().all(Option::is_some).then_some(())
        })
        .await;
        ended.map(|message| message.expect("an answer that has ended"))
    }

    pub async fn streaming(&mut self, id: i64) {
        self.next(|event| matches!(event, Event::MessageDelta { message, .. } if message == id).then_some(()))
            .await;
    }

    pub async fn model_state(&mut self, wanted: impl Fn(&ModelState) -> bool) -> ModelState {
        self.next(|event| match event {
            Event::ModelState { state } if wanted(&state) => Some(state),
            _ => None,
        })
        .await
    }

    pub async fn say(&self, conversation: Option<i64>, text: &str) -> Sent {
        self.app
            .send(
                conversation,
                None,
                text.to_owned(),
                Vec::new(),
                NewConversation::default(),
            )
            .await
            .expect("a message that is taken")
    }

    /// Sends a message in a new conversation and waits for the answer's end.
    pub async fn answer(&mut self, text: &str) -> Message {
        let sent = self.say(None, text).await;
        self.ended(sent.answer.id).await
    }

    /// Sends a message in a new conversation and waits for the answer's end and for another event,
    /// in any order.
    pub async fn answer_and<T: Clone>(&mut self, text: &str, wanted: impl Fn(&Event) -> Option<T>) -> (Message, T) {
        let sent = self.say(None, text).await;
        let (mut answer, mut other) = (None, None);
        self.next(|event| {
            other = other.clone().or_else(|| wanted(&event));
            if let Event::MessageChanged { message } = event
                && message.id == sent.answer.id
                && !under_way(&message)
            {
                answer = Some(*message);
            }
            answer.clone().zip(other.clone())
        })
        .await
    }

    pub async fn conversation(&self, id: i64) -> Conversation {
        self.app.open_conversation(id).await.expect("a conversation")
    }
}

pub fn under_way(message: &Message) -> bool {
    matches!(
        message.state,
        MessageState::Waiting | MessageState::Loading { .. } | MessageState::Prefill { .. } | MessageState::Streaming
    )
}

/// The answers of a comparison.
pub fn ids<const N: usize>(compared: &Compared) -> [i64; N] {
    let ids: Vec<i64> = compared.answers.iter().map(|answer| answer.id).collect();
    ids.try_into().expect("as many answers as ids")
}

/// The worker's request, from an answer to `show`.
pub fn request_of(answer: &Message) -> GenerateRequest {
    serde_json::from_str(&answer.text()).expect("the request, shown")
}

/// The folder of the repository's fixtures.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

pub fn failure(message: &Message) -> &Problem {
    match &message.state {
        MessageState::Failed { problem } => problem,
        state => panic!("not failed: {state:?}"),
    }
}
