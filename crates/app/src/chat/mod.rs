//! The chat: one task that owns the worker, what it has loaded, and the answers that wait for it.
//!
//! Whatever happens (a command, something the worker says, a time that has come) changes the state and ends in
//! [`Chat::advance`], which takes the next step towards what is wanted. Nothing is polled: without events the task sleeps.

mod answer;
mod checking;
mod ending;
mod handed;
mod loaded;
mod measuring;
mod plans;
mod prompt;
mod target;

pub(crate) use target::Target;

use crate::{
    adapters, kept, models,
    shared::Shared,
    store::{conversation, message as rows},
    task::{Connected, Started, at, heard, joined},
    wire::{Code, Device, Event, LeftOut, Message, MessageState, ModelState, Problem, WhatIf},
};
use answer::Answer;
use checking::Checks;
use handed::Handed;
use hearth_protocol as protocol;
use loaded::Loaded;
use measuring::Measuring;
use plans::Plans;
use protocol::{GenerateRequest, GenerationId, Prompt, Request, Said, Worker};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

/// The most tokens of one answer: a small model that runs in circles ends here, and a person can ask for more.
const LONGEST_ANSWER: u32 = 2048;

/// A worker that is told to end has this long.
const END_WITHIN: Duration = Duration::from_secs(2);

/// What the chat is told to do.
pub(crate) enum Command {
    /// Answer with this message, which waits already.
    Answer(Box<Message>),
    /// End the answer of a conversation, if one is under way.
    Stop {
        conversation: i64,
        done: oneshot::Sender<()>,
    },
    /// Have the worker remove what it keeps of a conversation.
    Forget { conversation: i64 },
    /// Load a model; an answer that is under way is stopped.
    Load(Box<Target>),
    /// Let the model go; an answer that is under way is stopped.
    Unload,
    /// Load what is loaded again if it would be loaded otherwise now.
    Reconsider,
    /// Say what is loaded.
    State(oneshot::Sender<ModelState>),
    /// Say what devices there are.
    Devices(oneshot::Sender<Result<Vec<Device>, Problem>>),
    /// Check a device.
    Check { device: String, reply: checking::Reply },
    /// Say where a model's bytes would go.
    Plan {
        model: String,
        what_if: WhatIf,
        reply: plans::Reply,
    },
    /// Measure how fast the loaded model is.
    Measure(measuring::Reply),
    /// Stop measuring, if that is under way.
    StopMeasuring,
    /// End everything.
    ShutDown(oneshot::Sender<()>),
}

struct Chat {
    shared: Arc<Shared>,
    worker: Option<Connected>,
    starting: Option<JoinHandle<Started>>,
    loaded: Loaded,
    wanted: Option<Target>,
    waiting: VecDeque<Message>,
    current: Option<Answer>,
    devices_wanted: Vec<oneshot::Sender<Result<Vec<Device>, Problem>>>,
    devices_asked: bool,
    plans: Plans,
    checks: Checks,
    /// The build of Hearth that the worker is of, where it is not the usual one.
    handed: Option<Handed>,
    measuring: Option<Measuring>,
    last_generation: GenerationId,
}

/// Starts the chat; it ends when the sender is dropped. Needs a tokio runtime.
pub(crate) fn start(shared: Arc<Shared>) -> mpsc::UnboundedSender<Command> {
    let (send, commands) = mpsc::unbounded_channel();
    let chat = Chat {
        shared,
        worker: None,
        starting: None,
        loaded: Loaded::Nothing,
        wanted: None,
        waiting: VecDeque::new(),
        current: None,
        devices_wanted: Vec::new(),
        devices_asked: false,
        plans: Plans::default(),
        checks: Checks::default(),
        handed: None,
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
                    Some(command) => self.obey(command).await,
                    None => return self.end().await,
                },
                said = heard(&mut self.worker) => self.hear(said).await,
                started = joined(&mut self.starting) => self.started(started).await,
                () = at(save_at) => self.save().await,
                () = at(stop_by) => self.end_deaf_worker().await,
            }
            self.advance().await;
            let answering = self.current.is_some() || self.measuring.is_some() || !self.waiting.is_empty();
            self.shared.set_answering(answering);
        }
    }

    async fn obey(&mut self, command: Command) {
        match command {
            Command::Answer(message) => self.waiting.push_back(*message),
            Command::Stop { conversation, done } => {
                self.stop(conversation).await;
                // Whoever asked may have gone.
                let _ = done.send(());
            }
            Command::Forget { conversation } => {
                if let Some((worker, _)) = &self.worker {
                    // A worker that is gone keeps no more.
                    let _ = worker.send(Request::Forget { conversation });
                }
            }
            Command::Load(target) => {
                self.stop_current();
                // Asked for again, a model that failed is tried again.
                if let Loaded::Failed { .. } = self.loaded {
                    self.set(Loaded::Nothing);
                }
                self.wanted = Some(*target);
            }
            Command::Unload => {
                self.stop_all().await;
                self.wanted = None;
                self.let_worker_go();
                self.set(Loaded::Nothing);
            }
            Command::Reconsider => self.reconsider().await,
            Command::State(reply) => {
                let _ = reply.send(self.loaded.state());
            }
            Command::Devices(reply) => self.devices_wanted.push(reply),
            Command::Check { device, reply } => self.checks.want(device, reply),
            Command::Plan { model, what_if, reply } => {
                let found = self
                    .shared
                    .blocking(move |shared| models::readable(shared, &model))
                    .await;
                match found {
                    Ok(model) => self.plans.want(what_if.plan(model.path), reply),
                    // Whoever asked may have gone.
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

    async fn hear(&mut self, said: Option<Said>) {
        let event = match said {
            Some(Said::Event(event)) => event,
            Some(Said::Died(problem)) => return self.worker_died(problem.into()).await,
            None => {
                let message = "The worker that runs the model is gone.".to_owned();
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
                if let Loaded::Loading {
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
                // Where a GPU fails in an answer, the worker loads the model again by itself.
                if let Loaded::Loading { target, .. } | Loaded::Ready { target, .. } = &self.loaded {
                    let target = target.clone();
                    self.set(Loaded::Ready {
                        target,
                        info: Box::new(info),
                    });
                }
            }
            protocol::Event::LoadFailed(problem) => self.load_failed(problem.into()).await,
            protocol::Event::HandOver { program } => self.hand_over(program),
            protocol::Event::Checked { device, devices } => {
                let devices = devices.map(|all| all.into_iter().map(Device::from).collect());
                self.checks.answered(&device, &devices.map_err(Problem::from));
            }
            protocol::Event::Devices { devices } => {
                self.devices_asked = false;
                for reply in self.devices_wanted.drain(..) {
                    let _ = reply.send(Ok(devices.iter().cloned().map(Device::from).collect()));
                }
            }
            protocol::Event::Planned { id, plan } => self.plans.answered(id, Ok(plan.into())),
            protocol::Event::PlanFailed { id, problem } => self.plans.answered(id, Err(problem.into())),
            protocol::Event::MeasureProgress { id, fraction } => self.measured_in_part(id, fraction),
            protocol::Event::Measured { id, measured } => self.measured(id, Ok(measured)).await,
            protocol::Event::MeasureFailed { id, problem } => self.measured(id, Err(problem.into())).await,
            event => self.hear_of_answer(event).await,
        }
    }

    async fn hear_of_answer(&mut self, event: protocol::Event) {
        use protocol::Event as Heard;
        let id = match &event {
            Heard::Started { id, .. } | Heard::Prefill { id, .. } | Heard::Text { id, .. } => *id,
            Heard::Finished { id, .. } | Heard::GenerationFailed { id, .. } => *id,
            _ => return,
        };
        let Some(mut answer) = self.current.take_if(|answer| answer.generation == id) else {
            return;
        };
        match event {
            Heard::Started {
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
            Heard::Prefill { done, total, .. } => answer.reading(done, total),
            Heard::Text { text, tokens, .. } => answer.text(text, tokens),
            Heard::Finished { summary, .. } => return answer.finish(summary).await,
            Heard::GenerationFailed { problem, .. } => return answer.fail(problem.into()).await,
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

    /// Takes the next step towards what is wanted.
    async fn advance(&mut self) {
        self.ask();
        if self.current.is_some() {
            return;
        }
        if self.wanted.is_none() && !self.waiting.is_empty() {
            match self.shared.blocking(Target::choose).await {
                Ok(target) => self.wanted = Some(target),
                Err(problem) => self.fail_waiting(&problem).await,
            }
        }
        let other = self.wanted.clone().filter(|target| !self.loaded.is(target));
        if self.measuring.is_some() {
            if other.is_some() || !self.waiting.is_empty() {
                self.stop_measuring();
            }
            return;
        }
        if let Some(target) = other {
            if matches!(self.loaded, Loaded::Loading { asked: true, .. }) {
                // A load that is no longer wanted: ending the process is the quickest way out.
                self.let_worker_go();
            }
            self.take_back(&target);
            self.set(Loaded::Loading {
                target,
                asked: false,
                fraction: 0.0,
                stage: "Starting".to_owned(),
            });
            self.ask();
        }
        if let Loaded::Ready { target, .. } = &self.loaded
            && let Some(message) = self.waiting.pop_front()
        {
            let target = target.clone();
            self.begin(target, message).await;
        }
    }

    /// Asks the worker what it can be asked at any time, and starts one if none is there to be asked.
    fn ask(&mut self) {
        let Some((worker, _)) = &self.worker else {
            let loading = matches!(self.loaded, Loaded::Loading { .. });
            let wanted = loading || !self.devices_wanted.is_empty() || self.plans.wanted() || self.checks.wanted();
            if wanted && self.starting.is_none() {
                let command = match &self.handed {
                    Some(handed) => self.shared.worker.handed_over(handed.program.clone()),
                    None => self.shared.worker.clone(),
                };
                self.starting = Some(tokio::spawn(async move { Worker::start(&command).await }));
            }
            return;
        };
        // A worker that is gone says so by itself.
        if !self.devices_wanted.is_empty() && !self.devices_asked {
            self.devices_asked = worker.send(Request::Devices).is_ok();
        }
        for device in self.checks.next() {
            let _ = worker.send(Request::Check { device });
        }
        let id = self.last_generation + 1;
        if let Some(plan) = self.plans.next(id) {
            self.last_generation = id;
            let _ = worker.send(Request::Plan { id, plan });
        }
        if let Loaded::Loading {
            target,
            asked: asked @ false,
            ..
        } = &mut self.loaded
        {
            *asked = worker
                .send(Request::Load(
                    target
                        .how
                        .clone()
                        .load(target.path.clone(), kept::for_worker(&self.shared)),
                ))
                .is_ok();
        }
    }

    /// Asks the worker for an answer.
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
        // What a full disk kept out of the store is still part of the conversation.
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
            max_tokens: Some(LONGEST_ANSWER),
            stop: Vec::new(),
            adapters,
            conversation: Some(conversation),
        };
        if let Some((worker, _)) = &self.worker {
            // A worker that is gone says so by itself, and the answer fails then.
            let _ = worker.send(Request::Generate(request));
        }
        self.current = Some(Answer::new(self.shared.clone(), self.last_generation, message));
    }

    async fn save(&mut self) {
        if let Some(answer) = &mut self.current
            && !answer.save().await
        {
            // It cannot be kept: no use in going on.
            self.stop_current();
        }
    }

    /// The settings have changed: what is loaded, or on the way, is loaded again as they say now.
    async fn reconsider(&mut self) {
        if let Some((worker, _)) = &self.worker {
            // Not worth loading again for. A worker that is gone keeps no more.
            let most_bytes = self.shared.settings().kept_bytes;
            let _ = worker.send(Request::Keep { most_bytes });
        }
        let (Loaded::Ready { target, .. } | Loaded::Loading { target, .. }) = &self.loaded else {
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
        // A model that is gone stays loaded as it is.
        if let Ok(Some(target)) = again.await {
            self.wanted = Some(target);
        }
    }

    fn set(&mut self, loaded: Loaded) {
        let before = self.loaded.state();
        self.loaded = loaded;
        let state = self.loaded.state();
        if state != before {
            self.shared.emit(Event::ModelState { state });
        }
    }
}
