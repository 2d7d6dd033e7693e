//! Questions about the machine and its models: devices, device checks and plans. A worker of their
//! own answers them, so that they wait for no load and end with no model.

use crate::{
    shared::Shared,
    wire::{Code, Device, Plan, Problem},
};
use hearth_protocol as protocol;
use protocol::{Event, PlanRequest, Request, Worker, WorkerCommand};
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex as SyncMutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::{Mutex, OnceCell, Semaphore},
    time::sleep,
};

/// How long the worker is kept after the last query.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long the worker may take to shut down.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// The answer to a device check, which all that asked for it get.
type Check = Arc<OnceCell<Result<Vec<Device>, Problem>>>;

/// The worker of queries, started on demand, and the queries in progress.
pub(crate) struct Queries {
    command: WorkerCommand,
    worker: Mutex<Option<Worker>>,
    /// Number of queries up to now, and of those in progress.
    count: SyncMutex<(u64, usize)>,
    /// One plan at a time, so that a moving slider never lags.
    planning: Semaphore,
    /// The number of the newest plan of each model.
    newest: SyncMutex<HashMap<PathBuf, u64>>,
    checks: SyncMutex<HashMap<String, Check>>,
}

impl Queries {
    pub(crate) fn new(command: WorkerCommand) -> Self {
        Self {
            command,
            worker: Mutex::default(),
            count: SyncMutex::default(),
            planning: Semaphore::new(1),
            newest: SyncMutex::default(),
            checks: SyncMutex::default(),
        }
    }

    /// The devices, with their present state.
    pub(crate) async fn devices(self: &Arc<Self>) -> Result<Vec<Device>, Problem> {
        match self.call(Request::Devices).await? {
            Event::Devices { devices } => Ok(devices.into_iter().map(Device::from).collect()),
            _ => Err(no_answer()),
        }
    }

    /// Runs the device check. One that is running answers all that ask for it.
    pub(crate) async fn check(self: &Arc<Self>, device: String) -> Result<Vec<Device>, Problem> {
        let check = Check::clone(lock(&self.checks).entry(device.clone()).or_default());
        let run = async {
            let device = device.clone();
            match self.call(Request::Check { device }).await? {
                Event::Devices { devices } => Ok(devices.into_iter().map(Device::from).collect()),
                _ => Err(no_answer()),
            }
        };
        let devices = check.get_or_init(|| run).await.clone();
        let mut checks = lock(&self.checks);
        if checks.get(&device).is_some_and(|running| Arc::ptr_eq(running, &check)) {
            checks.remove(&device);
        }
        devices
    }

    /// Plans a model's placement. One at a time; a newer one of the same model replaces one that
    /// waits, which fails with [`Code::Superseded`].
    pub(crate) async fn plan(self: &Arc<Self>, request: PlanRequest) -> Result<Plan, Problem> {
        let path = request.path.clone();
        let number = {
            let mut newest = lock(&self.newest);
            let newest = newest.entry(path.clone()).or_default();
            *newest += 1;
            *newest
        };
        // It is never closed.
        let _turn = self.planning.acquire().await;
        if lock(&self.newest).get(&path) != Some(&number) {
            return Err(Problem {
                code: Code::Superseded,
                message: "A newer plan replaced this one.".to_owned(),
            });
        }
        match self.call(Request::Plan(request)).await? {
            Event::Planned(plan) => Ok(plan.into()),
            _ => Err(no_answer()),
        }
    }

    /// Shuts the worker down. Queries in progress fail.
    pub(crate) async fn shut_down(&self) {
        if let Some(worker) = self.worker.lock().await.take() {
            worker.shut_down(SHUTDOWN_TIMEOUT).await;
        }
    }

    async fn call(self: &Arc<Self>, request: Request) -> Result<Event, Problem> {
        let _query = Query::begin(self);
        let worker = self.worker().await?;
        Ok(worker.call(request).await?)
    }

    /// Ends the worker if there was no query since this number.
    async fn end_if_idle(&self, since: u64) {
        let mut worker = self.worker.lock().await;
        if *lock(&self.count) == (since, 0)
            && let Some(worker) = worker.take()
        {
            worker.shut_down(SHUTDOWN_TIMEOUT).await;
        }
    }

    async fn worker(&self) -> Result<Worker, Problem> {
        let mut worker = self.worker.lock().await;
        if let Some(alive) = worker.as_ref().filter(|worker| worker.is_alive()) {
            return Ok(alive.clone());
        }
        let started = Worker::start(&self.command).await.map_err(protocol::Problem::from)?;
        *worker = Some(started.clone());
        Ok(started)
    }
}

/// A query in progress. The last one to end starts the worker's idle time.
struct Query(Arc<Queries>);

impl Query {
    fn begin(queries: &Arc<Queries>) -> Self {
        let mut count = lock(&queries.count);
        *count = (count.0 + 1, count.1 + 1);
        drop(count);
        Self(Arc::clone(queries))
    }
}

impl Drop for Query {
    fn drop(&mut self) {
        let mut count = lock(&self.0.count);
        count.1 -= 1;
        let (since, in_progress) = *count;
        drop(count);
        // Without a runtime the process is being shut down.
        if let (0, Ok(runtime)) = (in_progress, Handle::try_current()) {
            let queries = Arc::downgrade(&self.0);
            runtime.spawn(async move {
                sleep(IDLE_TIMEOUT).await;
                if let Some(queries) = queries.upgrade() {
                    queries.end_if_idle(since).await;
                }
            });
        }
    }
}

fn lock<T>(mutex: &SyncMutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The problem of an unexpected response.
fn no_answer() -> Problem {
    Problem {
        code: Code::Internal,
        message: "Hearth's worker gave an unexpected answer. Try again.".to_owned(),
    }
}

impl Shared {
    /// A plan request, in which the memory of the loaded model counts as free.
    pub(crate) fn plan_request(&self, request: PlanRequest) -> PlanRequest {
        PlanRequest {
            loaded: self.loaded_memory(),
            ..request
        }
    }
}
