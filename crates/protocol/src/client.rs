//! The client: starts a worker, watches it, and says so when it dies.

use crate::memory_death::{Death, KillCount};
use crate::{Event, HANDED_OVER, PROTOCOL_VERSION, Problem, ProblemCode, Request};
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

/// A line longer than this is no message: the longest, [`Event::Finished`], holds one id a token, and a million of them
/// fit in half of it.
const LONGEST_LINE: usize = 16 << 20;

/// Events that may wait for the app. A worker that is further ahead waits itself, at its pipe.
const WAITING_EVENTS: usize = 256;

/// Lines of the worker's log that are kept to explain its death.
const KEPT_LOG_LINES: usize = 12;

/// How long a process may take to end, or to hand over what it last said, once one of the two has happened.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How a worker is started.
#[derive(Debug, Clone)]
pub struct WorkerCommand {
    /// The `hearth` executable.
    pub executable: PathBuf,
    /// What it is called with.
    pub arguments: Vec<OsString>,
    /// Added to its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// How long it may take to say [`Event::Ready`].
    pub ready_within: Duration,
}

impl WorkerCommand {
    /// `executable worker`, with half a minute to begin: a virus scanner may read the whole executable first.
    pub fn new(executable: impl Into<PathBuf>) -> Self {
        Self {
            executable: executable.into(),
            arguments: vec!["worker".into()],
            environment: Vec::new(),
            ready_within: Duration::from_secs(30),
        }
    }

    /// The same of another program, to which a worker of this one has handed its work over ([`Event::HandOver`]).
    #[must_use]
    pub fn handed_over(&self, program: PathBuf) -> Self {
        let mut command = self.clone();
        command.executable = program;
        command.environment.push((HANDED_OVER.into(), "1".into()));
        command
    }
}

/// Why a worker could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no such executable.
    #[error("Hearth's worker is not at {}. Install Hearth again, or build it whole.", .0.display())]
    Missing(PathBuf),
    /// The system refused to start it.
    #[error("The system did not start Hearth's worker at {}: {source}.", .executable.display())]
    Refused {
        /// Which.
        executable: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It said nothing for too long.
    #[error("Hearth's worker did not answer within {} seconds and was ended. Try again.{log}", .within.as_secs())]
    Silent {
        /// The limit.
        within: Duration,
        /// The end of its log, or nothing.
        log: String,
    },
    /// It began with something else than [`Event::Ready`].
    #[error("{} is not Hearth's worker: it did not say hello. Install Hearth again.{log}", .executable.display())]
    NotAWorker {
        /// Which.
        executable: PathBuf,
        /// The end of its log, or nothing.
        log: String,
    },
    /// It speaks another version of the protocol.
    #[error("Hearth's worker (version {version}) belongs to another version of Hearth. Install Hearth again.")]
    OtherVersion {
        /// Hearth's version as the worker says it.
        version: String,
    },
    /// It ended while it was starting.
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

/// What comes from a worker.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// The worker said it.
    Event(Event),
    /// The worker is gone, or was ended because what it said made no sense. Nothing comes after this.
    Died(Problem),
}

/// The worker is gone; [`Said::Died`] tells why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the worker has ended")]
pub struct Gone;

/// A running worker. Dropping it ends the process.
#[derive(Debug)]
pub struct Worker {
    requests: mpsc::UnboundedSender<Request>,
    watcher: JoinHandle<()>,
    process_id: Option<u32>,
}

impl Worker {
    /// Starts a worker and waits until it is ready. What it says from then on comes through the receiver, in order; a
    /// receiver that is not read makes the worker wait. Needs a tokio runtime with time and IO.
    pub async fn start(command: &WorkerCommand) -> Result<(Self, mpsc::Receiver<Said>), StartError> {
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
        let mut watch = Watch {
            child,
            lines: Lines::new(stdout),
            log,
            ended: None,
            kills,
        };

        match timeout(command.ready_within, watch.next()).await {
            Err(_) => {
                return Err(StartError::Silent {
                    within: command.ready_within,
                    log: watch.log.tail(),
                });
            }
            Ok(Ok(Event::Ready {
                protocol: PROTOCOL_VERSION,
                version,
            })) => {
                tracing::info!(version, process_id, "the worker is ready");
            }
            Ok(Ok(Event::Ready { version, .. })) => return Err(StartError::OtherVersion { version }),
            Ok(Ok(_)) | Ok(Err(Trouble::Nonsense(_))) => {
                return Err(StartError::NotAWorker {
                    executable: command.executable.clone(),
                    log: watch.log.tail(),
                });
            }
            Ok(Err(trouble)) => return Err(StartError::Died(watch.explain(trouble).await)),
        }

        let (requests, requested) = mpsc::unbounded_channel();
        tokio::spawn(write(stdin, requested));
        let (say, said) = mpsc::channel(WAITING_EVENTS);
        let watcher = tokio::spawn(watch.run(say));
        Ok((
            Self {
                requests,
                watcher,
                process_id,
            },
            said,
        ))
    }

    /// Sends a request. That it was taken says nothing about an answer: a worker may die at any time.
    pub fn send(&self, request: Request) -> Result<(), Gone> {
        self.requests.send(request).map_err(|_| Gone)
    }

    /// The system's number for the process, while it is known.
    pub fn process_id(&self) -> Option<u32> {
        self.process_id
    }

    /// Asks the worker to end, and ends it after `within` if it has not.
    pub async fn shut_down(mut self, within: Duration) {
        if self.send(Request::Shutdown).is_ok() && timeout(within, &mut self.watcher).await.is_err() {
            tracing::warn!("the worker did not end when asked and is ended");
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The watcher owns the process, which was started with `kill_on_drop`.
        self.watcher.abort();
    }
}

fn spawn(command: &WorkerCommand) -> Result<Child, StartError> {
    let mut process = Command::new(&command.executable);
    process
        .args(&command.arguments)
        .envs(command.environment.iter().map(|(key, value)| (key, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    #[cfg(windows)]
    {
        // The worker is a console program, and a window of its own would flash up.
        const CREATE_NO_WINDOW: u32 = 0x0800_0000;
        process.creation_flags(CREATE_NO_WINDOW);
    }
    process.spawn().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => StartError::Missing(command.executable.clone()),
        _ => StartError::Refused {
            executable: command.executable.clone(),
            source,
        },
    })
}

/// Writes requests until the channel or the pipe closes. A closed pipe is the watcher's to report.
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

/// What ends the watching of a worker.
enum Trouble {
    /// Its output ended, or it did.
    Ended,
    /// Its output could not be read.
    Unreadable(io::Error),
    /// A line that is no event; its beginning.
    Nonsense(String),
}

struct Watch {
    child: Child,
    lines: Lines<ChildStdout>,
    log: Log,
    ended: Option<io::Result<ExitStatus>>,
    /// How often the system had ended a process for want of memory when this one was started.
    kills: KillCount,
}

impl Watch {
    async fn run(mut self, say: mpsc::Sender<Said>) {
        let trouble = loop {
            match self.next().await {
                Ok(event) => {
                    if say.send(Said::Event(event)).await.is_err() {
                        return;
                    }
                }
                Err(trouble) => break trouble,
            }
        };
        let problem = self.explain(trouble).await;
        // One that ends by itself in good order was told to.
        if !matches!(&self.ended, Some(Ok(status)) if status.success()) {
            tracing::warn!(%problem, "the worker has died");
        }
        // Nobody listening is nobody to tell.
        let _ = say.send(Said::Died(problem)).await;
    }

    async fn next(&mut self) -> Result<Event, Trouble> {
        let line = loop {
            if self.ended.is_some() {
                // What it said before it ended may still be in the pipe; a process it left behind may hold that open.
                match timeout(LAST_WORDS, self.lines.next()).await {
                    Ok(line) => break line,
                    Err(_) => return Err(Trouble::Ended),
                }
            }
            tokio::select! {
                biased;
                line = self.lines.next() => break line,
                status = self.child.wait() => self.ended = Some(status),
            }
        };
        match line {
            Ok(Some(line)) => serde_json::from_slice(&line).map_err(|_| Trouble::Nonsense(beginning(&line))),
            Ok(None) => Err(Trouble::Ended),
            Err(error) => Err(Trouble::Unreadable(error)),
        }
    }

    /// Ends the process if it has not ended, and says in a sentence what happened.
    async fn explain(&mut self, trouble: Trouble) -> Problem {
        if let (Trouble::Ended, None) = (&trouble, &self.ended) {
            self.ended = timeout(LAST_WORDS, self.child.wait()).await.ok();
        }
        let death = match (&trouble, &self.ended) {
            (Trouble::Ended, Some(Ok(status))) => self.log.death(*status, self.kills),
            _ => Death::Other,
        };
        let what = match (&trouble, &self.ended) {
            (Trouble::Ended, Some(Ok(_))) if death == Death::OutOfMemory => {
                "Hearth's worker needed more memory than there was, and ended.".to_owned()
            }
            (Trouble::Ended, Some(Ok(_))) if death == Death::Killed => {
                "Hearth's worker was killed by the system or another program, perhaps because memory ran short."
                    .to_owned()
            }
            (Trouble::Nonsense(line), _) => {
                format!("Hearth's worker said something that makes no sense (\u{201c}{line}\u{201d}) and was ended.")
            }
            (Trouble::Unreadable(error), _) => {
                format!("Hearth's worker could not be heard any more ({error}) and was ended.")
            }
            (Trouble::Ended, Some(Ok(status))) => {
                format!("Hearth's worker ended unexpectedly ({}).", told(*status))
            }
            (Trouble::Ended, Some(Err(error))) => {
                format!("Hearth's worker ended unexpectedly ({error}).")
            }
            (Trouble::Ended, None) => "Hearth's worker went silent and was ended.".to_owned(),
        };
        if !matches!(self.ended, Some(Ok(_))) {
            // An error here means that it is gone already.
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

/// How a process ended, in a few words.
fn told(status: ExitStatus) -> String {
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

/// The beginning of a line, fit for a sentence.
fn beginning(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(240)]);
    text.chars().filter(|c| !c.is_control()).take(60).collect()
}

/// Lines of a stream, none longer than [`LONGEST_LINE`]. `next` may be dropped and called again: nothing is lost.
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
            let there = self.reader.fill_buf().await?;
            if there.is_empty() {
                // A last line without its end was cut off, and a cut message is none.
                return Ok(None);
            }
            let end = there.iter().position(|&byte| byte == b'\n');
            let taken = end.map_or(there.len(), |end| end + 1);
            self.line.extend_from_slice(&there[..taken]);
            self.reader.consume(taken);
            if self.line.len() > LONGEST_LINE {
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
    /// Hands the log on to `tracing`, line by line, and keeps the last.
    async fn follow(self, stderr: ChildStderr) {
        let mut lines = Lines::new(stderr);
        while let Ok(Some(line)) = lines.next().await {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            tracing::debug!(target: "worker", "{line}");
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() == KEPT_LOG_LINES {
                kept.pop_front();
            }
            kept.push_back(line);
        }
    }

    /// How a process ended whose log this is.
    fn death(&self, status: ExitStatus, started: KillCount) -> Death {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Death::of(status, started, KillCount::now(), kept.iter().map(String::as_str))
    }

    /// The last line that is not empty, as the end of a problem's text; all kept lines go to `tracing`.
    fn tail(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for line in kept.iter() {
            tracing::warn!(target: "worker", "{line}");
        }
        match kept.iter().rev().find(|line| !line.trim().is_empty()) {
            Some(line) => format!(
                " Its last words: \u{201c}{}\u{201d}.",
                line.trim().chars().take(200).collect::<String>()
            ),
            None => String::new(),
        }
    }
}
