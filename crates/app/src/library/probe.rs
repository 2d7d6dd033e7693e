//! Reads untrusted files in a separate process: `hearth probe --files`.
//!
//! The process reads one JSON [`ProbeRequest`] per line and writes one [`ProbeResponse`] per line.
//! It limits its own memory; the parent kills it if a file takes too long. If it exits early, the
//! file it was reading gets the error, and another process reads the rest.

use super::metadata::{MetadataError, ModelMetadata, chat_template, invalid};
use crate::wire::{Problem, ProblemCode, Reason};
use hearth_formats::{
    adapter::{AdapterFile, AdapterHeader, Fingerprint},
    gguf::GgufFile,
};
use hearth_protocol::{ModelsReason, WorkerCommand, hidden_command};
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    io::{BufRead, BufReader, Read, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::{Child, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

/// Limit of the process's address space in bytes, on Linux. The largest header takes a quarter of
/// it. macOS does not enforce the limit and other systems have none: there, only the readers' own
/// limits hold.
#[cfg(unix)]
const MAX_MEMORY: u64 = 2 << 30;

/// Limit of CPU time for all files in seconds, on Unix, so that an orphaned process ends.
#[cfg(unix)]
const MAX_CPU_SECONDS: u64 = 600;

/// Time limit of reading a model's header.
const MODEL_TIMEOUT: Duration = Duration::from_secs(20);

/// Time limit of reading an adapter, whose values are all read.
const ADAPTER_TIMEOUT: Duration = Duration::from_secs(120);

/// Time limit for the exit of a killed process.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Most characters of the detail of a response's problem.
const MAX_DETAIL_CHARS: usize = 2000;

/// Most bytes of a response's line: the longest chat template that is shown, with all of its
/// characters escaped.
const MAX_LINE_BYTES: u64 = 2 << 20;

/// Most bytes read of the process's log.
const MAX_LOG_BYTES: u64 = 16 << 10;

/// A request to read a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeRequest {
    /// Reads the metadata of a model.
    Model {
        /// Its file.
        path: PathBuf,
    },
    /// Checks that an adapter fits a model.
    Adapter {
        /// Its file or folder.
        path: PathBuf,
        /// The model's file.
        model: PathBuf,
    },
    /// The source of a model's chat template.
    ChatTemplate {
        /// The model's file.
        path: PathBuf,
    },
    /// The headers of an adapter.
    AdapterHeader {
        /// Its file or folder.
        path: PathBuf,
    },
    /// The fingerprint of a model.
    Fingerprint {
        /// Its file.
        path: PathBuf,
    },
}

/// The response to a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeResponse {
    /// The metadata of a model.
    Metadata(ModelMetadata),
    /// The file is no model but an adapter.
    IsAdapter,
    /// The source of a chat template. `None` means that the file has none.
    ChatTemplate(Option<String>),
    /// The adapter fits.
    Fits,
    /// The headers of an adapter.
    AdapterHeader(AdapterHeader),
    /// The fingerprint of a model.
    Fingerprint(Fingerprint),
    /// The model's file lacks bytes at its end.
    Incomplete(Problem),
    /// An error.
    Problem(Problem),
}

impl ProbeRequest {
    fn timeout(&self) -> Duration {
        match self {
            Self::Model { .. } | Self::ChatTemplate { .. } | Self::AdapterHeader { .. } => MODEL_TIMEOUT,
            Self::Adapter { .. } | Self::Fingerprint { .. } => ADAPTER_TIMEOUT,
        }
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        let (path, model) = match self {
            Self::Adapter { path, model } => (path, Some(model)),
            Self::Model { path }
            | Self::ChatTemplate { path }
            | Self::AdapterHeader { path }
            | Self::Fingerprint { path } => (path, None),
        };
        std::iter::once(path).chain(model).map(PathBuf::as_path)
    }

    /// The file that is read.
    pub fn path(&self) -> &Path {
        match self {
            Self::Model { path }
            | Self::ChatTemplate { path }
            | Self::Adapter { path, .. }
            | Self::AdapterHeader { path }
            | Self::Fingerprint { path } => path,
        }
    }

    /// Executes the request in this process.
    pub fn execute(&self) -> ProbeResponse {
        match self {
            Self::Model { path } => match ModelMetadata::read(path) {
                Ok(metadata) => ProbeResponse::Metadata(metadata),
                Err(MetadataError::IsAdapter(_)) => ProbeResponse::IsAdapter,
                Err(MetadataError::Incomplete(problem)) => ProbeResponse::Incomplete(problem),
                Err(MetadataError::Unreadable(problem)) => ProbeResponse::Problem(problem),
            },
            Self::ChatTemplate { path } => {
                chat_template(path).map_or_else(ProbeResponse::Problem, ProbeResponse::ChatTemplate)
            }
            Self::Adapter { path, model } => {
                let checked = GgufFile::open(model)
                    .map_err(invalid)
                    .and_then(|model| AdapterFile::check_file(path, &model).map_err(invalid_adapter));
                checked.map_or_else(ProbeResponse::Problem, |_| ProbeResponse::Fits)
            }
            Self::AdapterHeader { path } => match AdapterHeader::open(path) {
                Ok(header) => ProbeResponse::AdapterHeader(header),
                Err(error) => ProbeResponse::Problem(invalid_adapter(error)),
            },
            Self::Fingerprint { path } => match GgufFile::open(path).and_then(|model| Fingerprint::from_gguf(&model)) {
                Ok(fingerprint) => ProbeResponse::Fingerprint(fingerprint),
                Err(error) => ProbeResponse::Problem(invalid(error)),
            },
        }
    }
}

/// The problem of a file that is not a valid adapter, with the reader's error.
fn invalid_adapter(error: impl ToString) -> Problem {
    Problem::detail(ProblemCode::AdapterInvalid, error)
}

/// Sets the process's limits, then responds to one JSON [`ProbeRequest`] per line until the end of
/// `requests`.
///
/// # Errors
/// Reading or writing fails, or a line is malformed.
pub fn serve(
    requests: impl BufRead,
    mut responses: impl Write,
    execute: impl Fn(&ProbeRequest) -> ProbeResponse,
) -> std::io::Result<()> {
    set_resource_limits();
    for line in requests.lines() {
        let Ok(request) = serde_json::from_str::<ProbeRequest>(&line?) else {
            return Err(std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                "a line is not a request",
            ));
        };
        let response = catch_unwind(AssertUnwindSafe(|| execute(&request))).unwrap_or_else(|_| {
            let path = request.path().display().to_string();
            ProbeResponse::Problem(Problem::new(
                ProblemCode::FileInvalid,
                ModelsReason::ReaderPanicked { path },
            ))
        });
        let response = match response {
            ProbeResponse::Problem(problem) => ProbeResponse::Problem(truncate_detail(problem)),
            ProbeResponse::Incomplete(problem) => ProbeResponse::Incomplete(truncate_detail(problem)),
            other => other,
        };
        serde_json::to_writer(&mut responses, &response)?;
        responses.write_all(b"\n")?;
        responses.flush()?;
    }
    Ok(())
}

/// Truncates a problem's detail, which may quote the file.
fn truncate_detail(problem: Problem) -> Problem {
    match *problem.reason {
        Reason::Detail { detail } => {
            let start: String = detail.chars().take(MAX_DETAIL_CHARS).collect();
            Problem::detail(problem.code, start)
        }
        _ => problem,
    }
}

/// Sets resource limits of this process.
#[cfg(unix)]
fn set_resource_limits() {
    let limits = [
        (libc::RLIMIT_AS, MAX_MEMORY, "memory"),
        (libc::RLIMIT_CPU, MAX_CPU_SECONDS, "CPU time"),
        // A core dump of up to 2 GiB has no information beyond the message.
        (libc::RLIMIT_CORE, 0, "core"),
    ];
    for (resource, max, name) in limits {
        let limit = libc::rlimit {
            rlim_cur: max as libc::rlim_t,
            rlim_max: max as libc::rlim_t,
        };
        // SAFETY: the call reads one struct, which outlives it.
        if unsafe { libc::setrlimit(resource, &limit) } != 0 {
            let error = std::io::Error::last_os_error();
            tracing::warn!(name, %error, "a limit could not be set");
        }
    }
}

/// Does nothing: on this system only the readers' own limits apply.
#[cfg(not(unix))]
fn set_resource_limits() {}

/// The command that starts a probe.
#[derive(Debug, Clone)]
pub struct ProbeCommand {
    /// The `hearth` executable.
    pub program: PathBuf,
    /// Additional environment variables.
    pub environment: Vec<(OsString, OsString)>,
    /// Time limit per file. `None` means the limit of its kind.
    pub timeout: Option<Duration>,
}

impl From<&WorkerCommand> for ProbeCommand {
    /// The worker's program.
    fn from(worker: &WorkerCommand) -> Self {
        Self {
            program: worker.executable.clone(),
            environment: worker.environment.clone(),
            timeout: None,
        }
    }
}

/// The error of a request without a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProbeError {
    /// The error for the user.
    pub problem: Problem,
    /// Whether a retry may succeed.
    pub temporary: bool,
}

impl ProbeError {
    fn new(reason: ModelsReason, temporary: bool) -> Self {
        Self {
            problem: Problem::new(ProblemCode::FileInvalid, reason),
            temporary,
        }
    }
}

/// Executes requests, in as few processes as possible. Returns the responses in order.
pub(super) fn run(command: &ProbeCommand, requests: &[ProbeRequest]) -> Vec<Result<ProbeResponse, ProbeError>> {
    let mut responses = Vec::with_capacity(requests.len());
    while let Some(next) = requests.get(responses.len()) {
        if let Some(path) = next.paths().find(|path| path.to_str().is_none()) {
            let path = path.display().to_string();
            responses.push(Err(ProbeError::new(ModelsReason::UnreadablePath { path }, false)));
            continue;
        }
        let rest = &requests[responses.len()..];
        let has_utf8_paths = |request: &&ProbeRequest| request.paths().all(|path| path.to_str().is_some());
        let batch: Vec<&ProbeRequest> = rest.iter().take_while(has_utf8_paths).collect();
        match Process::start(command) {
            Ok(process) => process.run(command, &batch, &mut responses),
            Err(error) => responses.extend(rest.iter().map(|request| {
                let reason = ModelsReason::ReaderNotStarted {
                    path: request.path().display().to_string(),
                    program: command.program.display().to_string(),
                    detail: error.to_string(),
                };
                Err(ProbeError::new(reason, true))
            })),
        }
    }
    responses
}

/// A probe process.
struct Process {
    child: Child,
    lines: Receiver<String>,
    log: Receiver<String>,
}

impl Process {
    fn start(command: &ProbeCommand) -> std::io::Result<Self> {
        let mut process = hidden_command(&command.program);
        process
            .args(["probe", "--files"])
            .envs(command.environment.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = process.spawn()?;
        let (line_sender, lines) = channel();
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                let mut output = BufReader::new(output);
                loop {
                    let mut line = String::new();
                    match output.by_ref().take(MAX_LINE_BYTES).read_line(&mut line) {
                        Ok(count) if count > 0 && line.ends_with('\n') && line_sender.send(line).is_ok() => {}
                        _ => return,
                    }
                }
            });
        }
        let (log_sender, log) = channel();
        if let Some(errors) = child.stderr.take() {
            thread::spawn(move || {
                let mut text = Vec::new();
                let mut errors = errors;
                // After an error, the bytes read so far are used. The rest is drained so that the
                // process does not block.
                let _ = errors.by_ref().take(MAX_LOG_BYTES).read_to_end(&mut text);
                let _ = log_sender.send(String::from_utf8_lossy(&text).into_owned());
                let _ = std::io::copy(&mut errors, &mut std::io::sink());
            });
        }
        Ok(Self { child, lines, log })
    }

    /// Adds a response for each request, up to the first that fails, whose error is last.
    fn run(
        mut self,
        command: &ProbeCommand,
        requests: &[&ProbeRequest],
        responses: &mut Vec<Result<ProbeResponse, ProbeError>>,
    ) {
        if let Some(mut input) = self.child.stdin.take() {
            let lines: Vec<String> = requests
                .iter()
                .filter_map(|request| serde_json::to_string(request).ok())
                .collect();
            // A thread writes the requests, because a process that does not read would block the
            // caller. The exit of the process is handled below.
            thread::spawn(move || drop(input.write_all((lines.join("\n") + "\n").as_bytes())));
        }
        for request in requests {
            let timeout = command.timeout.unwrap_or_else(|| request.timeout());
            match self.next_response(timeout) {
                Ok(response) => responses.push(Ok(response)),
                Err(error) => {
                    responses.push(Err(self.into_error(request, timeout, error)));
                    return;
                }
            }
        }
        self.end();
    }

    /// The next response.
    fn next_response(&self, timeout: Duration) -> Result<ProbeResponse, RecvTimeoutError> {
        loop {
            let line = self.lines.recv_timeout(timeout)?;
            if let Ok(response) = serde_json::from_str(&line) {
                return Ok(response);
            }
            tracing::warn!(line, "unexpected output of a probe");
        }
    }

    /// Ends the process. Returns its exit status, if known, and its log. A thread waits for the
    /// exit, because a process may hang in the kernel.
    fn end(mut self) -> (Option<ExitStatus>, String) {
        let (status_sender, status) = channel();
        if wait_for_exit(&mut self.child).is_none() {
            let _ = self.child.kill();
        }
        let mut child = self.child;
        thread::spawn(move || status_sender.send(child.wait().ok()));
        let status = status.recv_timeout(EXIT_TIMEOUT).ok().flatten();
        let log = self.log.recv_timeout(EXIT_TIMEOUT).unwrap_or_default();
        (status, log)
    }

    fn into_error(self, request: &ProbeRequest, timeout: Duration, error: RecvTimeoutError) -> ProbeError {
        let path = request.path().display().to_string();
        if error == RecvTimeoutError::Timeout {
            let mut this = self;
            let _ = this.child.kill();
            this.end();
            let seconds = timeout.as_secs();
            return ProbeError::new(ModelsReason::ReaderTimedOut { path, seconds }, true);
        }
        let (status, log) = self.end();
        for line in log.lines() {
            tracing::warn!(line, "a probe's log");
        }
        match status {
            _ if log.contains("memory allocation of") => {
                ProbeError::new(ModelsReason::ReaderOutOfMemory { path }, false)
            }
            Some(status) if !was_killed(status) => ProbeError::new(exit_reason(path, status), false),
            // A kill from outside is probably not caused by the file.
            _ => ProbeError::new(ModelsReason::ReaderKilled { path }, true),
        }
    }
}

/// Waits up to two seconds for the exit of a process. `None` means that it is still running.
fn wait_for_exit(child: &mut Child) -> Option<ExitStatus> {
    // The exit status of the process has more information than the status after a kill.
    for _ in 0..200 {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(10));
    }
    None
}

/// The reason of a process that exited while it read a file.
fn exit_reason(path: String, status: ExitStatus) -> ModelsReason {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return ModelsReason::ReaderSignaled { path, signal };
    }
    match status.code() {
        Some(exit_code) => ModelsReason::ReaderExited { path, exit_code },
        // Every system reports a signal or an exit code.
        None => ModelsReason::NotRead { path },
    }
}

/// Whether the process was killed, for example by Linux's out-of-memory killer.
#[cfg(unix)]
fn was_killed(status: ExitStatus) -> bool {
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(libc::SIGKILL)
}

#[cfg(not(unix))]
fn was_killed(_: ExitStatus) -> bool {
    false
}
