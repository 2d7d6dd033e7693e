//! A model of the pool, and leases of it.

use super::{Inner, instance::Instance};
use crate::{Event, LoadRequest, ModelInfo, Problem, ProblemCode, Request, Responses, Stage, Worker, WorkerReason};
use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::SystemTime,
};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

/// The status of a model.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelStatus {
    /// It is not loaded.
    Unloaded,
    /// It is being loaded.
    Loading {
        /// From 0 to 1.
        fraction: f32,
        /// The stage.
        stage: Stage,
    },
    /// It is loaded.
    Ready(Arc<ModelInfo>),
    /// It could not be loaded.
    Failed {
        /// Why.
        problem: Problem,
        /// Whether its worker died.
        has_died: bool,
    },
    /// Its worker died after it was loaded.
    Died(Problem),
}

/// Why a model is not ready.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// It could not be loaded.
    #[error("{0}")]
    Failed(Problem),
    /// Its worker died while it was being loaded.
    #[error("{0}")]
    Died(Problem),
}

/// A model of the pool: a file and the settings to load it with. A clone is another handle of it; a
/// handle does not keep it loaded.
#[derive(Debug, Clone)]
pub struct Model(pub(super) Arc<Entry>);

impl Model {
    /// A receiver of the model's status.
    pub fn status(&self) -> watch::Receiver<ModelStatus> {
        self.0.status.subscribe()
    }

    /// Whether it is loaded or being loaded.
    pub fn is_live(&self) -> bool {
        let status = self.0.status.borrow();
        matches!(*status, ModelStatus::Loading { .. } | ModelStatus::Ready(_))
    }

    /// The file, and the settings to load it with.
    pub fn request(&self) -> &LoadRequest {
        &self.0.request
    }

    /// Begins to load it, unless it is loaded or being loaded.
    pub fn load(&self) {
        // A model that is exiting is loaded again once a caller waits for it.
        drop(self.0.join(0));
    }

    /// Waits until it is loaded; loads it if it is not. The lease keeps it loaded.
    ///
    /// # Errors
    /// It could not be loaded, its worker died meanwhile, or it was unloaded meanwhile.
    pub async fn ready(&self) -> Result<Lease, LoadError> {
        let user = User::new(&self.0);
        loop {
            match self.0.join(1) {
                Ok(instance) => {
                    let (worker, info) = instance.ready().await?;
                    return Ok(Lease {
                        worker,
                        info,
                        _user: user,
                    });
                }
                // The memory is free once the old instance has exited.
                Err(instance) => instance.exited().await,
            }
        }
    }

    /// Sends a request to its worker if it is loaded. Does not keep it loaded: the request fails if
    /// it is unloaded meanwhile. `None` means that it is not loaded.
    pub fn request_if_loaded(&self, request: Request) -> Option<Responses> {
        let (instance, _) = self.0.loaded_instance()?;
        Some(instance.worker()?.request(request))
    }

    /// A lease if it is loaded now. Does not load it.
    pub fn loaded(&self) -> Option<Lease> {
        // Counted first, so that it is not unloaded as idle meanwhile.
        let user = User::new(&self.0);
        let (instance, _) = self.0.loaded_instance()?;
        let (worker, info) = instance.can_be_joined().then(|| instance.loaded())??;
        Some(Lease {
            worker,
            info,
            _user: user,
        })
    }

    /// Unloads it at once, and waits until its worker has exited. Requests in progress fail.
    pub async fn unload(&self) {
        self.0.exit().await;
    }
}

impl PartialEq for Model {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A loaded model in use: it stays loaded while there is a lease of it.
#[derive(Debug)]
pub struct Lease {
    worker: Worker,
    info: Arc<ModelInfo>,
    _user: User,
}

impl Lease {
    /// Properties of the model.
    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// Sends a request to its worker ([`Worker::request`]).
    pub fn request(&self, request: Request) -> Responses {
        self.worker.request(request)
    }

    /// Sends a request to its worker and waits for the last event of its answer.
    ///
    /// # Errors
    /// The request failed, or the worker died.
    pub async fn call(&self, request: Request) -> Result<Event, Problem> {
        self.worker.call(request).await
    }

    /// Process id of its worker, if known.
    pub fn process_id(&self) -> Option<u32> {
        self.worker.process_id()
    }

    /// Whether its worker has not exited.
    pub fn is_alive(&self) -> bool {
        self.worker.is_alive()
    }
}

/// A model of the pool, with or without a worker.
#[derive(Debug)]
pub(super) struct Entry {
    pub request: LoadRequest,
    pub host: Weak<Inner>,
    pub status: watch::Sender<ModelStatus>,
    /// Notified when it may have become idle.
    pub released: Notify,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Its worker, from the request to load it until the worker has exited.
    instance: Option<Arc<Instance>>,
    /// Number of leases, and of callers that wait for one.
    users: usize,
    /// The end of the last use.
    last_used: Instant,
    /// Whether the settings have changed, so that it is unloaded once it is idle.
    is_stale: bool,
    /// The file when it was loaded.
    stamp: Option<FileStamp>,
}

/// Size and modification time of a file.
type FileStamp = (u64, Option<SystemTime>);

/// `None` means that the file cannot be read.
fn file_stamp(path: &Path) -> Option<FileStamp> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.len(), metadata.modified().ok()))
}

impl Entry {
    pub fn new(request: LoadRequest, host: Weak<Inner>) -> Self {
        Self {
            request,
            host,
            status: watch::Sender::new(ModelStatus::Unloaded),
            released: Notify::new(),
            state: Mutex::new(State {
                instance: None,
                users: 0,
                last_used: Instant::now(),
                is_stale: false,
                stamp: None,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a request is for this file and these settings. The limit of the prompt cache is not
    /// one of them: it can be changed while the model is loaded.
    pub fn is_for(&self, request: &LoadRequest) -> bool {
        let without_cache_limit = |request: &LoadRequest| {
            let mut request = request.clone();
            if let Some(folder) = &mut request.prompt_cache {
                folder.max_bytes = 0;
            }
            request
        };
        without_cache_limit(&self.request) == without_cache_limit(request)
    }

    /// Whether it is loaded, being loaded or being unloaded.
    pub fn is_live(&self) -> bool {
        self.state().instance.is_some()
    }

    pub fn set_stale(&self, is_stale: bool) {
        self.state().is_stale = is_stale;
        self.released.notify_one();
    }

    /// Its worker, once the model is loaded.
    pub fn worker(&self) -> Option<Worker> {
        let instance = self.state().instance.clone()?;
        instance.worker()
    }

    /// Returns the instance for a new user, and starts one if there is none. `Err` has an instance
    /// that is exiting. `caller_users` is 1 if the new user is counted already, else 0.
    pub fn join(self: &Arc<Self>, caller_users: usize) -> Result<Arc<Instance>, Arc<Instance>> {
        let mut state = self.state();
        if let Some(instance) = &state.instance {
            let has_changed = || {
                let stamp = file_stamp(&self.request.path);
                // A model whose file is gone stays loaded.
                stamp.is_some() && stamp != state.stamp
            };
            if instance.is_ready() && state.users == caller_users && has_changed() {
                instance.request_exit();
            }
            return if instance.can_be_joined() {
                Ok(Arc::clone(instance))
            } else {
                Err(Arc::clone(instance))
            };
        }
        let instance = Instance::start(self);
        state.instance = Some(Arc::clone(&instance));
        state.stamp = file_stamp(&self.request.path);
        state.last_used = Instant::now();
        drop(state);
        Ok(instance)
    }

    /// Removes the instance, whose worker has exited, and sets the status.
    pub fn remove_instance(&self, status: ModelStatus) {
        let mut state = self.state();
        state.instance = None;
        // Under the lock: the next instance sets its own status.
        self.status.send_replace(status);
    }

    /// The current instance and the end of its last use. `None` if it is not loaded, or in use.
    pub fn idle_instance(&self) -> Option<(Arc<Instance>, Instant)> {
        let state = self.state();
        let instance = state
            .instance
            .clone()
            .filter(|instance| state.users == 0 && instance.is_ready())?;
        Some((instance, state.last_used))
    }

    /// The current instance, once it is loaded, and whether it is unused.
    pub fn loaded_instance(&self) -> Option<(Arc<Instance>, bool)> {
        let state = self.state();
        let instance = state.instance.clone().filter(|instance| instance.is_ready())?;
        Some((instance, state.users == 0))
    }

    /// Ends the current instance unless it is in use. A new caller waits for its exit and loads the
    /// model again. `None` means that there is none, or that it is in use.
    pub fn exit_if_idle(&self) -> Option<Arc<Instance>> {
        let state = self.state();
        let instance = state.instance.clone().filter(|_| state.users == 0)?;
        instance.request_exit();
        Some(instance)
    }

    /// The end of the last use.
    pub fn last_used(&self) -> Instant {
        self.state().last_used
    }

    /// Whether it is unloaded once it is idle, since its settings have changed.
    pub fn is_stale(&self) -> bool {
        self.state().is_stale
    }

    /// Ends the current instance at once.
    pub fn request_exit(&self) {
        if let Some(instance) = &self.state().instance {
            instance.request_exit();
        }
    }

    /// Ends the current instance at once and waits until its worker has exited.
    pub async fn exit(&self) {
        let instance = self.state().instance.clone();
        if let Some(instance) = instance {
            instance.request_exit();
            instance.exited().await;
        }
    }
}

/// Counts as a user of a model.
#[derive(Debug)]
struct User(Arc<Entry>);

impl User {
    fn new(entry: &Arc<Entry>) -> Self {
        entry.state().users += 1;
        Self(Arc::clone(entry))
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.users -= 1;
        state.last_used = Instant::now();
        drop(state);
        self.0.released.notify_one();
        if let Some(host) = self.0.host.upgrade() {
            host.memory_freed.send_replace(());
        }
    }
}

/// The problem of callers that waited for a model that was unloaded.
pub(super) fn model_unloaded() -> Problem {
    Problem::new(ProblemCode::Cancelled, WorkerReason::ModelUnloaded)
}
