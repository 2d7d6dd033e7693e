//! One instance of a model in the pool: from the request to load it until its worker has exited.

use super::{
    Inner, SHUTDOWN_LIMIT,
    ledger::{InstanceId, Kind},
    model::{Entry, LoadError, ModelStatus, unloaded},
};
use crate::{Event, LoadRequest, ModelInfo, Notice, Plan, Problem, Request, Stage, Worker};
use std::{
    future::pending,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{sync::watch, time::sleep_until};

/// The device of a load after a GPU has failed.
const CPU: &str = "cpu";

/// One instance of a model.
#[derive(Debug)]
pub(super) struct Instance {
    pub id: InstanceId,
    phase: watch::Sender<Phase>,
    /// Whether its end was requested.
    end: watch::Sender<bool>,
    worker: Mutex<Option<Worker>>,
}

/// The phase of an instance.
#[derive(Debug, Clone)]
enum Phase {
    Loading,
    Ready(Arc<ModelInfo>),
    Exited(Exit),
}

/// The outcome of an instance.
#[derive(Debug, Clone)]
enum Exit {
    Unloaded,
    Failed(Problem),
    Died(Problem),
}

impl Instance {
    /// Begins an instance, in a separate task.
    pub fn begin(entry: &Arc<Entry>) -> Arc<Self> {
        let host = entry.host.upgrade();
        let id = host.as_ref().map_or(0, |host| host.ledger.open(Kind::Model));
        let instance = Arc::new(Self {
            id,
            phase: watch::Sender::new(Phase::Loading),
            end: watch::Sender::new(false),
            worker: Mutex::default(),
        });
        entry.show_progress(0.0, Stage::Starting);
        tokio::spawn(Arc::clone(&instance).run(Arc::clone(entry)));
        instance
    }

    /// Whether the model is loaded.
    pub fn is_ready(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Ready(_))
    }

    /// Whether a new user can wait for it: it neither ends nor has its worker died.
    pub fn can_be_joined(&self) -> bool {
        let has_exited = matches!(*self.phase.borrow(), Phase::Exited(_));
        !has_exited && !*self.end.borrow() && self.worker().is_none_or(|worker| worker.is_alive())
    }

    /// The worker, once it is started.
    pub fn worker(&self) -> Option<Worker> {
        self.worker.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Requests its end. It ends soon after.
    pub fn request_exit(&self) {
        self.end.send_replace(true);
    }

    /// Waits until the model is loaded.
    pub async fn ready(&self) -> Result<(Worker, Arc<ModelInfo>), LoadError> {
        let mut phase = self.phase.subscribe();
        loop {
            match phase.borrow_and_update().clone() {
                Phase::Loading => {}
                // A failed GPU makes it load again.
                Phase::Ready(info) => {
                    if let Some(worker) = self.worker().filter(|worker| !worker.has_failed_gpu()) {
                        return Ok((worker, info));
                    }
                }
                Phase::Exited(Exit::Unloaded) => return Err(LoadError::Failed(unloaded())),
                Phase::Exited(Exit::Failed(problem)) => return Err(LoadError::Failed(problem)),
                Phase::Exited(Exit::Died(problem)) => return Err(LoadError::Died(problem)),
            }
            if phase.changed().await.is_err() {
                return Err(LoadError::Failed(unloaded()));
            }
        }
    }

    /// Waits until its worker has exited.
    pub async fn exited(&self) {
        let mut phase = self.phase.subscribe();
        // An error means that it is gone altogether.
        let _ = phase.wait_for(|phase| matches!(phase, Phase::Exited(_))).await;
    }

    async fn run(self: Arc<Self>, entry: Arc<Entry>) {
        let mut end = self.end.subscribe();
        let exit = tokio::select! {
            biased;
            _ = end.wait_for(|end| *end) => Exit::Unloaded,
            exit = self.run_worker(&entry) => exit,
        };
        let was_ready = self.is_ready();
        // From here on new users wait for the end.
        self.request_exit();
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(worker) = worker {
            if was_ready {
                worker.shut_down(SHUTDOWN_LIMIT).await
            } else {
                // An obsolete load is cancelled fastest by killing the process.
                worker.kill()
            }
        }
        if let Some(host) = entry.host.upgrade() {
            host.ledger.close(self.id);
        }
        let failed = |problem: &Problem, has_died| ModelStatus::Failed {
            problem: problem.clone(),
            has_died,
        };
        entry.ended(match &exit {
            Exit::Unloaded => ModelStatus::Unloaded,
            Exit::Failed(problem) => failed(problem, false),
            Exit::Died(problem) if was_ready => ModelStatus::Died(problem.clone()),
            Exit::Died(problem) => failed(problem, true),
        });
        self.phase.send_replace(Phase::Exited(exit));
        if let Some(host) = entry.host.upgrade() {
            host.memory_freed.send_replace(());
        }
    }

    /// Loads the model and keeps it until it should end, or its worker does.
    async fn run_worker(&self, entry: &Arc<Entry>) -> Exit {
        let Some(host) = entry.host.upgrade() else {
            return Exit::Unloaded;
        };
        let (turn, plan) = match host.admit(entry).await {
            Ok(admitted) => admitted,
            Err(problem) => return Exit::Failed(problem),
        };
        let devices = plan.as_ref().map(|plan| plan.devices.clone()).unwrap_or_default();
        host.ledger.reserve(self.id, devices);
        let command = host
            .options
            .worker
            .for_build(plan.as_ref().and_then(|plan| plan.program.clone()));
        let worker = match Worker::start(&command).await {
            Ok(worker) => worker,
            Err(error) => return Exit::Failed(error.into()),
        };
        host.ledger.started(self.id, worker.process_id());
        *self.worker.lock().unwrap_or_else(PoisonError::into_inner) = Some(worker.clone());
        if let Err(exit) = self.load(entry, &worker, planned(&entry.request, plan), &host).await {
            return exit;
        }
        drop(turn);
        let idle_unload = host.options.idle_unload;
        // The worker ends with the host's last clone.
        drop(host);
        loop {
            let idle = async {
                match (entry.idle(), idle_unload) {
                    (Some(_), _) if entry.is_stale() => {}
                    (Some((_, used)), Some(limit)) => sleep_until(used + limit).await,
                    _ => pending().await,
                }
            };
            tokio::select! {
                problem = worker.died() => return Exit::Died(problem),
                () = worker.gpu_failed() => {
                    if let Err(exit) = self.reload_on_cpu(entry, &worker).await {
                        return exit;
                    }
                }
                () = idle => {
                    if entry.exit_if_idle().is_some() {
                        return Exit::Unloaded;
                    }
                }
                () = entry.released.notified() => {}
            }
        }
    }

    async fn load(&self, entry: &Entry, worker: &Worker, request: LoadRequest, host: &Inner) -> Result<(), Exit> {
        let info = self.request_load(entry, worker, request).await?;
        host.ledger.reserve(self.id, info.placement.clone());
        host.ledger.allocated(self.id);
        self.loaded(entry, info);
        Ok(())
    }

    /// Reloads the model on the CPU after its GPU has failed.
    async fn reload_on_cpu(&self, entry: &Entry, worker: &Worker) -> Result<(), Exit> {
        self.phase.send_replace(Phase::Loading);
        entry.show_progress(0.0, Stage::LoadingOnCpu);
        let request = LoadRequest {
            device: Some(CPU.to_owned()),
            ..entry.request.clone()
        };
        let mut info = self.request_load(entry, worker, request).await?;
        info.notices.push(Notice::GpuFailed);
        if let Some(host) = entry.host.upgrade() {
            host.ledger.reserve(self.id, info.placement.clone());
        }
        // All answers that it failed have ended: they arrive before the load does.
        worker.clear_gpu_failure();
        self.loaded(entry, info);
        Ok(())
    }

    async fn request_load(&self, entry: &Entry, worker: &Worker, request: LoadRequest) -> Result<ModelInfo, Exit> {
        let mut events = worker.request(Request::Load(request));
        loop {
            match events.next().await {
                Some(Event::Progress { fraction, stage }) => entry.show_progress(fraction, stage),
                Some(Event::Loaded(info)) => return Ok(info),
                Some(Event::Failed(problem)) => {
                    return Err(if worker.is_alive() {
                        Exit::Failed(problem)
                    } else {
                        Exit::Died(problem)
                    });
                }
                Some(_) => {}
                None => return Err(Exit::Failed(super::unexpected())),
            }
        }
    }

    fn loaded(&self, entry: &Entry, info: ModelInfo) {
        let info = Arc::new(info);
        entry.status.send_replace(ModelStatus::Ready(Arc::clone(&info)));
        self.phase.send_replace(Phase::Ready(info));
    }
}

impl Entry {
    /// Shows the progress of a load.
    pub fn show_progress(&self, fraction: f32, stage: Stage) {
        self.status.send_replace(ModelStatus::Loading { fraction, stage });
    }
}

/// The request for the worker that a plan chose.
fn planned(request: &LoadRequest, plan: Option<Plan>) -> LoadRequest {
    let device = plan.map(|plan| plan.device).filter(|device| !device.is_empty());
    LoadRequest {
        device: device.or_else(|| request.device.clone()),
        ..request.clone()
    }
}
