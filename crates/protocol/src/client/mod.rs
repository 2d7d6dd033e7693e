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
    open: Arc<OpenRequests>,
    requests: mpsc::UnboundedSender<Envelope<Request>>,
    /// Makes the monitor kill the process.
    kill: mpsc::Sender<MonitorError>,
    monitor: AbortHandle,
    death: watch::Receiver<Option<Problem>>,
    process_id: Option<u32>,
    cancel_limits: CancelLimits,
}

/// Time limits for a worker to end a cancelled request.
#[derive(Debug, Clone, Copy)]
struct CancelLimits {
    /// [`WorkerCommand::cancelled_within`].
    answered: Duration,
    /// [`WorkerCommand::silent_within`].
    silent: Duration,
}

impl Worker {
    /// Starts a worker and waits until it is ready. Needs a tokio runtime with time and IO.
    ///
    /// # Errors
    /// It cannot be started, is not ready in time, or is not a worker of this version.
    pub async fn start(command: &WorkerCommand) -> Result<Self, StartError> {
        let open = Arc::<OpenRequests>::default();
        let (mut monitor, stdin) = Monitor::start(command, Arc::clone(&open))?;
        let ready = timeout(command.ready_within, monitor.next()).await;
        match ready {
            Err(_) => {
                return Err(StartError::NotReady {
                    within: command.ready_within,
                    log: monitor.last_log_line(),
                });
            }
            Ok(Ok(Event::Ready {
                protocol: PROTOCOL_VERSION,
                version,
            })) => tracing::info!(version, process_id = monitor.process_id(), "the worker is ready"),
            Ok(Ok(Event::Ready { version, .. })) => return Err(StartError::OtherVersion { version }),
            Ok(Ok(_)) | Ok(Err(MonitorError::Malformed(_) | MonitorError::Unasked(_))) => {
                return Err(StartError::NotAWorker {
                    executable: command.executable.clone(),
                    log: monitor.last_log_line(),
                });
            }
            Ok(Err(error)) => return Err(StartError::Died(monitor.explain(error).await)),
        }
        let process_id = monitor.process_id();
        let (requests, requested) = mpsc::unbounded_channel();
        tokio::spawn(write(stdin, requested));
        let (kill, killed) = mpsc::channel(1);
        let (died, death) = watch::channel(None);
        let monitor = tokio::spawn(monitor.run(killed, died)).abort_handle();
        Ok(Self(Arc::new(Inner {
            open,
            requests,
            kill,
            monitor,
            death,
            process_id,
            cancel_limits: CancelLimits {
                answered: command.cancelled_within,
                silent: command.silent_within,
            },
        })))
    }

    /// Sends a request. Its events arrive at the returned stream. The last one is a result or
    /// [`Event::Failed`], also if the worker dies.
    pub fn request(&self, request: Request) -> Responses {
        let is_cancellable = request.is_cancellable();
        let (id, stream) = self.0.open.add();
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
        self.0.send(self.0.open.next_id(), request);
    }

    /// Process id, if known.
    pub fn process_id(&self) -> Option<u32> {
        self.0.process_id
    }

    /// Whether it has neither exited nor been killed.
    pub fn is_alive(&self) -> bool {
        self.0.death.borrow().is_none() && !self.0.open.have_failed()
    }

    /// Waits until the worker exits, and returns the reason.
    pub async fn died(&self) -> Problem {
        let mut death = self.0.death.clone();
        match death.wait_for(Option::is_some).await.map(|problem| problem.clone()) {
            Ok(Some(problem)) => problem,
            Ok(None) | Err(_) => ended(),
        }
    }

    /// Whether a request has failed because a GPU did, after which no model is loaded.
    pub fn has_failed_gpu(&self) -> bool {
        *self.0.open.gpu_failed.borrow()
    }

    /// Waits until [`Worker::has_failed_gpu`].
    pub async fn gpu_failed(&self) {
        let mut failed = self.0.open.gpu_failed.subscribe();
        // This worker owns the sender.
        let _ = failed.wait_for(|failed| *failed).await;
    }

    /// Clears the failure of a GPU: the model is loaded elsewhere.
    pub fn clear_gpu_failure(&self) {
        self.0.open.gpu_failed.send_replace(false);
    }

    /// Kills the process. Requests in progress fail.
    pub fn kill(&self) {
        self.0.kill();
    }

    /// Shuts the worker down; kills it if it has not exited after `within`.
    pub async fn shut_down(&self, within: Duration) {
        self.tell(Request::Shutdown);
        if timeout(within, self.died()).await.is_err() {
            tracing::warn!("the worker did not shut down in time and is killed");
        }
        self.kill();
    }
}

impl Inner {
    /// Success does not imply an answer: the worker may die at any time.
    fn send(&self, id: RequestId, message: Request) {
        // The monitor reports a closed pipe.
        let _ = self.requests.send(Envelope { id, message });
    }

    /// Cancels a request. If the worker does not end it soon, it fails.
    fn cancel(self: &Arc<Self>, request: RequestId) {
        self.send(self.open.next_id(), Request::Cancel { request });
        // Without a runtime the process is being shut down.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(give_up_unless_answered(
                Arc::downgrade(self),
                request,
                self.cancel_limits,
            ));
        }
    }

    fn kill(&self) {
        // The monitor owns the process, which was started with `kill_on_drop`.
        self.monitor.abort();
        self.open.fail_all(&ended());
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Fails a cancelled request that the worker does not end in time. Other requests go on, and the
/// worker is killed only if it sends nothing at all.
async fn give_up_unless_answered(worker: Weak<Inner>, request: RequestId, limits: CancelLimits) {
    let began = Instant::now();
    sleep(limits.answered).await;
    if let Some(worker) = worker.upgrade() {
        worker.open.give_up(request, not_stopped(limits.answered));
    }
    let mut silent_since = began;
    loop {
        sleep_until(silent_since + limits.silent).await;
        let Some(worker) = worker.upgrade().filter(|worker| worker.open.contains(request)) else {
            return;
        };
        let heard = worker.open.heard().map_or(began, |heard| heard.max(began));
        if heard <= silent_since {
            // If it is full, the worker is being killed already.
            let _ = worker.kill.try_send(MonitorError::Unresponsive(limits.silent));
            return;
        }
        silent_since = heard;
    }
}

/// The problem of a cancelled request that the worker has not ended.
fn not_stopped(within: Duration) -> Problem {
    let seconds = whole_seconds(within);
    Problem::new(ProblemCode::Cancelled, WorkerReason::CancelNotConfirmed { seconds })
}

/// The problem of a request whose worker was ended by this client.
fn ended() -> Problem {
    Problem::new(ProblemCode::WorkerDied, WorkerReason::Ended)
}

/// A time limit in seconds, rounded up.
pub(crate) fn whole_seconds(limit: Duration) -> u32 {
    limit.as_secs_f64().ceil() as u32
}

/// Writes requests until the channel or the pipe closes. The monitor reports a closed pipe.
async fn write(mut stdin: ChildStdin, mut requested: mpsc::UnboundedReceiver<Envelope<Request>>) {
    while let Some(request) = requested.recv().await {
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
