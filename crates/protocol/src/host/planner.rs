//! The planner: a worker without a model, which reports the devices and computes plans. It waits
//! for no load, ends with no model, and exits after a period without queries.

use super::{SHUTDOWN_LIMIT, unexpected};
use crate::{
    DeviceInfo, Event, Plan, PlanRequest, Problem, ProblemCode, Request, Responses, Stage, Worker, WorkerCommand,
    WorkerReason, client::whole_seconds,
};
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex as SyncMutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::{Mutex, OnceCell, Semaphore},
    time::{sleep, timeout},
};

/// Time for which the worker stays alive after the last query: a new worker's first query asks the
/// graphics drivers, which is slow.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Time limit for a silent worker. Its calls into drivers have shorter limits.
const RESPONSE_LIMIT: Duration = Duration::from_secs(60);

/// Time limit for checking a device before a load, in every build. The check itself has shorter
/// limits.
const CHECK_LIMIT: Duration = Duration::from_secs(60 * 60);

/// The answer to a device check, which all that asked for it get.
type Check = Arc<OnceCell<Result<Vec<DeviceInfo>, Problem>>>;

/// The worker of queries, started on demand, and the queries in progress.
#[derive(Debug)]
pub(super) struct Planner {
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

impl Planner {
    pub fn new(command: WorkerCommand) -> Self {
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
    pub async fn devices(self: &Arc<Self>) -> Result<Vec<DeviceInfo>, Problem> {
        let _query = Query::begin(self);
        devices(self.request(Request::Devices).await?).await
    }

    /// Runs the device check. One that is running answers all that ask for it.
    pub async fn check(self: &Arc<Self>, device: String) -> Result<Vec<DeviceInfo>, Problem> {
        let check = Check::clone(lock(&self.checks).entry(device.clone()).or_default());
        let run = async {
            let _query = Query::begin(self);
            let device = device.clone();
            match self.request(Request::Check { device }).await?.last().await? {
                Event::Devices { devices } => Ok(devices),
                _ => Err(unexpected()),
            }
        };
        let devices = check.get_or_init(|| run).await.clone();
        let mut checks = lock(&self.checks);
        if checks.get(&device).is_some_and(|running| Arc::ptr_eq(running, &check)) {
            checks.remove(&device);
        }
        devices
    }

    /// Plans a model. One at a time; a newer plan of the same model replaces one that waits, which
    /// fails with [`ProblemCode::Superseded`].
    pub async fn plan(self: &Arc<Self>, request: PlanRequest) -> Result<Plan, Problem> {
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
            return Err(Problem::new(ProblemCode::Superseded, WorkerReason::PlanReplaced));
        }
        self.choose(request, &mut |_, _| {}).await
    }

    /// Plans a model, at once. `progress` receives the device checks that this needs, if the
    /// request allows them.
    pub async fn choose(
        self: &Arc<Self>,
        request: PlanRequest,
        progress: &mut (dyn FnMut(f32, Stage) + Send),
    ) -> Result<Plan, Problem> {
        let _query = Query::begin(self);
        let mut limit = RESPONSE_LIMIT;
        let mut events = self.request(Request::Plan(request)).await?;
        loop {
            match timeout(limit, events.next()).await {
                Ok(Some(Event::Progress { fraction, stage })) => {
                    limit = CHECK_LIMIT;
                    progress(fraction, stage);
                }
                Ok(Some(Event::Planned(plan))) => return Ok(plan),
                Ok(Some(Event::Failed(problem))) => return Err(problem),
                Ok(_) => return Err(unexpected()),
                Err(_) => return Err(silent()),
            }
        }
    }

    /// Shuts the worker down. Queries in progress fail.
    pub async fn shut_down(&self) {
        if let Some(worker) = self.worker.lock().await.take() {
            worker.shut_down(SHUTDOWN_LIMIT).await;
        }
    }

    async fn request(&self, request: Request) -> Result<Responses, Problem> {
        let mut worker = self.worker.lock().await;
        if let Some(alive) = worker.as_ref().filter(|worker| worker.is_alive()) {
            return Ok(alive.request(request));
        }
        let started = worker.insert(Worker::start(&self.command).await?);
        Ok(started.request(request))
    }

    /// Ends the worker if there was no query since this number.
    async fn exit_if_idle(&self, since: u64) {
        let mut worker = self.worker.lock().await;
        if *lock(&self.count) == (since, 0)
            && let Some(worker) = worker.take()
        {
            worker.shut_down(SHUTDOWN_LIMIT).await;
        }
    }
}

async fn devices(events: Responses) -> Result<Vec<DeviceInfo>, Problem> {
    match timeout(RESPONSE_LIMIT, events.last()).await {
        Ok(Ok(Event::Devices { devices })) => Ok(devices),
        Ok(Ok(_)) => Err(unexpected()),
        Ok(Err(problem)) => Err(problem),
        Err(_) => Err(silent()),
    }
}

/// A query in progress. The last one to end starts the worker's idle time.
struct Query(Arc<Planner>);

impl Query {
    fn begin(planner: &Arc<Planner>) -> Self {
        let mut count = lock(&planner.count);
        *count = (count.0 + 1, count.1 + 1);
        drop(count);
        Self(Arc::clone(planner))
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
            let planner = Arc::downgrade(&self.0);
            runtime.spawn(async move {
                sleep(IDLE_TIMEOUT).await;
                if let Some(planner) = planner.upgrade() {
                    planner.exit_if_idle(since).await;
                }
            });
        }
    }
}

fn lock<T>(mutex: &SyncMutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The problem of a worker that does not answer.
fn silent() -> Problem {
    let seconds = whole_seconds(RESPONSE_LIMIT);
    Problem::new(ProblemCode::Busy, WorkerReason::NoResponse { seconds })
}
