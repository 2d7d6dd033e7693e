//! The planner: a worker without a model, which reports the devices and computes plans. It waits
//! for no load, ends with no model, and exits after a period without queries.

use super::{SHUTDOWN_LIMIT, unexpected_answer};
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

/// Time for which the worker stays alive after the last query: the first query of a new worker
/// queries the graphics drivers, which is slow.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Time limit for a silent worker. Its calls into drivers have shorter limits.
const RESPONSE_LIMIT: Duration = Duration::from_secs(60);

/// Time limit for checking a device before a load, in every build. The check itself has shorter
/// limits.
const CHECK_LIMIT: Duration = Duration::from_secs(60 * 60);

/// The result of a device check, which concurrent callers share.
type Check = Arc<OnceCell<Result<Vec<DeviceInfo>, Problem>>>;

/// The worker of queries, started on demand, and the queries in progress.
#[derive(Debug)]
pub(super) struct Planner {
    command: WorkerCommand,
    worker: Mutex<Option<Worker>>,
    query_count: SyncMutex<QueryCount>,
    /// One permit, so that plans for a moving slider do not pile up.
    plan_permit: Semaphore,
    /// The number of the newest plan of each model.
    newest_plans: SyncMutex<HashMap<PathBuf, u64>>,
    checks: SyncMutex<HashMap<String, Check>>,
}

/// Numbers of queries.
#[derive(Debug, Clone, Copy, Default)]
struct QueryCount {
    /// Up to now.
    total: u64,
    in_progress: usize,
}

impl Planner {
    pub fn new(command: WorkerCommand) -> Self {
        Self {
            command,
            worker: Mutex::default(),
            query_count: SyncMutex::default(),
            plan_permit: Semaphore::new(1),
            newest_plans: SyncMutex::default(),
            checks: SyncMutex::default(),
        }
    }

    /// The devices, with their present state.
    pub async fn devices(self: &Arc<Self>) -> Result<Vec<DeviceInfo>, Problem> {
        let _query = Query::begin(self);
        read_devices(self.request(Request::Devices).await?).await
    }

    /// Runs the device check. Concurrent calls for one device share a check.
    pub async fn check(self: &Arc<Self>, device: String) -> Result<Vec<DeviceInfo>, Problem> {
        let check = Check::clone(lock(&self.checks).entry(device.clone()).or_default());
        let run_check = async {
            let _query = Query::begin(self);
            let device = device.clone();
            match self.request(Request::Check { device }).await?.last().await? {
                Event::Devices { devices } => Ok(devices),
                _ => Err(unexpected_answer()),
            }
        };
        let devices = check.get_or_init(|| run_check).await.clone();
        let mut checks = lock(&self.checks);
        if checks.get(&device).is_some_and(|running| Arc::ptr_eq(running, &check)) {
            checks.remove(&device);
        }
        devices
    }

    /// Plans a model. One plan is computed at a time; a newer plan of the same model replaces one
    /// that waits, which fails with [`ProblemCode::Superseded`].
    pub async fn plan(self: &Arc<Self>, request: PlanRequest) -> Result<Plan, Problem> {
        let path = request.path.clone();
        let number = {
            let mut newest_plans = lock(&self.newest_plans);
            let newest = newest_plans.entry(path.clone()).or_default();
            *newest += 1;
            *newest
        };
        // The semaphore is never closed.
        let _permit = self.plan_permit.acquire().await;
        if lock(&self.newest_plans).get(&path) != Some(&number) {
            return Err(Problem::new(ProblemCode::Superseded, WorkerReason::PlanReplaced));
        }
        self.choose(request, &mut |_, _| {}).await
    }

    /// Plans a model, at once. `progress` receives the progress of device checks, which the request
    /// may allow.
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
                Ok(_) => return Err(unexpected_answer()),
                Err(_) => return Err(no_response()),
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
        let mut current = self.worker.lock().await;
        if let Some(worker) = current.as_ref().filter(|worker| worker.is_alive()) {
            return Ok(worker.request(request));
        }
        let worker = current.insert(Worker::start(&self.command).await?);
        Ok(worker.request(request))
    }

    /// Ends the worker if no query is in progress and their total is still the same.
    async fn exit_if_idle(&self, total: u64) {
        let mut worker = self.worker.lock().await;
        let count = *lock(&self.query_count);
        if count.total == total
            && count.in_progress == 0
            && let Some(worker) = worker.take()
        {
            worker.shut_down(SHUTDOWN_LIMIT).await;
        }
    }
}

async fn read_devices(events: Responses) -> Result<Vec<DeviceInfo>, Problem> {
    match timeout(RESPONSE_LIMIT, events.last()).await {
        Ok(Ok(Event::Devices { devices })) => Ok(devices),
        Ok(Ok(_)) => Err(unexpected_answer()),
        Ok(Err(problem)) => Err(problem),
        Err(_) => Err(no_response()),
    }
}

/// A query in progress. The last one to end starts the worker's idle time.
struct Query(Arc<Planner>);

impl Query {
    fn begin(planner: &Arc<Planner>) -> Self {
        let mut count = lock(&planner.query_count);
        count.total += 1;
        count.in_progress += 1;
        drop(count);
        Self(Arc::clone(planner))
    }
}

impl Drop for Query {
    fn drop(&mut self) {
        let mut count = lock(&self.0.query_count);
        count.in_progress -= 1;
        let QueryCount { total, in_progress } = *count;
        drop(count);
        // Without a runtime the process is being shut down.
        if let (0, Ok(runtime)) = (in_progress, Handle::try_current()) {
            let planner = Arc::downgrade(&self.0);
            runtime.spawn(async move {
                sleep(IDLE_TIMEOUT).await;
                if let Some(planner) = planner.upgrade() {
                    planner.exit_if_idle(total).await;
                }
            });
        }
    }
}

fn lock<T>(mutex: &SyncMutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The problem of a worker that does not answer.
fn no_response() -> Problem {
    let seconds = whole_seconds(RESPONSE_LIMIT);
    Problem::new(ProblemCode::Busy, WorkerReason::NoResponse { seconds })
}
