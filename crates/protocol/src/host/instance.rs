//! One instance of a model in the pool: from the request to load it until its worker has exited.

use super::{
    Inner, SHUTDOWN_LIMIT,
    ledger::{InstanceId, Kind},
    model::{Entry, LoadError, ModelStatus, model_unloaded},
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
    /// Whether its exit was requested.
    exit_requested: watch::Sender<bool>,
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
    /// Starts an instance, in a separate task.
    pub fn start(entry: &Arc<Entry>) -> Arc<Self> {
        let host = entry.host.upgrade();
        let id = host.as_ref().map_or(0, |host| host.ledger.open(Kind::Model));
        let instance = Arc::new(Self {
            id,
            phase: watch::Sender::new(Phase::Loading),
            exit_requested: watch::Sender::new(false),
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

    /// The worker with the model, if it is loaded now.
    pub fn loaded(&self) -> Option<(Worker, Arc<ModelInfo>)> {
        let Phase::Ready(info) = self.phase.borrow().clone() else {
            return None;
        };
        let worker = self.worker().filter(|worker| !worker.has_failed_gpu())?;
        Some((worker, info))
    }

    /// Whether a new user can wait for it: its exit was not requested, and its worker is alive.
    pub fn can_be_joined(&self) -> bool {
        let has_exited = matches!(*self.phase.borrow(), Phase::Exited(_));
        !has_exited && !*self.exit_requested.borrow() && self.worker().is_none_or(|worker| worker.is_alive())
    }

    /// The worker, once it is started.
    pub fn worker(&self) -> Option<Worker> {
        self.worker.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Requests its exit, which follows soon.
    pub fn request_exit(&self) {
        self.exit_requested.send_replace(true);
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
                Phase::Exited(Exit::Unloaded) => return Err(LoadError::Failed(model_unloaded())),
                Phase::Exited(Exit::Failed(problem)) => return Err(LoadError::Failed(problem)),
                Phase::Exited(Exit::Died(problem)) => return Err(LoadError::Died(problem)),
            }
            if phase.changed().await.is_err() {
                return Err(LoadError::Failed(model_unloaded()));
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
        let mut exit_requested = self.exit_requested.subscribe();
        let exit = tokio::select! {
            biased;
            _ = exit_requested.wait_for(|is_requested| *is_requested) => Exit::Unloaded,
            exit = self.run_worker(&entry) => exit,
        };
        let was_ready = self.is_ready();
        // From here on, new users wait for the exit.
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
        let failed_status = |problem: &Problem, has_died| ModelStatus::Failed {
            problem: problem.clone(),
            has_died,
        };
        entry.remove_instance(match &exit {
            Exit::Unloaded => ModelStatus::Unloaded,
            Exit::Failed(problem) => failed_status(problem, false),
            Exit::Died(problem) if was_ready => ModelStatus::Died(problem.clone()),
            Exit::Died(problem) => failed_status(problem, true),
        });
        self.phase.send_replace(Phase::Exited(exit));
        if let Some(host) = entry.host.upgrade() {
            host.memory_freed.send_replace(());
        }
    }

    /// Loads the model. Returns once the load has failed, the model is unused, or the worker died.
    async fn run_worker(&self, entry: &Arc<Entry>) -> Exit {
        let Some(host) = entry.host.upgrade() else {
            return Exit::Unloaded;
        };
        let (load_guard, plan) = match host.admit(entry).await {
            Ok(admission) => admission,
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
        host.ledger.set_process(self.id, worker.process_id());
        *self.worker.lock().unwrap_or_else(PoisonError::into_inner) = Some(worker.clone());
        if let Err(exit) = self
            .load(entry, &worker, planned_request(&entry.request, plan), &host)
            .await
        {
            return exit;
        }
        drop(load_guard);
        let idle_unload = host.options.idle_unload;
        // The host, which owns the planner's worker, does not live as long as a loaded model.
        drop(host);
        loop {
            let unload_due = async {
                match (entry.idle_instance(), idle_unload) {
                    (Some(_), _) if entry.is_stale() => {}
                    (Some((_, last_used)), Some(limit)) => sleep_until(last_used + limit).await,
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
                () = unload_due => {
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
        host.ledger.set_allocated(self.id);
        self.set_ready(entry, info);
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
        // All answers that the GPU failed have ended: their last events precede the load's.
        worker.clear_gpu_failure();
        self.set_ready(entry, info);
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
                None => return Err(Exit::Failed(super::unexpected_answer())),
            }
        }
    }

    fn set_ready(&self, entry: &Entry, info: ModelInfo) {
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

/// The request for the worker, with the devices of the plan.
fn planned_request(request: &LoadRequest, plan: Option<Plan>) -> LoadRequest {
    let device = plan.map(|plan| plan.device).filter(|device| !device.is_empty());
    LoadRequest {
        device: device.or_else(|| request.device.clone()),
        ..request.clone()
    }
}
