//! A fine-tuning run, in a separate worker.

use super::{
    Inner, SHUTDOWN_LIMIT,
    ledger::{InstanceId, Kind},
    unexpected_answer,
};
use crate::{
    Event, PlanRequest, PlannedDevice, Problem, Request, Responses, RunCommand, TrainRequest, TrainingEvent, Worker,
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::mpsc;

/// An event of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum RunEvent {
    /// The worker's event. [`TrainingEvent::Finished`] and [`TrainingEvent::Suspended`] are the
    /// last of a run.
    Training(TrainingEvent),
    /// The run failed; the last event.
    Failed(Problem),
    /// The worker died; the last event. The run can be resumed from its last checkpoint.
    Interrupted(Problem),
}

/// A fine-tuning run. Dropping it kills its worker.
#[derive(Debug)]
pub struct Run {
    commands: mpsc::UnboundedSender<RunCommand>,
    events: mpsc::UnboundedReceiver<RunEvent>,
    has_started: Arc<AtomicBool>,
}

impl Run {
    pub(super) fn start(host: Arc<Inner>, request: TrainRequest) -> Self {
        let (commands, command_receiver) = mpsc::unbounded_channel();
        let (event_sender, events) = mpsc::unbounded_channel();
        let has_started = Arc::<AtomicBool>::default();
        let task = RunTask {
            reservation: RunReservation {
                id: host.ledger.open(Kind::Run),
                host,
            },
            has_started: Arc::clone(&has_started),
            event_sender,
        };
        tokio::spawn(task.run(request, command_receiver));
        Self {
            commands,
            events,
            has_started,
        }
    }

    /// The next event; `None` after the last. Cancellation safe.
    pub async fn next(&mut self) -> Option<RunEvent> {
        self.events.recv().await
    }

    /// Controls the run. A command to a run that has not started yet waits for its start.
    pub fn control(&self, command: RunCommand) {
        // A run that has ended needs no control.
        let _ = self.commands.send(command);
    }

    /// Whether its worker has the request, so that it may have done steps.
    pub fn has_started(&self) -> bool {
        self.has_started.load(Ordering::Acquire)
    }
}

/// A run's memory in the ledger.
struct RunReservation {
    host: Arc<Inner>,
    id: InstanceId,
}

impl Drop for RunReservation {
    fn drop(&mut self) {
        self.host.ledger.close(self.id);
        self.host.memory_freed.send_replace(());
    }
}

/// A run's task.
struct RunTask {
    reservation: RunReservation,
    has_started: Arc<AtomicBool>,
    event_sender: mpsc::UnboundedSender<RunEvent>,
}

impl RunTask {
    fn send(&self, event: RunEvent) {
        // The receiver may have been dropped, which ends the run.
        let _ = self.event_sender.send(event);
    }

    async fn run(self, request: TrainRequest, commands: mpsc::UnboundedReceiver<RunCommand>) {
        let worker = tokio::select! {
            // The worker is dropped, which kills it.
            () = self.event_sender.closed() => None,
            worker = self.run_worker(&request, commands) => worker,
        };
        if let Some(worker) = worker {
            worker.shut_down(SHUTDOWN_LIMIT).await;
        }
    }

    /// Runs up to the last event. Returns the worker; `None` means that it was not started.
    async fn run_worker(
        &self,
        request: &TrainRequest,
        commands: mpsc::UnboundedReceiver<RunCommand>,
    ) -> Option<Worker> {
        let (worker, request) = match self.start(request).await {
            Ok(start) => start,
            Err(problem) => {
                self.send(RunEvent::Failed(problem));
                return None;
            }
        };
        let events = worker.request(Request::Train(Box::new(request)));
        self.has_started.store(true, Ordering::Release);
        self.forward(&worker, events, commands).await;
        Some(worker)
    }

    /// Plans the run and starts a worker of the planned build. Returns it with its request, which
    /// has the devices of the plan.
    async fn start(&self, request: &TrainRequest) -> Result<(Worker, TrainRequest), Problem> {
        let RunReservation { host, id } = &self.reservation;
        let others: Vec<InstanceId> = host.others(None).iter().map(|other| other.instance).collect();
        let plan_request = PlanRequest {
            path: request.model.clone(),
            context: request.settings.sequence,
            device: request.device.clone(),
            build: request.build.clone(),
            gpu_layers: request.gpu_layers,
            reserved: host.ledger.reservations(others.into_iter()),
            check: true,
            ..PlanRequest::default()
        };
        let mut show_progress = |fraction, stage| {
            self.send(RunEvent::Training(TrainingEvent::Preparing { fraction, stage }));
        };
        let plan = host.planner.choose(plan_request, &mut show_progress).await?;
        let worker = Worker::start(&host.options.worker.for_build(plan.program)).await?;
        host.ledger.set_process(*id, worker.process_id());
        let device = Some(plan.device).filter(|device| !device.is_empty());
        let request = TrainRequest {
            device: device.or_else(|| request.device.clone()),
            ..request.clone()
        };
        Ok((worker, request))
    }

    /// Forwards events and commands, up to the last event.
    async fn forward(&self, worker: &Worker, mut events: Responses, mut commands: mpsc::UnboundedReceiver<RunCommand>) {
        let run = events.id();
        loop {
            let event = tokio::select! {
                Some(command) = commands.recv() => {
                    worker.tell(Request::ControlRun { run, command });
                    continue;
                }
                event = events.next() => event,
            };
            let is_last = event.as_ref().is_none_or(Event::is_last);
            self.send(match event {
                Some(Event::Training { event }) => {
                    self.reserve(&event);
                    RunEvent::Training(event)
                }
                Some(Event::Failed(problem)) if worker.is_alive() => RunEvent::Failed(problem),
                Some(Event::Failed(problem)) => RunEvent::Interrupted(problem),
                Some(event) if !event.is_last() => continue,
                Some(_) | None => RunEvent::Failed(unexpected_answer()),
            });
            if is_last {
                return;
            }
        }
    }

    /// Reserves the memory that the dry run has measured; the GPU memory is allocated by then.
    fn reserve(&self, event: &TrainingEvent) {
        if let TrainingEvent::Planned(plan) = event {
            let RunReservation { host, id } = &self.reservation;
            host.ledger.reserve(
                *id,
                vec![PlannedDevice {
                    id: "cpu".to_owned(),
                    compute: plan.peak_memory,
                    ..PlannedDevice::default()
                }],
            );
            host.ledger.set_allocated(*id);
        }
    }
}
