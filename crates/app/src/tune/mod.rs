//! Fine-tuning: one task that owns the worker of the run that is under way, and gives way to whatever is more urgent.
//!
//! A run has a worker of its own, which ends with it. As in the chat, whatever happens changes the state and ends in
//! [`Tune::advance`]. A run is held while a person wants that, while the battery is low, and while the chat is at work; it
//! goes on a moment after the chat is done, so that it does not start and stop between two answers.

mod current;
mod errand;
mod purge;

pub(crate) use errand::{ERRAND, Errands, export, inspect, no_answer};
pub(crate) use purge::{UNDO_FOR, last_folder, purge, removed, runs_folder};

use crate::{
    power::Supply,
    saving::CLOSING_AGAIN,
    shared::Shared,
    task::{Connected, Started, at, heard, joined},
    wire::{Code, Event, PauseReason, Problem, RunState},
};
use current::Current;
use hearth_protocol as protocol;
use protocol::{Request, Said, TrainRequest, TrainingRequest, Worker};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

/// The chat must have been at rest for this long before a run goes on.
const QUIET: Duration = Duration::from_secs(2);

/// How often the battery is looked at.
const LOOK_AT_POWER: Duration = Duration::from_secs(30);

/// A battery with less than this left is low.
const LOW: f32 = 0.2;

/// A worker that is told to end has this long.
const END_WITHIN: Duration = Duration::from_secs(2);

/// What the fine-tuning is told to do.
pub(crate) enum Command {
    /// Make a run, which is shown as being prepared already.
    Start(Box<TrainRequest>),
    /// Hold a run.
    Pause {
        run: i64,
        done: oneshot::Sender<Result<(), Problem>>,
    },
    /// Go on with a run that is held, whatever the battery says.
    Resume {
        run: i64,
        done: oneshot::Sender<Result<(), Problem>>,
    },
    /// End a run and keep what was learnt; asked for again, end it at once.
    Stop { run: i64, done: oneshot::Sender<()> },
    /// End a run at once, if it is under way.
    End { run: i64, done: oneshot::Sender<()> },
    /// Save what was heard so far.
    Save(oneshot::Sender<()>),
    /// End everything.
    ShutDown(oneshot::Sender<()>),
}

struct Tune {
    shared: Arc<Shared>,
    current: Option<Current>,
    worker: Option<Connected>,
    starting: Option<JoinHandle<Started>>,
    answering: watch::Receiver<bool>,
    /// Whether the chat is at work, or was just now.
    chat: bool,
    /// When it will have been at rest for long enough.
    quiet_at: Option<Instant>,
    supply: Supply,
    /// When the power is looked at next; none: no run is under way.
    look_at: Option<Instant>,
    awake: bool,
}

/// Starts the fine-tuning; it ends when the sender is dropped. Needs a tokio runtime.
pub(crate) fn start(shared: Arc<Shared>) -> mpsc::UnboundedSender<Command> {
    let (send, commands) = mpsc::unbounded_channel();
    let tune = Tune {
        answering: shared.answering(),
        shared,
        current: None,
        worker: None,
        starting: None,
        chat: false,
        quiet_at: None,
        supply: Supply::Mains,
        look_at: None,
        awake: false,
    };
    tokio::spawn(tune.run(commands));
    send
}

impl Tune {
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        loop {
            let save_at = self.current.as_ref().and_then(|current| current.save_at);
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.obey(command).await,
                    None => return self.end_all().await,
                },
                said = heard(&mut self.worker) => self.hear(said).await,
                started = joined(&mut self.starting) => self.started(started).await,
                Ok(()) = self.answering.changed() => self.heed_chat(),
                () = at(self.quiet_at) => {
                    self.quiet_at = None;
                    self.chat = false;
                }
                () = at(self.look_at) => self.look_at_power().await,
                () = at(save_at) => self.save().await,
            }
            self.advance().await;
        }
    }

    async fn obey(&mut self, command: Command) {
        // Whoever asked may have gone.
        match command {
            Command::Start(request) => {
                self.current = Some(Current::new(self.shared.clone(), *request));
                self.look_at_power().await;
            }
            Command::Pause { run, done } => {
                let _ = done.send(self.under_way(run).map(|current| current.paused_by_person = true));
            }
            Command::Resume { run, done } => {
                let _ = done.send(self.under_way(run).map(|current| {
                    current.paused_by_person = false;
                    current.spare_battery = false;
                }));
            }
            Command::Stop { run, done } => {
                self.stop(run).await;
                let _ = done.send(());
            }
            Command::End { run, done } => {
                if self.under_way(run).is_ok() {
                    self.end(RunState::Interrupted { problem: ended() }).await;
                }
                let _ = done.send(());
            }
            Command::Save(done) => {
                self.save().await;
                let _ = done.send(());
            }
            Command::ShutDown(done) => {
                self.end_all().await;
                let _ = done.send(());
            }
        }
    }

    fn under_way(&mut self, run: i64) -> Result<&mut Current, Problem> {
        let current = self
            .current
            .as_mut()
            .filter(|current| current.id == run && !current.over);
        current.ok_or_else(|| Problem {
            code: Code::BadRequest,
            message: "This run is not under way.".to_owned(),
        })
    }

    async fn stop(&mut self, run: i64) {
        let asked = self.worker.is_some();
        let Ok(current) = self.under_way(run) else { return };
        if !asked {
            // Nothing was learnt yet.
            return self.end(RunState::Stopped).await;
        }
        if std::mem::replace(&mut current.stopping, true) {
            return self.end(RunState::Interrupted { problem: ended() }).await;
        }
        self.ask(TrainingRequest::Stop { id: name(run) });
    }

    async fn hear(&mut self, said: Option<Said>) {
        let Some(current) = &mut self.current else { return };
        let state = match said {
            Some(Said::Event(protocol::Event::Training { id, event })) if id == name(current.id) => current.hear(event),
            Some(Said::Event(protocol::Event::HandOver { program })) => {
                self.worker = None;
                current.handed_over(program)
            }
            Some(Said::Event(_)) => None,
            Some(Said::Died(problem)) => Some(RunState::Interrupted {
                problem: interrupted(problem.into()),
            }),
            None => Some(RunState::Interrupted {
                problem: interrupted(Problem {
                    code: Code::WorkerDied,
                    message: "Hearth's worker is gone.".to_owned(),
                }),
            }),
        };
        if let Some(state) = state {
            current.told(&state);
            self.end(state).await;
        }
    }

    async fn started(&mut self, started: Started) {
        match (started, &mut self.current) {
            (Ok(worker), Some(current)) => {
                if !std::mem::replace(&mut current.asked, true) {
                    let request = current.request.clone();
                    self.worker = Some(worker);
                    self.ask(TrainingRequest::Start(request));
                }
            }
            (Err(error), Some(current)) => {
                let state = RunState::Failed {
                    problem: protocol::Problem::from(error).into(),
                };
                current.told(&state);
                self.end(state).await;
            }
            (_, None) => {}
        }
    }

    /// A worker that is gone says so by itself.
    fn ask(&self, request: TrainingRequest) {
        if let Some((worker, _)) = &self.worker {
            let _ = worker.send(Request::Training(request));
        }
    }

    fn heed_chat(&mut self) {
        let answering = *self.answering.borrow_and_update();
        self.chat |= answering;
        self.quiet_at = (self.chat && !answering).then(|| Instant::now() + QUIET);
    }

    async fn look_at_power(&mut self) {
        let power = self.shared.power.clone();
        let supply = tokio::task::spawn_blocking(move || power.supply()).await;
        self.supply = supply.unwrap_or(Supply::Mains);
        self.look_at = Some(Instant::now() + LOOK_AT_POWER);
        if let (Supply::Mains, Some(current)) = (self.supply, &mut self.current) {
            current.spare_battery = true;
        }
    }

    async fn save(&mut self) {
        if let Some(current) = &mut self.current
            && current.save().await
            && current.over
        {
            self.current = None;
        }
    }

    /// Why the run is to be held now.
    fn reason_to_pause(&self) -> Option<PauseReason> {
        let current = self.current.as_ref()?;
        let low = matches!(self.supply, Supply::Battery { charge } if charge < LOW);
        if current.paused_by_person {
            Some(PauseReason::Person)
        } else if low && current.spare_battery {
            Some(PauseReason::Battery)
        } else {
            self.chat.then_some(PauseReason::Chat)
        }
    }

    /// Takes the next step towards what is wanted.
    async fn advance(&mut self) {
        let why = self.reason_to_pause();
        if let Some(current) = self.current.as_mut().filter(|current| !current.over) {
            if !current.asked && self.starting.is_none() {
                let command = match &current.program {
                    Some(program) => self.shared.worker.handed_over(program.clone()),
                    None => self.shared.worker.clone(),
                };
                self.starting = Some(tokio::spawn(async move { Worker::start(&command).await }));
            }
            current.why = why;
            let (id, hold) = (name(current.id), why.is_some());
            if self.worker.is_some() && std::mem::replace(&mut current.hold, hold) != hold {
                self.ask(match hold {
                    true => TrainingRequest::Pause { id },
                    false => TrainingRequest::Resume { id },
                });
            }
        } else {
            self.look_at = None;
        }
        if let Some(current) = &self.current {
            current.show_why();
        }
        let working = self.worker.is_some() && self.current.as_ref().is_some_and(|current| !current.paused);
        let awake = working && self.supply == Supply::Mains;
        if std::mem::replace(&mut self.awake, awake) != awake {
            let power = self.shared.power.clone();
            // The system may take its time, and nobody waits for it.
            tokio::task::spawn_blocking(move || power.keep_awake(awake));
        }
    }

    /// Ends the run in a state, and its worker.
    async fn end(&mut self, state: RunState) {
        if let Some(starting) = self.starting.take() {
            starting.abort();
        }
        if let Some((worker, said)) = self.worker.take() {
            // Its last words are not wanted, and must not make it wait.
            drop(said);
            tokio::spawn(worker.shut_down(END_WITHIN));
        }
        if let Some(current) = &mut self.current {
            current.end(state);
        }
        self.save().await;
    }

    async fn end_all(&mut self) {
        if self.current.as_ref().is_some_and(|current| !current.over) {
            let state = self.suspend().await;
            self.end(state).await;
        }
        let until = Instant::now() + self.shared.close_within;
        self.save().await;
        while self.current.as_ref().is_some_and(|current| current.held) && Instant::now() < until {
            sleep(CLOSING_AGAIN).await;
            self.save().await;
        }
        self.advance().await;
    }

    /// Has the worker end its step and make a checkpoint, for as long as a person is to wait for that; the state that the run ends in.
    async fn suspend(&mut self) -> RunState {
        let interrupted = RunState::Interrupted { problem: closed() };
        let (Some(current), Some((worker, mut said))) = (&mut self.current, self.worker.take()) else {
            return interrupted;
        };
        let id = name(current.id);
        self.shared.emit(Event::Closing { run: current.id });
        // One that was told to stop ends as it was told. One that is gone reports its death below.
        if !current.stopping {
            let _ = worker.send(Request::Training(TrainingRequest::Suspend { id }));
        }
        let suspended = async {
            loop {
                match said.recv().await {
                    Some(Said::Event(protocol::Event::Training { id: which, event })) if which == id => {
                        if let Some(state) = current.hear(event) {
                            return state;
                        }
                    }
                    // Another build was to begin the run.
                    Some(Said::Event(protocol::Event::HandOver { .. }) | Said::Died(_)) | None => {
                        return interrupted.clone();
                    }
                    Some(Said::Event(_)) => {}
                }
            }
        };
        match timeout(self.shared.close_within, suspended).await {
            Ok(state) => {
                drop(said);
                worker.shut_down(END_WITHIN).await;
                state
            }
            // Dropped, the worker is ended.
            Err(_) => {
                tracing::warn!("the run's step takes too long: it goes on from its last checkpoint");
                interrupted
            }
        }
    }
}

/// The worker's name for a run.
fn name(run: i64) -> protocol::RunId {
    run.unsigned_abs()
}

fn ended() -> Problem {
    Problem {
        code: Code::WorkerDied,
        message: "This run was ended before its worker was done. Resume to go on from its last checkpoint.".to_owned(),
    }
}

/// The app ended under a run.
pub(crate) fn closed() -> Problem {
    Problem {
        code: Code::WorkerDied,
        message: "Hearth was closed while this run was under way. Resume to go on from its last checkpoint.".to_owned(),
    }
}

fn interrupted(mut problem: Problem) -> Problem {
    problem.message += match problem.code {
        Code::OutOfMemory => {
            " Close other programs, then resume to go on from the last checkpoint; if that is not enough, begin a run with a shorter \
             sequence or a smaller batch."
        }
        _ => {
            " Resume to go on from the last checkpoint; if that happens again, choose a shorter sequence or a smaller batch."
        }
    };
    problem
}
