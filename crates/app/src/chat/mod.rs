//! The chat: one task that owns the worker of the loaded model, its load state, and the answers.
//!
//! Every command, worker event and timer changes the state and then calls [`Chat::advance`], which
//! takes the next step towards the requested state. Nothing is polled: without events the task
//! sleeps. Each answer is a task of its own ([`Answer::follow`]), so that saving one never delays
//! another.

mod answer;
mod load_state;
mod loading;
mod measuring;
mod prompt;
mod shutdown;
mod target;

pub(crate) use target::Target;

use crate::{
    adapters,
    shared::Shared,
    store::{conversation, message as rows},
    task::{Started, died_worker, next_event, started_worker},
    wire::{Code, Event, Message, MessageState, ModelState, Problem},
};
use answer::{Answer, Stop};
use hearth_protocol as protocol;
use load_state::LoadState;
use loading::SwitchedBuild;
use protocol::{GenerateRequest, Prompt, Request, Responses, Worker};
use shutdown::died;
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
};

/// Most tokens of one answer: ends the loop of a small model that repeats itself; a person can ask
/// for more.
const MAX_ANSWER_TOKENS: u32 = 2048;

/// How long a worker may take to shut down.
const WORKER_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// A command to the chat task.
pub(crate) enum Command {
    /// Generate this answer, which is in the store already.
    Answer(Box<Message>),
    /// Stop the answers of a conversation.
    Stop {
        conversation: i64,
        done: oneshot::Sender<()>,
    },
    /// Remove the prompt cache of a conversation.
    RemovePromptCache { conversation: i64 },
    /// Load a model; stops the current answers.
    Load(Box<Target>),
    /// Unload the model; stops the current answers.
    Unload,
    /// Reload the model if its settings have changed.
    ApplySettings,
    /// Get the load state.
    State(oneshot::Sender<ModelState>),
    /// Measure how fast the loaded model is.
    Measure(measuring::Reply),
    /// Cancel the measurement.
    StopMeasuring,
    /// Stop all answers and shut the worker down.
    ShutDown(oneshot::Sender<()>),
}

/// A task of the chat has ended.
enum Ended {
    Answer { id: i64, gpu_failed: bool },
    Measurement,
}

/// An answer in progress.
struct Running {
    conversation: i64,
    stop: watch::Sender<Stop>,
    task: JoinHandle<()>,
}

impl Running {
    /// Whether the worker is done with it, so that it only has to be saved.
    fn has_ended(&self) -> bool {
        self.stop.is_closed()
    }
}

struct Chat {
    shared: Arc<Shared>,
    worker: Option<Worker>,
    starting: Option<JoinHandle<Started>>,
    loaded: LoadState,
    /// The load in progress.
    load: Option<Responses>,
    /// The model to load next.
    requested: Option<Target>,
    waiting: VecDeque<Message>,
    /// By message.
    answers: HashMap<i64, Running>,
    /// Cancels the measurement in progress.
    measuring: Option<watch::Sender<bool>>,
    /// The worker's build of Hearth. `None` means the default build.
    build: Option<SwitchedBuild>,
    ended: mpsc::UnboundedSender<Ended>,
}

/// Starts the chat task, which ends when the sender is dropped. Needs a tokio runtime.
pub(crate) fn start(shared: Arc<Shared>) -> mpsc::UnboundedSender<Command> {
    let (send, commands) = mpsc::unbounded_channel();
    let (ended, ends) = mpsc::unbounded_channel();
    let chat = Chat {
        shared,
        worker: None,
        starting: None,
        loaded: LoadState::Nothing,
        load: None,
        requested: None,
        waiting: VecDeque::new(),
        answers: HashMap::new(),
        measuring: None,
        build: None,
        ended,
    };
    tokio::spawn(chat.run(commands, ends));
    send
}

impl Chat {
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>, mut ends: mpsc::UnboundedReceiver<Ended>) {
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.handle_command(command).await,
                    None => return self.end().await,
                },
                Some(ended) = ends.recv() => self.handle_ended(ended),
                event = next_event(&mut self.load) => self.handle_load_event(event).await,
                started = started_worker(&mut self.starting) => self.started(started).await,
                problem = died_worker(&self.worker) => self.worker_died(problem.into()).await,
            }
            self.advance().await;
            let answering = !self.answers.is_empty() || self.measuring.is_some() || !self.waiting.is_empty();
            self.shared.set_answering(answering);
        }
    }

    async fn handle_command(&mut self, command: Command) {
        match command {
            Command::Answer(message) => self.waiting.push_back(*message),
            Command::Stop { conversation, done } => {
                self.stop(conversation).await;
                // The receiver may have been dropped.
                let _ = done.send(());
            }
            Command::RemovePromptCache { conversation } => {
                if let Some(worker) = &self.worker {
                    // An exited worker writes no cache.
                    drop(worker.request(Request::RemovePromptCache { conversation }));
                }
            }
            Command::Load(target) => {
                self.stop_running();
                // A repeated request retries a failed load.
                if let LoadState::Failed { .. } = self.loaded {
                    self.set(LoadState::Nothing);
                }
                self.requested = Some(*target);
            }
            Command::Unload => {
                self.stop_all().await;
                self.requested = None;
                self.drop_worker();
                self.set(LoadState::Nothing);
            }
            Command::ApplySettings => self.apply_settings().await,
            Command::State(reply) => {
                let _ = reply.send(self.loaded.state());
            }
            Command::Measure(reply) => self.measure(reply),
            Command::StopMeasuring => self.stop_measuring(),
            Command::ShutDown(done) => {
                self.end().await;
                let _ = done.send(());
            }
        }
    }

    fn handle_ended(&mut self, ended: Ended) {
        match ended {
            Ended::Answer { id, gpu_failed } => {
                self.answers.remove(&id);
                if gpu_failed {
                    self.reload_on_cpu();
                }
            }
            // Another one may have begun meanwhile.
            Ended::Measurement => drop(self.measuring.take_if(|measuring| measuring.is_closed())),
        }
    }

    /// Takes the next step towards the requested state.
    async fn advance(&mut self) {
        if self.requested.is_none() && !self.waiting.is_empty() {
            match self.shared.blocking(Target::choose).await {
                Ok(target) => self.requested = Some(target),
                Err(problem) => self.fail_waiting(&problem).await,
            }
        }
        let other = self.requested.clone().filter(|target| !self.loaded.is(target));
        if self.measuring.is_some() {
            if other.is_some() || !self.waiting.is_empty() {
                self.stop_measuring();
            }
            return;
        }
        if let Some(target) = other {
            // Answers in progress are given by the model that is loaded.
            if self.answers.is_empty() {
                self.begin_load(target);
            }
            return;
        }
        while let LoadState::Ready { target, .. } = &self.loaded
            && self.worker.is_some()
            && let Some(message) = self.waiting.pop_front()
        {
            let target = target.clone();
            self.begin(target, message).await;
        }
    }

    /// Starts a measurement, or replies why it cannot start.
    fn measure(&mut self, reply: measuring::Reply) {
        let (code, message) = match (&self.loaded, &self.worker) {
            _ if self.measuring.as_ref().is_some_and(|measuring| !measuring.is_closed()) => {
                (Code::Busy, "A measurement is already running. Wait until it is done.")
            }
            _ if !self.answers.values().all(Running::has_ended) || !self.waiting.is_empty() => (
                Code::Busy,
                "An answer is being generated, which would distort the measurement. Stop it, or wait until it is done.",
            ),
            (LoadState::Ready { target, info }, Some(worker))
                if self.requested.as_ref().is_none_or(|requested| requested == target) =>
            {
                let row = measuring::row(&target.id, &target.name, info);
                let events = worker.request(Request::Measure);
                let (cancel, cancelled) = watch::channel(false);
                let (shared, ended) = (self.shared.clone(), self.ended.clone());
                tokio::spawn(async move {
                    measuring::measure(shared, row, events, cancelled, reply).await;
                    // The receiver ends with the runtime.
                    let _ = ended.send(Ended::Measurement);
                });
                self.measuring = Some(cancel);
                return;
            }
            _ => (Code::NoModel, "No model is loaded. Load one, then measure it."),
        };
        // The receiver may have been dropped.
        let _ = reply.send(Err(Problem {
            code,
            message: message.to_owned(),
        }));
    }

    /// Cancels the measurement.
    fn stop_measuring(&self) {
        if let Some(cancel) = &self.measuring {
            cancel.send_replace(true);
        }
    }

    /// Begins an answer.
    async fn begin(&mut self, target: Target, mut message: Message) {
        message.model = Some(target.name.clone());
        let (conversation, parent) = (message.conversation, message.parent);
        let (model, used) = (target.id.clone(), message.adapters.clone());
        let read = self.shared.blocking(move |shared| {
            let adapters = adapters::for_worker(shared, &model, &used)?;
            let row = shared.store.read(|t| {
                let own = conversation::get(t, conversation)?.and_then(|row| row.system_prompt);
                let branch = parent
                    .map(|parent| rows::branch(t, parent))
                    .transpose()?
                    .unwrap_or_default();
                Ok((own, branch))
            })?;
            Ok((row, adapters))
        });
        let ((own, mut branch), adapters) = match read.await {
            Ok(read) => read,
            Err(problem) => {
                message.state = MessageState::Failed { problem };
                return answer::end(&self.shared, message).await;
            }
        };
        // Messages that a full disk kept out of the store are part of the conversation, too.
        self.shared.complete(&mut branch);
        let system = own.as_deref().or(target.system_prompt.as_deref());
        let request = GenerateRequest {
            prompt: Prompt::Chat(prompt::prompt(system, &branch)),
            sampling: target.sampling,
            max_tokens: Some(MAX_ANSWER_TOKENS),
            stop: Vec::new(),
            adapters,
            conversation: Some(conversation),
        };
        let Some(worker) = self.worker.clone() else {
            // It has just exited: another one answers.
            return self.waiting.push_front(message);
        };
        let events = worker.request(Request::Generate(request));
        let (stop, stopped) = watch::channel(Stop::No);
        let (id, ended) = (message.id, self.ended.clone());
        let answer = Answer::new(self.shared.clone(), message);
        let task = tokio::spawn(async move {
            let gpu_failed = answer.follow(worker, events, stopped).await;
            // The receiver ends with the runtime.
            let _ = ended.send(Ended::Answer { id, gpu_failed });
        });
        self.answers.insert(
            id,
            Running {
                conversation,
                stop,
                task,
            },
        );
    }

    /// Reloads the model, loaded or loading, if the settings for it have changed.
    async fn apply_settings(&mut self) {
        if let Some(worker) = &self.worker {
            // The limit needs no reload. An exited worker writes no cache.
            let max_bytes = self.shared.settings().prompt_cache_limit;
            drop(worker.request(Request::SetPromptCacheLimit { max_bytes }));
        }
        let (LoadState::Ready { target, .. } | LoadState::Loading { target, .. }) = &self.loaded else {
            return;
        };
        let id = target.id.clone();
        let again = self.shared.blocking(move |shared| {
            let models = shared.models()?;
            models
                .iter()
                .find(|model| model.id == id)
                .map(|model| Target::new(model, shared))
                .transpose()
        });
        // A model whose file is gone stays loaded.
        if let Ok(Some(target)) = again.await {
            self.requested = Some(target);
        }
    }

    fn set(&mut self, loaded: LoadState) {
        let before = self.loaded.state();
        self.loaded = loaded;
        self.shared.set_loaded_memory(self.loaded.memory());
        let state = self.loaded.state();
        if state != before {
            self.shared.emit(Event::ModelState { state });
        }
    }
}
