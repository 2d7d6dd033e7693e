//! The client: starts a worker, sends it any number of requests at a time, and reports its death.

mod command;
mod lines;
mod log;
mod monitor;
mod open_requests;
mod responses;
mod start_error;

pub use command::WorkerCommand;
pub use responses::Responses;
pub use start_error::StartError;

use crate::{Envelope, Event, PROTOCOL_VERSION, Problem, ProblemCode, Request, RequestId, WorkerReason};
use monitor::{Monitor, MonitorError};
use open_requests::OpenRequests;
use std::{
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::{
    io::AsyncWriteExt,
    process::ChildStdin,
    runtime::Handle,
    sync::{mpsc, watch},
    task::AbortHandle,
    time::{Instant, sleep, sleep_until, timeout},
};

/// A running worker. A clone is another handle of it; dropping the last one kills the process.
#[derive(Debug, Clone)]
pub struct Worker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    open_requests: Arc<OpenRequests>,
    request_sender: mpsc::UnboundedSender<Envelope<Request>>,
    /// Makes the monitor kill the process.
    kill_sender: mpsc::Sender<MonitorError>,
    monitor: AbortHandle,
    death: watch::Receiver<Option<Problem>>,
    process_id: Option<u32>,
    cancel_limits: CancelLimits,
}

/// Time limits for a worker to end a cancelled request.
#[derive(Debug, Clone, Copy)]
struct CancelLimits {
    /// [`WorkerCommand::cancelled_within`].
    answer: Duration,
    /// [`WorkerCommand::silent_within`].
    silence: Duration,
}

impl Worker {
    /// Starts a worker and waits until it is ready. Needs a tokio runtime with time and IO.
    ///
    /// # Errors
    /// It cannot be started, is not ready in time, or is not a worker of this version.
    pub async fn start(command: &WorkerCommand) -> Result<Self, StartError> {
        let open_requests = Arc::<OpenRequests>::default();
        let (mut monitor, stdin) = Monitor::start(command, Arc::clone(&open_requests))?;
        let first_event = timeout(command.ready_within, monitor.next()).await;
        match first_event {
            Err(_) => {
                return Err(StartError::NotReady {
                    within: command.ready_within,
                    log: monitor.logged_failure(),
                });
            }
            Ok(Ok(Event::Ready {
                protocol: PROTOCOL_VERSION,
                version,
            })) => tracing::info!(version, process_id = monitor.process_id(), "the worker is ready"),
            Ok(Ok(Event::Ready { version, .. })) => return Err(StartError::OtherVersion { version }),
            Ok(Ok(_)) | Ok(Err(MonitorError::Malformed(_) | MonitorError::Unexpected(_))) => {
                return Err(StartError::NotAWorker {
                    executable: command.executable.clone(),
                    log: monitor.logged_failure(),
                });
            }
            Ok(Err(error)) => return Err(StartError::Died(monitor.explain(error).await)),
        }
        let process_id = monitor.process_id();
        let (request_sender, request_receiver) = mpsc::unbounded_channel();
        tokio::spawn(write_requests(stdin, request_receiver));
        let (kill_sender, kill_receiver) = mpsc::channel(1);
        let (death_sender, death) = watch::channel(None);
        let monitor = tokio::spawn(monitor.run(kill_receiver, death_sender)).abort_handle();
        Ok(Self(Arc::new(Inner {
            open_requests,
            request_sender,
            kill_sender,
            monitor,
            death,
            process_id,
            cancel_limits: CancelLimits {
                answer: command.cancelled_within,
                silence: command.silent_within,
            },
        })))
    }

    /// Sends a request. Its events arrive at the returned stream. The last one is a result or
    /// [`Event::Failed`], also if the worker dies.
    pub fn request(&self, request: Request) -> Responses {
        let is_cancellable = request.is_cancellable();
        let (id, stream) = self.0.open_requests.add();
        self.0.send(id, request);
        Responses::new(id, stream, Arc::downgrade(&self.0), is_cancellable)
    }

    /// Sends a request and waits for the last event of its answer.
    ///
    /// # Errors
    /// The request failed, or the worker died.
    pub async fn call(&self, request: Request) -> Result<Event, Problem> {
        self.request(request).last().await
    }

    /// Sends a request that is not answered ([`Request::is_answered`]).
    pub fn tell(&self, request: Request) {
        debug_assert!(!request.is_answered(), "{request:?} has an answer");
        self.0.send(self.0.open_requests.next_id(), request);
    }

    /// Process id, if known.
    pub fn process_id(&self) -> Option<u32> {
        self.0.process_id
    }

    /// Whether it has neither exited nor been killed.
    pub fn is_alive(&self) -> bool {
        self.0.death.borrow().is_none() && !self.0.open_requests.is_closed()
    }

    /// Waits until the worker exits, and returns the reason.
    pub async fn died(&self) -> Problem {
        let mut death = self.0.death.clone();
        match death.wait_for(Option::is_some).await.map(|problem| problem.clone()) {
            Ok(Some(problem)) => problem,
            Ok(None) | Err(_) => worker_ended(),
        }
    }

    /// Whether a request has failed because a GPU did, after which no model is loaded.
    pub fn has_failed_gpu(&self) -> bool {
        *self.0.open_requests.gpu_failed.borrow()
    }

    /// Waits until [`Worker::has_failed_gpu`].
    pub async fn gpu_failed(&self) {
        let mut gpu_failed = self.0.open_requests.gpu_failed.subscribe();
        // This worker owns the sender.
        let _ = gpu_failed.wait_for(|has_failed| *has_failed).await;
    }

    /// Clears the failure of a GPU, after the model was loaded on another device.
    pub fn clear_gpu_failure(&self) {
        self.0.open_requests.gpu_failed.send_replace(false);
    }

    /// Kills the process. Requests in progress fail.
    pub fn kill(&self) {
        self.0.kill();
    }

    /// Shuts the worker down; kills it if it has not exited after `limit`.
    pub async fn shut_down(&self, limit: Duration) {
        self.tell(Request::Shutdown);
        if timeout(limit, self.died()).await.is_err() {
            tracing::warn!("the worker did not shut down in time and is killed");
        }
        self.kill();
    }
}

impl Inner {
    /// Sends a message. There may be no answer: the worker can die at any time.
    fn send(&self, id: RequestId, message: Request) {
        // The monitor reports a closed pipe.
        let _ = self.request_sender.send(Envelope { id, message });
    }

    /// Cancels a request. If the worker does not end it soon, it fails.
    fn cancel(self: &Arc<Self>, request: RequestId) {
        self.send(self.open_requests.next_id(), Request::Cancel { request });
        // Without a runtime the process is being shut down.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(enforce_cancel_limits(Arc::downgrade(self), request, self.cancel_limits));
        }
    }

    fn kill(&self) {
        // The monitor owns the process, which was started with `kill_on_drop`.
        self.monitor.abort();
        self.open_requests.fail_all(&worker_ended());
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Fails a cancelled request that the worker does not end in time. Other requests continue, and the
/// worker is killed only if it sends nothing at all.
async fn enforce_cancel_limits(worker: Weak<Inner>, request: RequestId, limits: CancelLimits) {
    let start = Instant::now();
    sleep(limits.answer).await;
    if let Some(worker) = worker.upgrade() {
        worker.open_requests.fail(request, cancel_not_confirmed(limits.answer));
    }
    let mut silent_since = start;
    loop {
        sleep_until(silent_since + limits.silence).await;
        let Some(worker) = worker.upgrade().filter(|worker| worker.open_requests.contains(request)) else {
            return;
        };
        let last_event_at = worker.open_requests.last_event_at();
        let last_event_at = last_event_at.map_or(start, |instant| instant.max(start));
        if last_event_at <= silent_since {
            // A full channel means that the worker is being killed already.
            let _ = worker.kill_sender.try_send(MonitorError::Unresponsive(limits.silence));
            return;
        }
        silent_since = last_event_at;
    }
}

/// The problem of a cancelled request that the worker has not ended.
fn cancel_not_confirmed(limit: Duration) -> Problem {
    let seconds = whole_seconds(limit);
    Problem::new(ProblemCode::Cancelled, WorkerReason::CancelNotConfirmed { seconds })
}

/// The problem of a request whose worker was ended by this client.
fn worker_ended() -> Problem {
    Problem::new(ProblemCode::WorkerDied, WorkerReason::Ended)
}

/// A time limit in seconds, rounded up.
pub(crate) fn whole_seconds(limit: Duration) -> u32 {
    limit.as_secs_f64().ceil() as u32
}

/// Writes requests until the channel or the pipe closes. The monitor reports a closed pipe.
async fn write_requests(mut stdin: ChildStdin, mut requests: mpsc::UnboundedReceiver<Envelope<Request>>) {
    while let Some(request) = requests.recv().await {
        let mut line = match serde_json::to_vec(&request) {
            Ok(line) => line,
            Err(error) => {
                tracing::error!(%error, "a request could not be written as JSON");
                continue;
            }
        };
        line.push(b'\n');
        if stdin.write_all(&line).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}
