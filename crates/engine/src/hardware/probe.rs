//! Queries the graphics drivers in a separate process with a time limit, since drivers crash.

#[cfg(feature = "wgpu")]
use super::adapters;
#[cfg(feature = "cuda")]
use super::cuda;
use super::gpu::Gpu;
use super::merge::merge;
use super::{memory, nvml, sysfs, vulkan};
use crate::problem::panic_text;
use hearth_llm::Place;
use hearth_protocol::{DeviceCheck, DriverProblem, Mismatch, ProcessFailure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read};
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// Time limit of the query.
pub const LIMIT: Duration = Duration::from_secs(10);

/// Time limit of a device check, which compiles some hundreds of kernels.
const CHECK_LIMIT: Duration = Duration::from_secs(300);
/// Time limit of the device check of a software driver, which is slow.
const SOFTWARE_LIMIT: Duration = Duration::from_secs(900);

/// Environment variable that names the program to query with, instead of this one.
const PROGRAM: &str = "HEARTH_PROBE";

/// Environment variable that marks a querying process, which must not start another one.
const PROBING: &str = "HEARTH_PROBING";

/// Maximum bytes of an answer.
const MAX_ANSWER: u64 = 1 << 20;

/// Result of querying the graphics drivers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// All GPUs, the best kind first.
    pub gpus: Vec<Gpu>,
    /// The reason why the drivers could not be queried, if so.
    pub problem: Option<DriverProblem>,
}

/// Queries the graphics drivers in this process, which they may crash. `hearth probe` prints the
/// result.
pub fn query() -> Probe {
    let sources = vec![
        #[cfg(feature = "wgpu")]
        adapters::list(),
        #[cfg(feature = "cuda")]
        cuda::list(),
        vulkan::list(),
        nvml::list(),
        sysfs::list(),
    ];
    Probe {
        gpus: merge(sources, memory::memory()),
        problem: None,
    }
}

/// Checks a device in this process, which its driver may crash. `hearth probe --check` prints the
/// result.
pub fn check_here(adapter: Option<usize>, small: bool) -> Result<DeviceCheck, String> {
    let place = adapter.map_or(Place::Cpu, Place::Gpu);
    let check = || crate::check::check(place, small).map_err(|error| error.to_string());
    catch_unwind(check).unwrap_or_else(|payload| {
        let detail = panic_text(&*payload).to_owned();
        Ok(failed_check(Mismatch::Crashed { detail }))
    })
}

fn failed_check(mismatch: Mismatch) -> DeviceCheck {
    DeviceCheck {
        mismatch: Some(mismatch),
        ..DeviceCheck::default()
    }
}

/// The program to query with: this one, unless the environment variable `HEARTH_PROBE` names
/// another.
pub fn this_program() -> Option<PathBuf> {
    program_from_environment().or_else(|| std::env::current_exe().ok())
}

fn program_from_environment() -> Option<PathBuf> {
    let program = std::env::var_os(PROGRAM).filter(|program| !program.is_empty());
    program.map(PathBuf::from)
}

/// Whether `HEARTH_PROBE` is set.
pub(super) fn is_program_overridden() -> bool {
    program_from_environment().is_some()
}

/// Queries the graphics drivers with `program probe`, which is killed at the time limit. If it
/// crashes, hangs or prints malformed output, the result has no GPU, but a problem.
pub fn probe(program: &Path, limit: Duration) -> Probe {
    let mut command = Command::new(program);
    // `--json` makes a test's executable fail, which would otherwise run the tests named "probe".
    run(command.args(["probe", "--json"]), limit).unwrap_or_else(|failure| Probe {
        gpus: Vec::new(),
        problem: Some(DriverProblem::Process { failure }),
    })
}

/// Checks a device with `program probe --check`: the GPU with this index in that program's list, or
/// the CPU (`None`). A crash of the process is a failed check.
///
/// # Errors
/// The device cannot be checked now, for example because its memory is in use. The message may or
/// may not end with a full stop.
pub fn check(program: &Path, adapter: Option<usize>, small: bool) -> Result<DeviceCheck, String> {
    let mut command = Command::new(program);
    let device = adapter.map_or_else(|| "cpu".to_owned(), |index| index.to_string());
    command.args(["probe", "--json", "--check", &device]);
    if small {
        command.arg("--small");
    }
    let limit = if small { SOFTWARE_LIMIT } else { CHECK_LIMIT };
    let result = run::<Result<DeviceCheck, String>>(&mut command, limit);
    result.unwrap_or_else(|failure| Ok(failed_check(Mismatch::Process { failure })))
}

/// In a querying process, exits as soon as the parent process has exited or was killed, which
/// closes the pipe to stdin. Otherwise a check would use all cores for minutes, and a driver that
/// hangs would keep the process forever.
pub fn exit_with_parent() {
    if is_probing() {
        thread::spawn(|| {
            // The parent sends nothing, so this returns when the pipe is closed.
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            // `_exit` skips the exit handlers of drivers, which may hang.
            #[cfg(unix)]
            // SAFETY: `_exit` ends the process and has no preconditions.
            unsafe {
                libc::_exit(1)
            }
            #[cfg(not(unix))]
            std::process::abort();
        });
    }
}

/// Whether this is a querying process.
pub(super) fn is_probing() -> bool {
    std::env::var_os(PROBING).is_some()
}

/// Runs the command until it answers or the time limit expires. The exit status does not tell
/// whether the driver or Hearth is at fault.
fn run<T: DeserializeOwned + Send + 'static>(command: &mut Command, limit: Duration) -> Result<T, ProcessFailure> {
    let spawned = command
        .env(PROBING, "1")
        // Open until this process exits: see `exit_with_parent`.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            return Err(ProcessFailure::NotStarted {
                program: command.get_program().to_string_lossy().into_owned(),
                detail: error.to_string(),
            });
        }
    };
    let (sender, receiver) = channel();
    if let Some(output) = child.stdout.take() {
        thread::spawn(move || sender.send(read_answer(BufReader::new(output.take(MAX_ANSWER)))));
    }
    let answer = receiver.recv_timeout(limit);
    // A complete answer counts, whatever the driver does at exit. Another thread waits for the
    // process, since a process that hangs in the kernel cannot be killed.
    let _ = child.kill();
    let (status_sender, status) = channel();
    thread::spawn(move || status_sender.send(child.wait()));
    let timed_out = || {
        Err(ProcessFailure::TimedOut {
            seconds: limit.as_secs(),
        })
    };
    match answer {
        Ok(Some(answer)) => Ok(answer),
        Ok(None) => match status.recv_timeout(limit) {
            Ok(Ok(status)) => Err(failure(status)),
            _ => timed_out(),
        },
        Err(_) => timed_out(),
    }
}

/// Reads the answer, which is one line; drivers may print other lines. `None` if the output ends
/// without an answer.
fn read_answer<T: DeserializeOwned>(output: impl BufRead) -> Option<T> {
    let mut lines = output.split(b'\n').map_while(Result::ok);
    lines.find_map(|line| serde_json::from_slice(&line).ok())
}

/// The failure of a process that exited without an answer.
fn failure(status: ExitStatus) -> ProcessFailure {
    let crashed = |detail| ProcessFailure::Crashed { detail };
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return crashed(format!("signal {signal}"));
    }
    match status.code() {
        Some(0) | None => ProcessFailure::NoAnswer,
        // Windows' exceptions are codes with the highest bit set.
        Some(code) if code < 0 => crashed(format!("exception {code:#010x}")),
        Some(code) => ProcessFailure::Exited { code },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const ACTION: &str = "HEARTH_TEST_ACT";

    /// The answer of this executable, which runs only [`actor`] with this action.
    fn answer_of(action: &str, limit: Duration) -> Result<Probe, ProcessFailure> {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "hardware::probe::tests::actor", "--ignored", "--nocapture"]);
        run(command.env(ACTION, action), limit)
    }

    fn failure_of(action: &str) -> ProcessFailure {
        answer_of(action, Duration::from_secs(60)).expect_err("a failure")
    }

    fn expected_probe() -> Probe {
        Probe {
            gpus: vec![Gpu {
                id: "gpu0".to_owned(),
                pci: "0000:01:00.0".parse().ok(),
                ..Gpu::default()
            }],
            problem: None,
        }
    }

    /// The program that the other tests start; not a test.
    #[test]
    #[ignore = "started by the other tests"]
    fn actor() {
        let forever = || thread::sleep(Duration::from_secs(3600));
        let answer = || {
            let line = serde_json::to_string(&expected_probe()).unwrap();
            std::io::stdout()
                .write_all(format!("\na driver's own line\n{line}\n").as_bytes())
                .unwrap();
        };
        match &*std::env::var(ACTION).expect("an action") {
            "crash" => std::process::abort(),
            "hang" => forever(),
            "hang until the parent ends" => {
                exit_with_parent();
                answer();
                forever();
            }
            "rubbish" => println!("\n{{\"gpus\": 3}}"),
            "fail" => std::process::exit(3),
            "answer and hang" => {
                answer();
                forever();
            }
            "answer and crash" => {
                answer();
                std::process::abort();
            }
            action => panic!("no action '{action}'"),
        }
    }

    #[test]
    fn a_driver_that_crashes_hangs_or_prints_garbage_costs_only_its_gpu() {
        // An abort is an exit code on Windows.
        assert!(
            matches!(
                failure_of("crash"),
                ProcessFailure::Crashed { .. } | ProcessFailure::Exited { .. }
            ),
            "{:?}",
            failure_of("crash")
        );
        assert_eq!(failure_of("rubbish"), ProcessFailure::NoAnswer);
        assert_eq!(failure_of("fail"), ProcessFailure::Exited { code: 3 });
        let hung = answer_of("hang", Duration::from_secs(1)).expect_err("a failure");
        assert_eq!(hung, ProcessFailure::TimedOut { seconds: 1 });
        let missing = probe(Path::new("no-such-program"), LIMIT).problem.unwrap().to_string();
        assert!(
            missing.contains("no-such-program") && missing.ends_with("Hearth uses the CPU."),
            "{missing}"
        );
        let check = check(Path::new("no-such-program"), Some(0), true).unwrap();
        let mismatch = check.mismatch.unwrap().to_string();
        assert!(mismatch.contains("no-such-program"), "{mismatch}");
    }

    #[test]
    fn a_querying_process_ends_with_the_one_that_asked() {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "hardware::probe::tests::actor", "--ignored", "--nocapture"])
            .env(ACTION, "hang until the parent ends")
            .env(PROBING, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        assert_eq!(read_answer(output), Some(expected_probe()), "it runs");
        assert!(child.try_wait().unwrap().is_none(), "it runs");
        drop(child.stdin.take());
        let (sender, receiver) = channel();
        thread::spawn(move || sender.send(child.wait()));
        let status = receiver.recv_timeout(Duration::from_secs(60)).expect("it ends");
        assert_eq!(status.unwrap().code(), Some(1));
    }

    #[test]
    fn a_complete_answer_counts_however_the_process_ends() {
        for action in ["answer and hang", "answer and crash"] {
            assert_eq!(
                answer_of(action, Duration::from_secs(60)),
                Ok(expected_probe()),
                "{action}"
            );
        }
    }

    #[test]
    fn a_tests_executable_does_not_answer() {
        let probe = probe(&std::env::current_exe().unwrap(), Duration::from_secs(60));
        assert!(
            probe
                .problem
                .is_some_and(|problem| problem.to_string().contains("exit code"))
        );
    }
}
