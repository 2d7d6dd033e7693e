//! The client: starts a worker, monitors it, and reports its death.

use crate::memory_death::{Death, KillCount};
use crate::{BUILD_SWITCHED, Event, PROTOCOL_VERSION, Problem, ProblemCode, Request, hidden_command};
use std::{
    collections::VecDeque,
    ffi::OsString,
    io,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    sync::mpsc,
    task::JoinHandle,
    time::timeout,
};

/// Maximum bytes of a line. The longest message, [`Event::Finished`], holds one id per token; a
/// million of them fit in half of it.
const MAX_LINE: usize = 16 << 20;

/// Capacity of the event queue. When it is full, the worker blocks on its pipe.
const EVENT_QUEUE: usize = 256;

/// Lines of the worker's log that a death report quotes.
const LOG_TAIL_LINES: usize = 12;

/// Time limit for a process to exit after its output ended, and for its last output after it
/// exited.
const EXIT_LIMIT: Duration = Duration::from_secs(2);

/// Command line and environment of a worker.
#[derive(Debug, Clone)]
pub struct WorkerCommand {
    /// The `hearth` executable.
    pub executable: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Additions to its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Time limit for [`Event::Ready`].
    pub ready_within: Duration,
}

impl WorkerCommand {
    /// `executable worker`, with half a minute to start: a virus scanner may read the whole
    /// executable first.
    pub fn new(executable: impl Into<PathBuf>) -> Self {
        Self {
            executable: executable.into(),
            arguments: vec!["worker".into()],
            environment: Vec::new(),
            ready_within: Duration::from_secs(30),
        }
    }

    /// The same for another build, which a worker asked to switch to ([`Event::SwitchBuild`]).
    #[must_use]
    pub fn for_build(&self, program: PathBuf) -> Self {
        let mut command = self.clone();
        command.executable = program;
        command.environment.push((BUILD_SWITCHED.into(), "1".into()));
        command
    }
}

/// Why a worker could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The executable does not exist.
    #[error("Hearth's worker is missing at {}. Reinstall Hearth, or build the whole workspace.", .0.display())]
    Missing(PathBuf),
    /// The operating system refused to start it.
    #[error("Hearth's worker at {} could not be started: {source}.", .executable.display())]
    Refused {
        /// The executable.
        executable: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It was not ready in time.
    #[error("Hearth's worker did not answer within {} seconds and was killed. Try again.{log}", .within.as_secs())]
    NotReady {
        /// The time limit.
        within: Duration,
        /// The end of its log, or empty.
        log: String,
    },
    /// Its first line is not [`Event::Ready`].
    #[error("{} is not Hearth's worker: its first message is invalid. Reinstall Hearth.{log}", .executable.display())]
    NotAWorker {
        /// The executable.
        executable: PathBuf,
        /// The end of its log, or empty.
        log: String,
    },
    /// Its protocol has another version.
    #[error("Hearth's worker (version {version}) belongs to another version of Hearth. Reinstall Hearth.")]
    OtherVersion {
        /// Hearth's version as reported by the worker.
        version: String,
    },
    /// It exited during its start.
    #[error("{0}")]
    Died(Problem),
}

impl From<StartError> for Problem {
    fn from(error: StartError) -> Self {
        Self {
            code: ProblemCode::WorkerDied,
            message: error.to_string(),
        }
    }
}

/// A message from the client's monitor of a worker.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerMessage {
    /// An event of the worker.
    Event(Event),
    /// The worker exited, or was killed because of an invalid message. This is the last message.
    Died(Problem),
}

/// The worker has exited; [`WorkerMessage::Died`] has the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the worker has exited")]
pub struct WorkerExited;

/// A running worker. Dropping it kills the process.
#[derive(Debug)]
pub struct Worker {
    requests: mpsc::UnboundedSender<Request>,
    monitor: JoinHandle<()>,
    process_id: Option<u32>,
}

impl Worker {
    /// Start a worker and wait until it is ready. Its messages arrive at the receiver in order; if
    /// the receiver is not polled, the worker blocks. Needs a tokio runtime with time and IO.
    pub async fn start(command: &WorkerCommand) -> Result<(Self, mpsc::Receiver<WorkerMessage>), StartError> {
        let kills = KillCount::now();
        let mut child = spawn(command)?;
        let process_id = child.id();
        let refused = |what: &str| StartError::Refused {
            executable: command.executable.clone(),
            source: io::Error::other(format!("it has no {what}")),
        };
        let stdin = child.stdin.take().ok_or_else(|| refused("standard input"))?;
        let stdout = child.stdout.take().ok_or_else(|| refused("standard output"))?;
        let stderr = child.stderr.take().ok_or_else(|| refused("standard error"))?;

        let log = Log::default();
        tokio::spawn(log.clone().follow(stderr));
        let mut monitor = Monitor {
            child,
            lines: Lines::new(stdout),
            log,
            ended: None,
            kills,
        };

        match timeout(command.ready_within, monitor.next()).await {
            Err(_) => {
                return Err(StartError::NotReady {
                    within: command.ready_within,
                    log: monitor.log.tail(),
                });
            }
            Ok(Ok(Event::Ready {
                protocol: PROTOCOL_VERSION,
                version,
            })) => {
                tracing::info!(version, process_id, "the worker is ready");
            }
            Ok(Ok(Event::Ready { version, .. })) => return Err(StartError::OtherVersion { version }),
            Ok(Ok(_)) | Ok(Err(MonitorError::Malformed(_))) => {
                return Err(StartError::NotAWorker {
                    executable: command.executable.clone(),
                    log: monitor.log.tail(),
                });
            }
            Ok(Err(error)) => return Err(StartError::Died(monitor.explain(error).await)),
        }

        let (requests, requested) = mpsc::unbounded_channel();
        tokio::spawn(write(stdin, requested));
        let (sender, messages) = mpsc::channel(EVENT_QUEUE);
        let monitor = tokio::spawn(monitor.run(sender));
        Ok((
            Self {
                requests,
                monitor,
                process_id,
            },
            messages,
        ))
    }

    /// Send a request. Success does not imply an answer: the worker may die at any time.
    pub fn send(&self, request: Request) -> Result<(), WorkerExited> {
        self.requests.send(request).map_err(|_| WorkerExited)
    }

    /// Process id, if known.
    pub fn process_id(&self) -> Option<u32> {
        self.process_id
    }

    /// Shut the worker down; kill it if it has not exited after `within`.
    pub async fn shut_down(mut self, within: Duration) {
        if self.send(Request::Shutdown).is_ok() && timeout(within, &mut self.monitor).await.is_err() {
            tracing::warn!("the worker did not shut down in time and is killed");
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The monitor owns the process, which was started with `kill_on_drop`.
        self.monitor.abort();
    }
}

fn spawn(command: &WorkerCommand) -> Result<Child, StartError> {
    let mut process = Command::from(hidden_command(&command.executable));
    process
        .args(&command.arguments)
        .envs(command.environment.iter().map(|(key, value)| (key, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    process.spawn().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => StartError::Missing(command.executable.clone()),
        _ => StartError::Refused {
            executable: command.executable.clone(),
            source,
        },
    })
}

/// Write requests until the channel or the pipe closes. The monitor reports a closed pipe.
async fn write(mut stdin: ChildStdin, mut requested: mpsc::UnboundedReceiver<Request>) {
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

/// Why monitoring a worker ended.
enum MonitorError {
    /// Its output ended, or the process exited.
    Ended,
    /// Its output could not be read.
    Unreadable(io::Error),
    /// A line is not an event; holds its beginning.
    Malformed(String),
}

struct Monitor {
    child: Child,
    lines: Lines<ChildStdout>,
    log: Log,
    ended: Option<io::Result<ExitStatus>>,
    /// OOM kills on the system at the worker's start.
    kills: KillCount,
}

impl Monitor {
    async fn run(mut self, messages: mpsc::Sender<WorkerMessage>) {
        let error = loop {
            match self.next().await {
                Ok(event) => {
                    if messages.send(WorkerMessage::Event(event)).await.is_err() {
                        return;
                    }
                }
                Err(error) => break error,
            }
        };
        let problem = self.explain(error).await;
        // Exit code 0 is a requested shutdown.
        if !matches!(&self.ended, Some(Ok(status)) if status.success()) {
            tracing::warn!(%problem, "the worker has died");
        }
        // The receiver may have been dropped.
        let _ = messages.send(WorkerMessage::Died(problem)).await;
    }

    async fn next(&mut self) -> Result<Event, MonitorError> {
        let line = loop {
            if self.ended.is_some() {
                // Its last output may still be in the pipe; a child process may hold that open.
                match timeout(EXIT_LIMIT, self.lines.next()).await {
                    Ok(line) => break line,
                    Err(_) => return Err(MonitorError::Ended),
                }
            }
            tokio::select! {
                biased;
                line = self.lines.next() => break line,
                status = self.child.wait() => self.ended = Some(status),
            }
        };
        match line {
            Ok(Some(line)) => serde_json::from_slice(&line).map_err(|_| MonitorError::Malformed(beginning(&line))),
            Ok(None) => Err(MonitorError::Ended),
            Err(error) => Err(MonitorError::Unreadable(error)),
        }
    }

    /// Kill the process if it still runs, and describe what happened in one sentence.
    async fn explain(&mut self, error: MonitorError) -> Problem {
        if let (MonitorError::Ended, None) = (&error, &self.ended) {
            self.ended = timeout(EXIT_LIMIT, self.child.wait()).await.ok();
        }
        let death = match (&error, &self.ended) {
            (MonitorError::Ended, Some(Ok(status))) => self.log.death(*status, self.kills),
            _ => Death::Other,
        };
        let what = match (&error, &self.ended) {
            (MonitorError::Ended, Some(Ok(_))) if death == Death::OutOfMemory => {
                "Hearth's worker ran out of memory.".to_owned()
            }
            (MonitorError::Ended, Some(Ok(_))) if death == Death::Killed => {
                "Hearth's worker was killed by the system or another program, perhaps because memory ran short."
                    .to_owned()
            }
            (MonitorError::Malformed(line), _) => {
                format!("Hearth's worker sent an invalid message (\u{201c}{line}\u{201d}) and was killed.")
            }
            (MonitorError::Unreadable(error), _) => {
                format!("The output of Hearth's worker could not be read ({error}), so it was killed.")
            }
            (MonitorError::Ended, Some(Ok(status))) => {
                format!("Hearth's worker exited unexpectedly ({}).", describe(*status))
            }
            (MonitorError::Ended, Some(Err(error))) => {
                format!("Hearth's worker exited unexpectedly ({error}).")
            }
            (MonitorError::Ended, None) => "Hearth's worker closed its output and was killed.".to_owned(),
        };
        if !matches!(self.ended, Some(Ok(_))) {
            // An error means that it has already exited.
            let _ = self.child.kill().await;
        }
        Problem {
            code: match death {
                Death::OutOfMemory => ProblemCode::OutOfMemory,
                Death::Killed | Death::Other => ProblemCode::WorkerDied,
            },
            message: what + &self.log.tail(),
        }
    }
}

/// The exit status in a few words.
fn describe(status: ExitStatus) -> String {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        if let Some(signal) = status.signal() {
            return format!("signal {signal}");
        }
    }
    match status.code() {
        Some(code) => format!("exit code {code}"),
        None => "no exit code".to_owned(),
    }
}

/// The beginning of a line without control characters, for a sentence.
fn beginning(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(240)]);
    text.chars().filter(|c| !c.is_control()).take(60).collect()
}

/// The lines of a stream, each at most [`MAX_LINE`]. `next` is cancellation safe.
struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    fn new(reader: R) -> Self {
        Self {
            reader: BufReader::new(reader),
            line: Vec::new(),
        }
    }

    async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let buffered = self.reader.fill_buf().await?;
            if buffered.is_empty() {
                // A last line without a line feed is truncated.
                return Ok(None);
            }
            let end = buffered.iter().position(|&byte| byte == b'\n');
            let taken = end.map_or(buffered.len(), |end| end + 1);
            self.line.extend_from_slice(&buffered[..taken]);
            self.reader.consume(taken);
            if self.line.len() > MAX_LINE {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line without an end"));
            }
            if end.is_some() {
                return Ok(Some(std::mem::take(&mut self.line)));
            }
        }
    }
}

/// The last lines of a worker's log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<VecDeque<String>>>);

impl Log {
    /// Forward the log to `tracing`, line by line, and retain the last lines.
    async fn follow(self, stderr: ChildStderr) {
        let mut lines = Lines::new(stderr);
        while let Ok(Some(line)) = lines.next().await {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            tracing::debug!(target: "worker", "{line}");
            let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if tail.len() == LOG_TAIL_LINES {
                tail.pop_front();
            }
            tail.push_back(line);
        }
    }

    /// Kind of the death of the process that wrote this log.
    fn death(&self, status: ExitStatus, started: KillCount) -> Death {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Death::of(status, started, KillCount::now(), tail.iter().map(String::as_str))
    }

    /// The last non-empty line, as the end of an error message; all retained lines go to `tracing`.
    fn tail(&self) -> String {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for line in tail.iter() {
            tracing::warn!(target: "worker", "{line}");
        }
        match tail.iter().rev().find(|line| !line.trim().is_empty()) {
            Some(line) => format!(
                " Last line of its log: \u{201c}{}\u{201d}.",
                line.trim().chars().take(200).collect::<String>()
            ),
            None => String::new(),
        }
    }
}
