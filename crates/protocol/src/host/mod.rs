//! The host of all models: it chooses the build and the devices of each model before its worker is
//! started, and owns the workers, one per model.
//!
//! It needs no store and no engine: a worker without a model, the planner, reports the devices and
//! computes plans. `docs/decisions/0013` has the reasons.

mod admission;
mod instance;
mod ledger;
mod model;
mod one_shot;
mod planner;
mod run;

pub use model::{Lease, LoadError, Model, ModelStatus};
pub use run::{Run, RunEvent};

use crate::{
    DeviceInfo, ExportRequest, Exported, InspectRequest, Inspection, LoadRequest, Plan, PlanRequest, Problem,
    ProblemCode, Request, Stage, WorkerCommand, WorkerReason,
};
use ledger::Ledger;
use model::Entry;
use one_shot::OneShots;
use planner::Planner;
use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::{Mutex as AsyncMutex, watch};

/// Time limit for the shutdown of a worker.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(2);

/// Options for starting and ending workers.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// The command that starts a worker of the default build.
    pub worker: WorkerCommand,
    /// Time for which an unused model stays loaded. `None` means until its memory is needed.
    pub idle_unload: Option<Duration>,
}

/// The host of all models; cheap to clone. Needs a tokio runtime with time and IO. Dropping the
/// last clone ends the workers.
#[derive(Debug, Clone)]
pub struct ModelHost(Arc<Handle>);

/// The clients' handle of the host; tasks of models and runs have others.
#[derive(Debug)]
struct Handle(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: HostOptions,
    planner: Arc<Planner>,
    /// The models that are loaded, being loaded, or known to a client.
    pool: Mutex<Vec<Arc<Entry>>>,
    ledger: Ledger,
    /// Locked while a model is planned and loads: one at a time.
    load_lock: AsyncMutex<()>,
    /// Changes when memory may have become free.
    memory_freed: watch::Sender<()>,
    one_shots: OneShots,
}

impl ModelHost {
    /// A host without a worker: workers start on demand.
    pub fn new(options: HostOptions) -> Self {
        let planner = Arc::new(Planner::new(options.worker.clone()));
        Self(Arc::new(Handle(Arc::new(Inner {
            options,
            planner,
            pool: Mutex::default(),
            ledger: Ledger::default(),
            load_lock: AsyncMutex::default(),
            memory_freed: watch::Sender::default(),
            one_shots: OneShots::default(),
        }))))
    }

    fn inner(&self) -> &Arc<Inner> {
        &self.0.0
    }

    /// The devices, with their present state.
    ///
    /// # Errors
    /// The planner cannot be started, or died.
    pub async fn devices(&self) -> Result<Vec<DeviceInfo>, Problem> {
        self.inner().planner.devices().await
    }

    /// Runs the device check, which may take minutes. Concurrent calls for one device share a
    /// check. Returns all devices.
    ///
    /// # Errors
    /// There is no such device, or the planner cannot be started, or died.
    pub async fn check(&self, device: String) -> Result<Vec<DeviceInfo>, Problem> {
        self.inner().planner.check(device).await
    }

    /// Plans a model's placement, with unused models replaced by it. One plan is computed at a
    /// time; a newer plan of the same model replaces one that waits, which fails with
    /// [`ProblemCode::Superseded`].
    ///
    /// # Errors
    /// The file or the settings are invalid, a newer request replaced this one, or the planner
    /// cannot be started, or died.
    pub async fn plan(&self, request: PlanRequest) -> Result<Plan, Problem> {
        let others = self.inner().others(None);
        let (replaced, busy): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|other| other.is_idle || other.path == request.path);
        let request = PlanRequest {
            replaced: replaced.into_iter().map(|other| other.reservation).collect(),
            reserved: self
                .inner()
                .ledger
                .reservations(busy.iter().map(|other| other.instance)),
            ..request
        };
        self.inner().planner.plan(request).await
    }

    /// A model of the pool. It is loaded by [`Model::load`] and [`Model::ready`]. A loaded model of
    /// the same file with other settings is unloaded once it is unused.
    pub fn model(&self, request: LoadRequest) -> Model {
        let mut pool = self.inner().pool();
        let existing = pool.iter().find(|entry| entry.is_for(&request)).map(Arc::clone);
        for other in pool.iter().filter(|entry| entry.request.path == request.path) {
            other.set_stale(!existing.as_ref().is_some_and(|existing| Arc::ptr_eq(existing, other)));
        }
        let entry = existing.unwrap_or_else(|| {
            pool.retain(|entry| entry.is_live() || Arc::strong_count(entry) > 1);
            let entry = Arc::new(Entry::new(request, Arc::downgrade(self.inner())));
            pool.push(Arc::clone(&entry));
            entry
        });
        Model(entry)
    }

    /// The models that are loaded or being loaded.
    pub fn live_models(&self) -> Vec<Model> {
        let entries = self.inner().live_entries();
        entries.into_iter().map(Model).collect()
    }

    /// Unloads every model that uses a file, also as a draft, at once, and waits until its workers
    /// have exited. Requests in progress fail.
    pub async fn unload(&self, path: &Path) {
        for entry in self.inner().live_entries() {
            if entry.request.uses(path) {
                entry.exit().await;
            }
        }
    }

    /// Unloads every unused model, and waits until their workers have exited.
    pub async fn unload_idle(&self) {
        for entry in self.inner().live_entries() {
            if let Some(instance) = entry.exit_if_idle() {
                instance.exited().await;
            }
        }
    }

    /// Sends a request to every worker with a model, and drops its answers.
    pub fn broadcast(&self, request: &Request) {
        for entry in self.inner().live_entries() {
            if let Some(worker) = entry.worker() {
                drop(worker.request(request.clone()));
            }
        }
    }

    /// Starts a fine-tuning run in a separate worker.
    pub fn train(&self, request: crate::TrainRequest) -> Run {
        Run::start(Arc::clone(self.inner()), request)
    }

    /// Reads a dataset like a run, in a separate worker. A newer inspection cancels it.
    ///
    /// # Errors
    /// The dataset or the model cannot be read, or a newer inspection was requested.
    pub async fn inspect(&self, number: u64, request: InspectRequest) -> Result<Inspection, Problem> {
        let Inner { one_shots, options, .. } = &**self.inner();
        one_shots.inspect(number, &options.worker, request).await
    }

    /// Cancels all inspections up to now. Returns the number of a new one, for
    /// [`ModelHost::inspect`]. Call it before anything else, so that preparation does not change
    /// the order.
    pub fn new_inspection(&self) -> u64 {
        self.inner().one_shots.new_inspection()
    }

    /// Exports an adapter in a separate worker. One export runs at a time. `progress` receives the
    /// completed fraction and the stage. When `cancelled` completes, the worker ends without
    /// writing anything, or skips the verification if the file is written. Dropping the future
    /// kills it.
    ///
    /// # Errors
    /// The adapter or its model cannot be read, the file cannot be written, or it was cancelled.
    pub async fn export(
        &self,
        request: ExportRequest,
        progress: impl FnMut(f32, Stage),
        cancelled: impl Future<Output = ()>,
    ) -> Result<Exported, Problem> {
        let Inner { one_shots, options, .. } = &**self.inner();
        one_shots.export(&options.worker, request, progress, cancelled).await
    }

    /// Unloads all models and ends all workers except the workers of runs. The host remains usable.
    pub async fn shut_down(&self) {
        let exits: Vec<_> = self
            .inner()
            .live_entries()
            .into_iter()
            .map(|entry| async move { entry.exit().await })
            .collect();
        for exit in exits.into_iter().map(tokio::spawn) {
            // A task that panicked has killed its worker.
            let _ = exit.await;
        }
        self.inner().planner.shut_down().await;
    }
}

impl Inner {
    fn pool(&self) -> MutexGuard<'_, Vec<Arc<Entry>>> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The models that are loaded or being loaded.
    fn live_entries(&self) -> Vec<Arc<Entry>> {
        self.pool()
            .iter()
            .filter(|entry| entry.is_live())
            .map(Arc::clone)
            .collect()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        for entry in self.0.pool().iter() {
            entry.request_exit();
        }
    }
}

/// The problem of an answer of the wrong kind.
fn unexpected_answer() -> Problem {
    Problem::new(ProblemCode::Internal, WorkerReason::UnexpectedAnswer)
}
