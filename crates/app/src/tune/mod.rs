//! Fine-tuning: one task that owns the active run and pauses it for more urgent work.
//!
//! A run has its own worker, which belongs to the host and exits at the run's end. Every command
//! and event changes the state and then calls [`Tune::advance`]. A run is paused by the user, by a
//! low battery and while the chat is busy. It resumes a moment after the chat is idle, so that it
//! does not start and stop between two answers.

mod current;
mod purge;

pub(crate) use purge::{UNDO_TIME, max_run_number, purge, runs_folder};

use crate::{
    power::Supply,
    saving::CLOSING_RETRY_INTERVAL,
    shared::Shared,
    task::at,
    wire::{Event, PauseReason, Problem, ProblemCode, RunState, TuneReason},
};
use current::{Current, Stage};
use hearth_protocol::{self as protocol, RunCommand, RunEvent, TrainRequest};
use std::{future::pending, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep, timeout},
};

/// Interval between checks of the battery.
const POWER_CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// A battery below this charge is low.
const LOW_BATTERY: f32 = 0.2;

/// A command to the fine-tuning task.
pub(crate) enum Command {
    /// Starts a run, which the window already shows as preparing.
    Start { run: i64, request: Box<TrainRequest> },
    /// Pauses a run.
    Pause {
        run: i64,
        done: oneshot::Sender<Result<(), Problem>>,
    },
    /// Resumes a paused run, also on a low battery.
    Resume {
        run: i64,
        done: oneshot::Sender<Result<(), Problem>>,
    },
    /// Stops a run after its step and saves its adapter. A second request ends it at once.
    Stop { run: i64, done: oneshot::Sender<()> },
    /// Ends a run at once, if it is active.
    End { run: i64, done: oneshot::Sender<()> },
    /// Saves all points and states up to now.
    Save(oneshot::Sender<()>),
    /// Suspends the run and shuts the worker down.
    ShutDown(oneshot::Sender<()>),
}

struct Tune {
    shared: Arc<Shared>,
    current: Option<Current>,
    /// The active run in its worker.
    run: Option<protocol::Run>,
    /// Id of a run that was ended before its [`Command::Start`] arrived.
    ended_early: Option<i64>,
    answering: watch::Receiver<bool>,
    /// Whether the chat is busy, or was busy within the last [`crate::Options::chat_idle_delay`].
    is_chat_busy: bool,
    /// Time at which the chat has been idle for long enough.
    chat_idle_at: Option<Instant>,
    supply: Supply,
    /// Time of the next power check. `None` means that no run is active.
    check_power_at: Option<Instant>,
    /// Whether the system is kept awake.
    is_kept_awake: bool,
}

/// Starts the fine-tuning task, which ends when the sender is dropped. Needs a tokio runtime.
pub(crate) fn start(shared: Arc<Shared>) -> mpsc::UnboundedSender<Command> {
    let (send, commands) = mpsc::unbounded_channel();
    let tune = Tune {
        answering: shared.answering(),
        shared,
        current: None,
        run: None,
        ended_early: None,
        is_chat_busy: false,
        chat_idle_at: None,
        supply: Supply::Mains,
        check_power_at: None,
        is_kept_awake: false,
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
                    Some(command) => self.handle_command(command).await,
                    None => return self.end_all().await,
                },
                event = next_event(&mut self.run) => self.handle_event(event).await,
                Ok(()) = self.answering.changed() => self.chat_changed(),
                () = at(self.chat_idle_at) => {
                    self.chat_idle_at = None;
                    self.is_chat_busy = false;
                }
                () = at(self.check_power_at) => self.check_power().await,
                () = at(save_at) => self.save().await,
            }
            self.advance().await;
        }
    }

    async fn handle_command(&mut self, command: Command) {
        // Here and below, the receiver of a reply may have been dropped.
        match command {
            Command::Start { run, request } => {
                self.current = Some(Current::new(self.shared.clone(), run, request));
                if self.ended_early.take() == Some(run) {
                    return self.end(RunState::Interrupted { problem: ended() }).await;
                }
                self.check_power().await;
            }
            Command::Pause { run, done } => {
                let _ = done.send(self.active(run).map(|current| current.pause.by_person = true));
            }
            Command::Resume { run, done } => {
                let _ = done.send(self.active(run).map(|current| {
                    current.pause.by_person = false;
                    current.pause.on_low_battery = false;
                }));
            }
            Command::Stop { run, done } => {
                self.stop(run).await;
                let _ = done.send(());
            }
            Command::End { run, done } => {
                if self.active(run).is_ok() {
                    self.end(RunState::Interrupted { problem: ended() }).await;
                } else if self.shared.live_run(run).is_some_and(|run| run.ended_at.is_none()) {
                    self.ended_early = Some(run);
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

    /// The run, if it is active.
    fn active(&mut self, run: i64) -> Result<&mut Current, Problem> {
        let current = self
            .current
            .as_mut()
            .filter(|current| current.id == run && current.stage != Stage::Ended);
        current.ok_or_else(|| Problem::new(ProblemCode::BadRequest, TuneReason::NotActive))
    }

    async fn stop(&mut self, run: i64) {
        let has_started = self.run.as_ref().is_some_and(protocol::Run::has_started);
        let Ok(current) = self.active(run) else { return };
        if !has_started {
            // Without a step there is no adapter to save.
            return self.end(RunState::Stopped).await;
        }
        if std::mem::replace(&mut current.is_stopping, true) {
            return self.end(RunState::Interrupted { problem: ended() }).await;
        }
        self.send(RunCommand::Stop);
    }

    async fn handle_event(&mut self, event: Option<RunEvent>) {
        let Some(current) = &mut self.current else {
            self.run = None;
            return;
        };
        if let Some(state) = current.handle(event) {
            current.notify_ended(&state);
            self.end(state).await;
        }
    }

    /// Sends a command to the run.
    fn send(&self, command: RunCommand) {
        if let Some(run) = &self.run {
            run.control(command);
        }
    }

    fn chat_changed(&mut self) {
        let answering = *self.answering.borrow_and_update();
        self.is_chat_busy |= answering;
        self.chat_idle_at = (self.is_chat_busy && !answering).then(|| Instant::now() + self.shared.chat_idle_delay);
    }

    async fn check_power(&mut self) {
        let power = self.shared.power.clone();
        let supply = tokio::task::spawn_blocking(move || power.supply()).await;
        self.supply = supply.unwrap_or(Supply::Mains);
        self.check_power_at = Some(Instant::now() + POWER_CHECK_INTERVAL);
        if let (Supply::Mains, Some(current)) = (self.supply, &mut self.current) {
            current.pause.on_low_battery = true;
        }
    }

    async fn save(&mut self) {
        if let Some(current) = &mut self.current
            && current.save().await
            && current.stage == Stage::Ended
        {
            self.current = None;
        }
    }

    /// The reason for the run to pause now. `None` means that it should run.
    fn pause_reason(&self) -> Option<PauseReason> {
        let current = self.current.as_ref()?;
        let is_battery_low = matches!(self.supply, Supply::Battery { charge } if charge < LOW_BATTERY);
        if current.pause.by_person {
            Some(PauseReason::Person)
        } else if is_battery_low && current.pause.on_low_battery {
            Some(PauseReason::Battery)
        } else {
            self.is_chat_busy.then_some(PauseReason::Chat)
        }
    }

    /// Starts, pauses or resumes the run so that it reaches the requested state.
    async fn advance(&mut self) {
        let reason = self.pause_reason();
        if let Some(current) = self.current.as_mut().filter(|current| current.stage != Stage::Ended) {
            if current.stage == Stage::Pending {
                current.stage = Stage::Started;
                self.run = Some(self.shared.host.train((*current.request).clone()));
            }
            current.pause.reason = reason;
            let should_pause = reason.is_some();
            if self.run.is_some() && std::mem::replace(&mut current.pause.is_requested, should_pause) != should_pause {
                self.send(if should_pause {
                    RunCommand::Pause
                } else {
                    RunCommand::Resume
                });
            }
        } else {
            self.check_power_at = None;
        }
        if let Some(current) = &self.current {
            current.show_requests();
        }
        let is_working = self.run.is_some() && self.current.as_ref().is_some_and(|current| !current.pause.is_confirmed);
        let keep_awake = is_working && self.supply == Supply::Mains;
        if std::mem::replace(&mut self.is_kept_awake, keep_awake) != keep_awake {
            let power = self.shared.power.clone();
            // The system call may block, and nothing depends on it.
            tokio::task::spawn_blocking(move || power.keep_awake(keep_awake));
        }
    }

    /// Ends the run in a state, kills its worker and saves it.
    async fn end(&mut self, state: RunState) {
        self.run = None;
        if let Some(current) = &mut self.current {
            current.end(state);
        }
        self.save().await;
    }

    /// Suspends the active run and saves it, retrying while the store is locked.
    async fn end_all(&mut self) {
        if self
            .current
            .as_ref()
            .is_some_and(|current| current.stage != Stage::Ended)
        {
            let state = self.suspend().await;
            self.end(state).await;
        }
        let deadline = Instant::now() + self.shared.shutdown_timeout;
        self.save().await;
        while self.current.as_ref().is_some_and(|current| current.is_store_locked) && Instant::now() < deadline {
            sleep(CLOSING_RETRY_INTERVAL).await;
            self.save().await;
        }
        self.advance().await;
    }

    /// Suspends the run: the worker completes its step and writes a checkpoint, within
    /// [`crate::Options::shutdown_timeout`]. Returns the run's final state.
    async fn suspend(&mut self) -> RunState {
        let interrupted = RunState::Interrupted { problem: closed() };
        let (Some(current), Some(mut run)) = (&mut self.current, self.run.take()) else {
            return interrupted;
        };
        self.shared.emit(Event::Closing { run: current.id });
        if !run.has_started() {
            return interrupted;
        }
        // A stopping run ends as stopped. If its worker has exited, the loop below gets `None`.
        if !current.is_stopping {
            run.control(RunCommand::Suspend);
        }
        let suspended = async {
            loop {
                match run.next().await {
                    Some(RunEvent::Interrupted(_)) | None => return interrupted.clone(),
                    event => {
                        if let Some(state) = current.handle(event) {
                            return state;
                        }
                    }
                }
            }
        };
        // Dropping the run kills its worker.
        timeout(self.shared.shutdown_timeout, suspended)
            .await
            .unwrap_or_else(|_| {
                tracing::warn!("the run's step takes too long; it will resume from its last checkpoint");
                interrupted.clone()
            })
    }
}

/// The next event of the run. Never completes without one.
async fn next_event(run: &mut Option<protocol::Run>) -> Option<RunEvent> {
    match run {
        Some(run) => run.next().await,
        None => pending().await,
    }
}

/// The problem of a run that the user ended at once.
fn ended() -> Problem {
    Problem::new(ProblemCode::WorkerDied, TuneReason::Ended)
}

/// The problem of a run that was interrupted because the app closed.
pub(crate) fn closed() -> Problem {
    Problem::new(ProblemCode::WorkerDied, TuneReason::Closed)
}

/// The problem of a run whose worker died, with advice for the user.
fn interrupted(problem: Problem) -> Problem {
    let (code, cause) = (problem.code, Box::new(problem));
    let reason = match code {
        ProblemCode::OutOfMemory => TuneReason::RunOutOfMemory { cause },
        _ => TuneReason::RunInterrupted { cause },
    };
    Problem::new(code, reason)
}
