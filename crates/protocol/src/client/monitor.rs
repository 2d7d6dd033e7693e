//! The monitor of a worker: reads its events and waits for its exit.

use super::{
    WorkerCommand,
    command::spawn,
    lines::Lines,
    log::{Log, with_log_line},
    open_requests::OpenRequests,
    start_error::StartError,
    whole_seconds,
};
use crate::memory_death::{Death, KillCount};
use crate::{Envelope, Event, Problem, ProblemCode, RequestId, WorkerExit, WorkerReason};
use std::{io, process::ExitStatus, sync::Arc, time::Duration};
use tokio::{
    process::{Child, ChildStdin, ChildStdout},
    sync::{mpsc, watch},
    task::JoinHandle,
    time::timeout,
};

/// Time limit for a process to exit after its output ended, and for its last output after it
/// exited.
const EXIT_LIMIT: Duration = Duration::from_secs(2);

/// Why monitoring a worker ended.
pub(super) enum MonitorError {
    /// Its output ended, or the process exited.
    Ended,
    /// Its output could not be read.
    Unreadable(io::Error),
    /// A line is not an event; with its beginning.
    Malformed(String),
    /// An event does not belong to a request, or too many events of a request are unread; with the
    /// request's id.
    Unexpected(RequestId),
    /// It did not end a cancelled request and sent nothing at all within this time.
    Unresponsive(Duration),
}

/// The process of a worker, with its output.
pub(super) struct Monitor {
    child: Child,
    lines: Lines<ChildStdout>,
    log: Log,
    /// Reads the log.
    log_task: JoinHandle<()>,
    open_requests: Arc<OpenRequests>,
    /// `None` means that no exit was observed.
    exit_status: Option<io::Result<ExitStatus>>,
    /// OOM kills on the system at the worker's start.
    kills_at_start: KillCount,
}

impl Monitor {
    /// Starts a worker. Returns its monitor and its standard input.
    pub fn start(command: &WorkerCommand, open_requests: Arc<OpenRequests>) -> Result<(Self, ChildStdin), StartError> {
        let kills_at_start = KillCount::now();
        let mut child = spawn(command)?;
        let missing_pipe = |pipe: &str| StartError::Refused {
            executable: command.executable.clone(),
            source: io::Error::other(format!("it has no {pipe}")),
        };
        let stdin = child.stdin.take().ok_or_else(|| missing_pipe("standard input"))?;
        let stdout = child.stdout.take().ok_or_else(|| missing_pipe("standard output"))?;
        let stderr = child.stderr.take().ok_or_else(|| missing_pipe("standard error"))?;
        let log = Log::default();
        let log_task = tokio::spawn(log.clone().follow(stderr));
        let monitor = Self {
            child,
            lines: Lines::for_messages(stdout),
            log,
            log_task,
            open_requests,
            exit_status: None,
            kills_at_start,
        };
        Ok((monitor, stdin))
    }

    /// Process id, until it exits.
    pub fn process_id(&self) -> Option<u32> {
        self.child.id()
    }

    /// The line of the log that says why the worker failed, if any.
    pub fn logged_failure(&self) -> Option<String> {
        self.log.failure()
    }

    /// Delivers events until the worker exits or is killed, and then fails all requests.
    pub async fn run(
        mut self,
        mut kill_receiver: mpsc::Receiver<MonitorError>,
        death_sender: watch::Sender<Option<Problem>>,
    ) {
        let error = loop {
            let event = tokio::select! {
                biased;
                Some(reason) = kill_receiver.recv() => Err(reason),
                event = self.read() => event,
            };
            let delivery = event.and_then(|event| {
                let id = event.id;
                self.open_requests
                    .deliver(event)
                    .map_err(|_| MonitorError::Unexpected(id))
            });
            if let Err(error) = delivery {
                break error;
            }
        };
        let problem = self.explain(error).await;
        // Exit code 0 is a requested shutdown.
        if !matches!(&self.exit_status, Some(Ok(status)) if status.success()) {
            tracing::warn!(%problem, "the worker has died");
        }
        // The reason is set first: callers of a failed request ask whether the worker is alive.
        death_sender.send_replace(Some(problem.clone()));
        self.open_requests.fail_all(&problem);
    }

    /// The first event, which belongs to no request.
    pub async fn next(&mut self) -> Result<Event, MonitorError> {
        let Envelope { id, message } = self.read().await?;
        match id {
            0 => Ok(message),
            id => Err(MonitorError::Unexpected(id)),
        }
    }

    /// The next event. Cancellation safe.
    async fn read(&mut self) -> Result<Envelope<Event>, MonitorError> {
        let line = loop {
            if self.exit_status.is_some() {
                // Its last output may still be in the pipe; a child process may keep it open.
                match timeout(EXIT_LIMIT, self.lines.next()).await {
                    Ok(line) => break line,
                    Err(_) => return Err(MonitorError::Ended),
                }
            }
            tokio::select! {
                biased;
                line = self.lines.next() => break line,
                status = self.child.wait() => self.exit_status = Some(status),
            }
        };
        match line {
            Ok(Some(line)) => serde_json::from_slice(&line).map_err(|_| MonitorError::Malformed(beginning(&line))),
            Ok(None) => Err(MonitorError::Ended),
            Err(error) => Err(MonitorError::Unreadable(error)),
        }
    }

    /// Kills the process if it still runs, and returns what happened.
    pub async fn explain(&mut self, error: MonitorError) -> Problem {
        if let (MonitorError::Ended, None) = (&error, &self.exit_status) {
            self.exit_status = timeout(EXIT_LIMIT, self.child.wait()).await.ok();
        }
        if let MonitorError::Ended = error {
            // The end of its log may still be in the pipe; a child process may keep it open.
            let _ = timeout(EXIT_LIMIT, &mut self.log_task).await;
        }
        let death = match (&error, &self.exit_status) {
            (MonitorError::Ended, Some(Ok(status))) => self.log.death(*status, self.kills_at_start),
            _ => Death::Other,
        };
        let reason = match (error, &self.exit_status) {
            (MonitorError::Ended, Some(Ok(_))) if death == Death::OutOfMemory => WorkerReason::OutOfMemory,
            (MonitorError::Ended, Some(Ok(_))) if death == Death::Killed => WorkerReason::Killed,
            (MonitorError::Ended, Some(status)) => WorkerReason::Exited {
                exit: worker_exit(status),
            },
            (MonitorError::Ended, None) => WorkerReason::ClosedOutput,
            (MonitorError::Malformed(line), _) => WorkerReason::InvalidMessage { line },
            (MonitorError::Unreadable(error), _) => WorkerReason::OutputUnreadable {
                detail: error.to_string(),
            },
            (MonitorError::Unexpected(request), _) => WorkerReason::UnaskedAnswer { request },
            (MonitorError::Unresponsive(limit), _) => WorkerReason::Silent {
                seconds: whole_seconds(limit),
            },
        };
        if !matches!(self.exit_status, Some(Ok(_))) {
            // An error means that it has already exited.
            let _ = self.child.kill().await;
        }
        let code = match death {
            Death::OutOfMemory => ProblemCode::OutOfMemory,
            Death::Killed | Death::Other => ProblemCode::WorkerDied,
        };
        with_log_line(Problem::new(code, reason), self.log.failure())
    }
}

/// The exit of the process.
fn worker_exit(status: &io::Result<ExitStatus>) -> WorkerExit {
    let status = match status {
        Ok(status) => status,
        Err(error) => {
            return WorkerExit::Unknown {
                detail: error.to_string(),
            };
        }
    };
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        if let Some(signal) = status.signal() {
            return WorkerExit::Signal { signal };
        }
    }
    status.code().map_or(WorkerExit::None, |code| WorkerExit::Code { code })
}

/// The beginning of a line without control characters, for a problem.
fn beginning(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(240)]);
    text.chars().filter(|c| !c.is_control()).take(60).collect()
}
