//! The chat: one task that owns the worker, its load state and the queue of answers.
//!
//! Every command, worker event and timer changes the state and then calls [`Chat::advance`], which
//! takes the next step towards the requested state. Nothing is polled: without events the task
//! sleeps.

mod answer;
mod device_checks;
mod load_state;
mod measuring;
mod plans;
mod prompt;
mod shutdown;
mod switched_build;
mod target;

pub(crate) use target::Target;

use crate::{
    adapters, model_lookup, prompt_cache,
    shared::Shared,
    store::{conversation, message as rows},
    task::{Connected, Started, at, next_message, started_worker},
    wire::{Code, Device, Event, LeftOut, LoadSettings, Message, MessageState, ModelState, Problem},
};
use answer::Answer;
use device_checks::DeviceChecks;
use hearth_protocol as protocol;
use load_state::LoadState;
use measuring::Measuring;
use plans::Plans;
use protocol::{GenerateRequest, GenerationId, Prompt, Request, Worker, WorkerMessage};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use switched_build::SwitchedBuild;
use tokio::{
    sync::{mpsc, oneshot},
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
    /// Load a model; stops the current answer.
    Load(Box<Target>),
    /// Unload the model; stops the current answer.
    Unload,
    /// Reload the model if its settings have changed.
    ApplySettings,
    /// Get the load state.
    State(oneshot::Sender<ModelState>),
    /// List the devices.
    Devices(oneshot::Sender<Result<Vec<Device>, Problem>>),
    /// Check a device.
    Check {
        device: String,
        reply: device_checks::Reply,
    },
    /// Plan a model's placement.
    Plan {
        model: String,
        load_settings: LoadSettings,
        reply: plans::Reply,
    },
    /// Measure how fast the loaded model is.
    Measure(measuring::Reply),
    /// Cancel the measurement.
    StopMeasuring,
    /// Stop all answers and shut the worker down.
    ShutDown(oneshot::Sender<()>),
}

struct Chat {
    shared: Arc<Shared>,
    worker: Option<Connected>,
    starting: Option<JoinHandle<Started>>,
    loaded: LoadState,
    /// The model to load next.
    requested: Option<Target>,
    waiting: VecDeque<Message>,
    current: Option<Answer>,
    device_requests: Vec<oneshot::Sender<Result<Vec<Device>, Problem>>>,
    /// Whether the request for the devices was sent.
    are_devices_requested: bool,
    plans: Plans,
    checks: DeviceChecks,
    /// The worker's build of Hearth. `None` means the default build.
    switched_build: Option<SwitchedBuild>,
    measuring: Option<Measuring>,
    last_generation: GenerationId,
}

/// Starts the chat task, which ends when the sender is dropped. Needs a tokio runtime.
pub(crate) fn start(shared: Arc<Shared>) -> mpsc::UnboundedSender<Command> {
    let (send, commands) = mpsc::unbounded_channel();
    let chat = Chat {
        shared,
        worker: None,
        starting: None,
        loaded: LoadState::Nothing,
        requested: None,
        waiting: VecDeque::new(),
        current: None,
        device_requests: Vec::new(),
        are_devices_requested: false,
        plans: Plans::default(),
        checks: DeviceChecks::default(),
        switched_build: None,
        measuring: None,
        last_generation: 0,
    };
    tokio::spawn(chat.run(commands));
    send
}

impl Chat {
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        loop {
            let save_at = self.current.as_ref().and_then(|answer| answer.save_at);
            let stop_by = match (&self.current, &self.measuring) {
                (Some(answer), _) => answer.stop_by,
                (None, Some(measuring)) => measuring.stop_by,
                (None, None) => None,
            };
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.handle_command(command).await,
                    None => return self.end().await,
                },
                message = next_message(&mut self.worker) => self.handle_message(message).await,
                started = started_worker(&mut self.starting) => self.started(started).await,
                () = at(save_at) => self.save().await,
                () = at(stop_by) => self.end_unresponsive_worker().await,
            }
            self.advance().await;
            let answering = self.current.is_some() || self.measuring.is_some() || !self.waiting.is_empty();
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
                if let Some((worker, _)) = &self.worker {
                    // An exited worker writes no cache.
                    let _ = worker.send(Request::RemovePromptCache { conversation });
                }
            }
            Command::Load(target) => {
                self.stop_current();
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
            Command::Devices(reply) => self.device_requests.push(reply),
            Command::Check { device, reply } => self.checks.request(device, reply),
            Command::Plan {
                model,
                load_settings,
                reply,
            } => {
                let found = self
                    .shared
                    .blocking(move |shared| model_lookup::readable(shared, &model))
                    .await;
                match found {
                    Ok(model) => self.plans.request(load_settings.plan(model.path), reply),
                    // The receiver may have been dropped.
                    Err(problem) => drop(reply.send(Err(problem))),
                }
            }
            Command::Measure(reply) => self.measure(reply),
            Command::StopMeasuring => self.stop_measuring(),
            Command::ShutDown(done) => {
                self.end().await;
                let _ = done.send(());
            }
        }
    }

    async fn handle_message(&mut self, message: Option<WorkerMessage>) {
        let event = match message {
            Some(WorkerMessage::Event(event)) => event,
            Some(WorkerMessage::Died(problem)) => return self.worker_died(problem.into()).await,
            None => {
                let message = "The worker that runs the model has exited.".to_owned();
                return self
                    .worker_died(Problem {
                        code: Code::WorkerDied,
                        message,
                    })
                    .await;
            }
        };
        match event {
            protocol::Event::LoadProgress { fraction, stage } => {
                if let LoadState::Loading {
                    fraction: f, stage: s, ..
                } = &mut self.loaded
                {
                    (*f, *s) = (fraction, stage);
                    self.shared.emit(Event::ModelState {
                        state: self.loaded.state(),
                    });
                }
            }
            protocol::Event::Loaded(info) => {
                // After a GPU failure in an answer, the worker reloads the model on its own.
                if let LoadState::Loading { target, .. } | LoadState::Ready { target, .. } = &self.loaded {
                    let target = target.clone();
                    self.set(LoadState::Ready {
                        target,
                        info: Box::new(info),
                    });
                }
            }
            protocol::Event::LoadFailed(problem) => self.load_failed(problem.into()).await,
            protocol::Event::SwitchBuild { program } => self.switch_build(program),
            protocol::Event::Checked { device, devices } => {
                let devices = devices.map(|all| all.into_iter().map(Device::from).collect());
                self.checks.complete(&device, &devices.map_err(Problem::from));
            }
            protocol::Event::Devices { devices } => {
                self.are_devices_requested = false;
                for reply in self.device_requests.drain(..) {
                    let _ = reply.send(Ok(devices.iter().cloned().map(Device::from).collect()));
                }
            }
            protocol::Event::Planned { id, plan } => self.plans.complete(id, Ok(plan.into())),
            protocol::Event::PlanFailed { id, problem } => self.plans.complete(id, Err(problem.into())),
            protocol::Event::MeasureProgress { id, fraction } => self.measure_progress(id, fraction),
            protocol::Event::Measured { id, measured } => self.measured(id, Ok(measured)).await,
            protocol::Event::MeasureFailed { id, problem } => self.measured(id, Err(problem.into())).await,
            event => self.handle_generation_event(event).await,
        }
    }

    async fn handle_generation_event(&mut self, event: protocol::Event) {
        use protocol::Event as WorkerEvent;
        let id = match &event {
            WorkerEvent::Started { id, .. } | WorkerEvent::Prefill { id, .. } | WorkerEvent::Text { id, .. } => *id,
            WorkerEvent::Finished { id, .. } | WorkerEvent::GenerationFailed { id, .. } => *id,
            _ => return,
        };
        let Some(mut answer) = self.current.take_if(|answer| answer.generation == id) else {
            return;
        };
        match event {
            WorkerEvent::Started {
                prompt_tokens,
                cached_tokens,
                left_out,
                ..
            } => {
                let left_out = left_out.map(|left| LeftOut {
                    messages: left.messages,
                    tokens: left.tokens,
                });
                answer.started(prompt_tokens, cached_tokens, left_out);
            }
            WorkerEvent::Prefill { done, total, .. } => answer.prefill(done, total),
            WorkerEvent::Text { text, tokens, .. } => answer.text(text, tokens),
            WorkerEvent::Finished { summary, .. } => return answer.finish(summary).await,
            WorkerEvent::GenerationFailed { problem, .. } => return answer.fail(problem.into()).await,
            _ => {}
        }
        self.current = Some(answer);
    }

    async fn started(&mut self, started: Started) {
        match started {
            Ok(worker) => self.worker = Some(worker),
            Err(error) => self.worker_died(protocol::Problem::from(error).into()).await,
        }
    }

    /// Takes the next step towards the requested state.
    async fn advance(&mut self) {
        self.send_pending();
        if self.current.is_some() {
            return;
        }
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
            if matches!(self.loaded, LoadState::Loading { is_sent: true, .. }) {
                // An obsolete load is cancelled fastest by killing the process.
                self.drop_worker();
            }
            self.revert_build(&target);
            self.set(LoadState::Loading {
                target,
                is_sent: false,
                fraction: 0.0,
                stage: "Starting".to_owned(),
            });
            self.send_pending();
        }
        if let LoadState::Ready { target, .. } = &self.loaded
            && let Some(message) = self.waiting.pop_front()
        {
            let target = target.clone();
            self.begin(target, message).await;
        }
    }

    /// Sends the pending requests, and starts a worker for them if there is none.
    fn send_pending(&mut self) {
        let Some((worker, _)) = &self.worker else {
            let loading = matches!(self.loaded, LoadState::Loading { .. });
            let needs_worker =
                loading || !self.device_requests.is_empty() || self.plans.is_pending() || self.checks.is_pending();
            if needs_worker && self.starting.is_none() {
                let command = match &self.switched_build {
                    Some(switched_build) => self.shared.worker.for_build(switched_build.program.clone()),
                    None => self.shared.worker.clone(),
                };
                self.starting = Some(tokio::spawn(async move { Worker::start(&command).await }));
            }
            return;
        };
        // The exit of a worker is reported as a message.
        if !self.device_requests.is_empty() && !self.are_devices_requested {
            self.are_devices_requested = worker.send(Request::Devices).is_ok();
        }
        for device in self.checks.next() {
            let _ = worker.send(Request::Check { device });
        }
        let id = self.last_generation + 1;
        if let Some(plan) = self.plans.next(id) {
            self.last_generation = id;
            let _ = worker.send(Request::Plan { id, plan });
        }
        if let LoadState::Loading {
            target,
            is_sent: is_sent @ false,
            ..
        } = &mut self.loaded
        {
            *is_sent = worker
                .send(Request::Load(
                    target
                        .settings
                        .clone()
                        .load(target.path.clone(), prompt_cache::for_worker(&self.shared)),
                ))
                .is_ok();
        }
    }

    /// Sends a generation request.
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
        let live = self.shared.live();
        for row in &mut branch {
            if let Some(better) = live.get(&row.id) {
                row.content.clone_from(&better.content);
            }
        }
        let system = own.as_deref().or(target.system_prompt.as_deref());
        self.last_generation += 1;
        let request = GenerateRequest {
            id: self.last_generation,
            prompt: Prompt::Chat(prompt::prompt(system, &branch)),
            sampling: target.sampling,
            max_tokens: Some(MAX_ANSWER_TOKENS),
            stop: Vec::new(),
            adapters,
            conversation: Some(conversation),
        };
        if let Some((worker, _)) = &self.worker {
            // The exit of a worker is reported as a message, which fails the answer.
            let _ = worker.send(Request::Generate(request));
        }
        self.current = Some(Answer::new(self.shared.clone(), self.last_generation, message));
    }

    async fn save(&mut self) {
        if let Some(answer) = &mut self.current
            && !answer.save().await
        {
            // It cannot be saved, so continuing is useless.
            self.stop_current();
        }
    }

    /// Reloads the model, loaded or loading, if the settings for it have changed.
    async fn apply_settings(&mut self) {
        if let Some((worker, _)) = &self.worker {
            // The limit needs no reload. An exited worker writes no cache.
            let max_bytes = self.shared.settings().prompt_cache_limit;
            let _ = worker.send(Request::SetPromptCacheLimit { max_bytes });
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
        let state = self.loaded.state();
        if state != before {
            self.shared.emit(Event::ModelState { state });
        }
    }
}
