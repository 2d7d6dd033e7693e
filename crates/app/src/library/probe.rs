//! Reads untrusted files in a separate process: `hearth probe --files`.
//!
//! The process reads one [`Question`] a line and writes one [`Answer`] a line. It limits its own memory; the one that asks ends
//! it where a file takes too long. Where it ends early, the file that it was reading is at fault, and another process goes on with
//! the rest.

use super::Facts;
use hearth_formats::{adapter::AdapterFile, gguf::GgufFile};
use hearth_protocol::WorkerCommand;
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    io::{BufRead, BufReader, Read, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

/// The most memory the process may take, in bytes of its address space, on Linux. The largest header takes a quarter of it. macOS does
/// not enforce such a limit, and on other systems none is set: there the readers' own limits are the only ones.
#[cfg(unix)]
const MEMORY: u64 = 2 << 30;

/// The most seconds of processor time for all files, on Unix, so that a process that lost the one that asked ends.
#[cfg(unix)]
const PROCESSOR_SECONDS: u64 = 600;

/// How long the header of a model may take.
const MODEL_WITHIN: Duration = Duration::from_secs(20);

/// How long an adapter may take, whose numbers are all read.
const ADAPTER_WITHIN: Duration = Duration::from_secs(120);

/// How long a process that was told to end may take.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// The longest message of an answer, in characters.
const LONGEST_MESSAGE: usize = 2000;

/// The longest line of an answer, in bytes: a message of which each character is escaped.
const LONGEST_LINE: u64 = 64 << 10;

/// Bytes of the process's log that are looked at.
const LONGEST_LOG: u64 = 16 << 10;

/// What is to be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// The facts of a model.
    Model {
        /// Its file.
        path: PathBuf,
    },
    /// Whether an adapter fits a model.
    Adapter {
        /// Its file or folder.
        path: PathBuf,
        /// The model's file.
        model: PathBuf,
    },
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The facts of a model.
    Facts(Facts),
    /// The adapter fits.
    Fits,
    /// What is wrong: a sentence.
    Problem(String),
}

impl Question {
    fn within(&self) -> Duration {
        match self {
            Self::Model { .. } => MODEL_WITHIN,
            Self::Adapter { .. } => ADAPTER_WITHIN,
        }
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        let (path, model) = match self {
            Self::Model { path } => (path, None),
            Self::Adapter { path, model } => (path, Some(model)),
        };
        std::iter::once(path).chain(model).map(PathBuf::as_path)
    }

    fn path(&self) -> &Path {
        match self {
            Self::Model { path } | Self::Adapter { path, .. } => path,
        }
    }

    /// Reads the file in this process.
    pub fn answer(&self) -> Answer {
        match self {
            Self::Model { path } => Facts::read(path).map_or_else(Answer::Problem, Answer::Facts),
            Self::Adapter { path, model } => {
                let checked = GgufFile::open(model)
                    .map_err(|error| error.to_string())
                    .and_then(|model| AdapterFile::check_file(path, &model).map_err(|error| error.to_string()));
                checked.map_or_else(Answer::Problem, |_| Answer::Fits)
            }
        }
    }
}

/// Sets the process's limits, then answers one JSON [`Question`] a line until `questions` end.
///
/// # Errors
/// Reading or writing fails, or a line is not a question.
pub fn serve(
    questions: impl BufRead,
    mut answers: impl Write,
    answer: impl Fn(&Question) -> Answer,
) -> std::io::Result<()> {
    limit_this_process();
    for line in questions.lines() {
        let Ok(question) = serde_json::from_str::<Question>(&line?) else {
            return Err(std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                "a line is not a question",
            ));
        };
        let said = catch_unwind(AssertUnwindSafe(|| answer(&question))).unwrap_or_else(|_| {
            Answer::Problem(format!(
                "{}: Hearth made a mistake when it read this file. Get another one, and report this one.",
                question.path().display()
            ))
        });
        let said = match said {
            Answer::Problem(message) => Answer::Problem(message.chars().take(LONGEST_MESSAGE).collect()),
            other => other,
        };
        serde_json::to_writer(&mut answers, &said)?;
        answers.write_all(b"\n")?;
        answers.flush()?;
    }
    Ok(())
}

/// Limits what this process may take.
#[cfg(unix)]
fn limit_this_process() {
    let limits = [
        (libc::RLIMIT_AS, MEMORY, "memory"),
        (libc::RLIMIT_CPU, PROCESSOR_SECONDS, "processor time"),
        // A core of 2 GiB explains nothing that the message does not.
        (libc::RLIMIT_CORE, 0, "core"),
    ];
    for (resource, most, what) in limits {
        let limit = libc::rlimit {
            rlim_cur: most as libc::rlim_t,
            rlim_max: most as libc::rlim_t,
        };
        // SAFETY: the call reads one struct, which outlives it.
        if unsafe { libc::setrlimit(resource, &limit) } != 0 {
            let error = std::io::Error::last_os_error();
            tracing::warn!(what, %error, "a limit could not be set");
        }
    }
}

/// Does nothing on this system: only the readers' own limits hold.
#[cfg(not(unix))]
fn limit_this_process() {}

/// How the process is started.
#[derive(Debug, Clone)]
pub struct ProbeCommand {
    /// The `hearth` executable.
    pub program: PathBuf,
    /// Added to its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// How long a file may take; none: as long as files of its kind may.
    pub within: Option<Duration>,
}

impl From<&WorkerCommand> for ProbeCommand {
    /// The program that is the worker too.
    fn from(worker: &WorkerCommand) -> Self {
        Self {
            program: worker.executable.clone(),
            environment: worker.environment.clone(),
            within: None,
        }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failed {
    /// A sentence that names the file.
    pub message: String,
    /// Whether the same question may have an answer later.
    pub temporary: bool,
}

/// Asks all questions, in as few processes as it takes, and gives the answers in order.
pub(super) fn ask(command: &ProbeCommand, questions: &[Question]) -> Vec<Result<Answer, Failed>> {
    let mut answers = Vec::with_capacity(questions.len());
    while let Some(next) = questions.get(answers.len()) {
        if let Some(path) = next.paths().find(|path| path.to_str().is_none()) {
            answers.push(Err(Failed {
                message: format!(
                    "{}: the name has letters that Hearth cannot read. Rename the file or its folder.",
                    path.display()
                ),
                temporary: false,
            }));
            continue;
        }
        let rest = &questions[answers.len()..];
        let speakable = |question: &&Question| question.paths().all(|path| path.to_str().is_some());
        let batch: Vec<&Question> = rest.iter().take_while(speakable).collect();
        match Process::start(command) {
            Ok(process) => process.ask(command, &batch, &mut answers),
            Err(why) => answers.extend(rest.iter().map(|question| {
                Err(Failed {
                    message: format!("{}: {why}", question.path().display()),
                    temporary: true,
                })
            })),
        }
    }
    answers
}

/// A process that reads files.
struct Process {
    child: Child,
    lines: Receiver<String>,
    log: Receiver<String>,
}

impl Process {
    fn start(command: &ProbeCommand) -> Result<Self, String> {
        let mut process = Command::new(&command.program);
        process
            .args(["probe", "--files"])
            .envs(command.environment.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        #[cfg(windows)]
        {
            use std::os::windows::process::CommandExt;
            // It is a console program, and a window of its own would flash up.
            const CREATE_NO_WINDOW: u32 = 0x0800_0000;
            process.creation_flags(CREATE_NO_WINDOW);
        }
        let mut child = process.spawn().map_err(|error| {
            format!(
                "it was not read, since {} could not be started ({error}). Install Hearth again, or build it whole.",
                command.program.display()
            )
        })?;
        let (say, lines) = channel();
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                let mut output = BufReader::new(output);
                loop {
                    let mut line = String::new();
                    match output.by_ref().take(LONGEST_LINE).read_line(&mut line) {
                        Ok(count) if count > 0 && line.ends_with('\n') && say.send(line).is_ok() => {}
                        _ => return,
                    }
                }
            });
        }
        let (tell, log) = channel();
        if let Some(errors) = child.stderr.take() {
            thread::spawn(move || {
                let mut text = Vec::new();
                let mut errors = errors;
                // What could be read counts; the rest is read so that the process does not wait for it.
                let _ = errors.by_ref().take(LONGEST_LOG).read_to_end(&mut text);
                let _ = tell.send(String::from_utf8_lossy(&text).into_owned());
                let _ = std::io::copy(&mut errors, &mut std::io::sink());
            });
        }
        Ok(Self { child, lines, log })
    }

    /// Adds an answer for each question until one has none; what is wrong with that one then comes last.
    fn ask(mut self, command: &ProbeCommand, questions: &[&Question], answers: &mut Vec<Result<Answer, Failed>>) {
        if let Some(mut input) = self.child.stdin.take() {
            let asked: Vec<String> = questions.iter().filter_map(|q| serde_json::to_string(q).ok()).collect();
            // In a thread, since a process that does not listen would be waited for. One that has ended is told below.
            thread::spawn(move || drop(input.write_all((asked.join("\n") + "\n").as_bytes())));
        }
        for question in questions {
            let within = command.within.unwrap_or_else(|| question.within());
            match self.answer(within) {
                Ok(answer) => answers.push(Ok(answer)),
                Err(trouble) => {
                    answers.push(Err(self.explain(question, within, trouble)));
                    return;
                }
            }
        }
        self.end();
    }

    /// The next line that is an answer.
    fn answer(&self, within: Duration) -> Result<Answer, RecvTimeoutError> {
        loop {
            let line = self.lines.recv_timeout(within)?;
            if let Ok(answer) = serde_json::from_str(&line) {
                return Ok(answer);
            }
            tracing::warn!(line, "unexpected output of the process that reads files");
        }
    }

    /// Ends the process; how it ended, where that is known. One that hangs in the kernel is waited for elsewhere.
    fn end(mut self) -> (Option<ExitStatus>, String) {
        // It has said all that counts, or never will.
        let (ended, end) = channel();
        if end_of_itself(&mut self.child).is_none() {
            let _ = self.child.kill();
        }
        let mut child = self.child;
        thread::spawn(move || ended.send(child.wait().ok()));
        let status = end.recv_timeout(ENDS_WITHIN).ok().flatten();
        let log = self.log.recv_timeout(ENDS_WITHIN).unwrap_or_default();
        (status, log)
    }

    fn explain(self, question: &Question, within: Duration, trouble: RecvTimeoutError) -> Failed {
        let at = question.path().display().to_string();
        if trouble == RecvTimeoutError::Timeout {
            let mut this = self;
            let _ = this.child.kill();
            this.end();
            return Failed {
                message: format!(
                    "{at}: reading it took longer than {} seconds and was ended. Where it is on a slow drive, try again; else \
                     get another file.",
                    within.as_secs()
                ),
                temporary: true,
            };
        }
        let (status, log) = self.end();
        for line in log.lines() {
            tracing::warn!(line, "the process that reads files");
        }
        let why = match status {
            _ if log.contains("memory allocation of") => {
                "it takes more memory to read than any known model or adapter does".to_owned()
            }
            Some(status) if !was_killed(status) => {
                format!("the process that was reading it ended early ({})", told(status))
            }
            // Not the file's fault, as far as is known.
            _ => {
                return Failed {
                    message: format!(
                        "{at}: the process that was reading it was killed, perhaps because memory ran short. Close other programs, \
                         then try again."
                    ),
                    temporary: true,
                };
            }
        };
        Failed {
            message: format!("{at}: {why}, so it was not read. Get another file."),
            temporary: false,
        }
    }
}

/// How a process ended that closes its output; none where it goes on.
fn end_of_itself(child: &mut Child) -> Option<ExitStatus> {
    // What closed its output is about to end: its own end says more than ours.
    for _ in 0..50 {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(10));
    }
    None
}

/// How a process ended, in a few words.
fn told(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("signal {signal}");
    }
    match status.code() {
        Some(code) => format!("exit code {code}"),
        None => "no exit code".to_owned(),
    }
}

/// Whether the system or another program ended it by force, as Linux does where memory runs out.
#[cfg(unix)]
fn was_killed(status: ExitStatus) -> bool {
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(libc::SIGKILL)
}

#[cfg(not(unix))]
fn was_killed(_: ExitStatus) -> bool {
    false
}
