//! Queries of the graphics drivers in a separate process, with a time limit, since drivers crash.

#[cfg(feature = "wgpu")]
use super::adapters;
#[cfg(feature = "cuda")]
use super::cuda;
use super::gpu::Gpu;
use super::merge::merge;
use super::{memory, nvml, sysfs, vulkan};
use crate::problem::panic_text;
use hearth_llm::Place;
use hearth_protocol::DeviceCheck;
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

/// Time limit of a device check, in which some hundreds of kernels are compiled. Software drivers
/// are slow.
const CHECK_LIMIT: Duration = Duration::from_secs(300);
const SOFTWARE_LIMIT: Duration = Duration::from_secs(900);

/// Environment variable that names the program to query with, instead of this one.
const PROGRAM: &str = "HEARTH_PROBE";

/// Environment variable of the querying process, which must not start another one.
const PROBING: &str = "HEARTH_PROBING";

/// Maximum bytes of an answer.
const MAX_ANSWER: u64 = 1 << 20;

/// Result of querying the graphics drivers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// All GPUs, the best kind first.
    pub gpus: Vec<Gpu>,
    /// Errors in whole sentences; then there is no GPU.
    pub problem: Option<String>,
}

/// Queries the graphics drivers in this process, which they may crash: the output of
/// `hearth probe`.
pub fn query() -> Probe {
    let sources = vec![
        #[cfg(feature = "wgpu")]
        adapters::seen(),
        #[cfg(feature = "cuda")]
        cuda::seen(),
        vulkan::seen(),
        nvml::seen(),
        sysfs::seen(),
    ];
    Probe {
        gpus: merge(sources, memory::memory()),
        problem: None,
    }
}

/// Checks a device in this process, which its driver may crash: the output of
/// `hearth probe --check`.
pub fn check_here(adapter: Option<usize>, small: bool) -> Result<DeviceCheck, String> {
    let place = adapter.map_or(Place::Cpu, Place::Gpu);
    let check = || crate::check::check(place, small).map_err(|error| error.to_string());
    catch_unwind(check).unwrap_or_else(|payload| Ok(failed(format!("The check crashed ({})", panic_text(&*payload)))))
}

/// A failed check with its reason, a sentence without its full stop.
fn failed(what: String) -> DeviceCheck {
    DeviceCheck {
        mismatch: Some(format!("{what}. Check it again.")),
        ..DeviceCheck::default()
    }
}

/// The program to query with: this one, unless the environment variable `HEARTH_PROBE` names
/// another.
pub fn this_program() -> Option<PathBuf> {
    named().or_else(|| std::env::current_exe().ok())
}

fn named() -> Option<PathBuf> {
    let program = std::env::var_os(PROGRAM).filter(|program| !program.is_empty());
    program.map(PathBuf::from)
}

/// Whether `HEARTH_PROBE` is set.
pub(super) fn is_named() -> bool {
    named().is_some()
}

/// Queries the graphics drivers by `program probe`, which is killed at the time limit. If it
/// crashes, hangs or prints malformed output, the result has no GPU, but a sentence.
pub fn probe(program: &Path, limit: Duration) -> Probe {
    let mut command = Command::new(program);
    // A test's executable refuses the option; otherwise it would run its tests with the command's
    // name.
    let queried = listen(command.args(["probe", "--json"]), limit, "queries the graphics drivers");
    queried.unwrap_or_else(|what| Probe {
        gpus: Vec::new(),
        problem: Some(format!("{what}. Hearth uses the CPU.")),
    })
}

/// Checks a device by `program probe --check`: the GPU with this index in that program's list, or
/// the CPU (`None`). A crash of the process is a failed check.
///
/// # Errors
/// The device cannot be checked now, for example because its memory is in use. A sentence, perhaps
/// with its full stop.
pub fn check(program: &Path, adapter: Option<usize>, small: bool) -> Result<DeviceCheck, String> {
    let mut command = Command::new(program);
    let which = adapter.map_or_else(|| "cpu".to_owned(), |number| number.to_string());
    command.args(["probe", "--json", "--check", &which]);
    if small {
        command.arg("--small");
    }
    let limit = if small { SOFTWARE_LIMIT } else { CHECK_LIMIT };
    let checked = listen::<Result<DeviceCheck, String>>(&mut command, limit, "checks the device");
    checked.unwrap_or_else(|what| Ok(failed(what)))
}

/// In a querying process, exit as soon as the process that asked has ended: its pipe closes then,
/// also if it is killed. Otherwise a check would occupy all cores for minutes, and a driver that
/// hangs for ever.
pub fn exit_with_parent() {
    if is_probing() {
        thread::spawn(|| {
            // Nothing is ever sent: this waits for the end.
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            // Without a driver's exit handlers, which may hang.
            #[cfg(unix)]
            // SAFETY: it ends the process and touches nothing of it.
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

/// Runs the command until it answers or the time limit expires. Returns the answer, or a sentence
/// without its full stop on the process that `does` this. The exit status does not tell whether the
/// driver or Hearth is at fault.
fn listen<T: DeserializeOwned + Send + 'static>(
    command: &mut Command,
    limit: Duration,
    does: &str,
) -> Result<T, String> {
    let started = command
        .env(PROBING, "1")
        // Held until the answer: see `exit_with_parent`.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            let program = Path::new(command.get_program()).display();
            return Err(format!("{program}, which {does}, could not be started ({error})"));
        }
    };
    let (sender, receiver) = channel();
    if let Some(output) = child.stdout.take() {
        thread::spawn(move || sender.send(answer(BufReader::new(output.take(MAX_ANSWER)))));
    }
    let answer = receiver.recv_timeout(limit);
    // A complete answer counts, whatever the driver does at exit. Another thread waits for the
    // process: one that hangs in the kernel cannot be killed.
    let _ = child.kill();
    let (ended, end) = channel();
    thread::spawn(move || ended.send(child.wait()));
    let hung = || {
        Err(format!(
            "The process that {does} did not answer within {} seconds",
            limit.as_secs()
        ))
    };
    match answer {
        Ok(Some(answer)) => Ok(answer),
        Ok(None) => match end.recv_timeout(limit) {
            Ok(Ok(status)) => Err(reason(status, does)),
            _ => hung(),
        },
        Err(_) => hung(),
    }
}

/// The line with the answer; drivers may print other lines. `None` if the output ends without one.
fn answer<T: DeserializeOwned>(output: impl BufRead) -> Option<T> {
    let mut lines = output.split(b'\n').map_while(Result::ok);
    lines.find_map(|line| serde_json::from_slice(&line).ok())
}

/// The reason why the process that `does` this ended without an answer.
fn reason(status: ExitStatus, does: &str) -> String {
    let crashed = |how| format!("The process that {does} crashed ({how})");
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return crashed(format!("signal {signal}"));
    }
    match status.code() {
        Some(0) | None => format!("The process that {does} gave no readable answer"),
        // Windows' exceptions are codes with the highest bit set.
        Some(code) if code < 0 => crashed(format!("exception {code:#010x}")),
        Some(code) => format!("The process that {does} failed (exit code {code})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const ACT: &str = "HEARTH_TEST_ACT";

    /// The answer of this executable, which runs only [`actor`] with this action.
    fn answer_of(act: &str, limit: Duration) -> Result<Probe, String> {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "hardware::probe::tests::actor", "--ignored", "--nocapture"]);
        listen(command.env(ACT, act), limit, "queries the graphics drivers")
    }

    fn problem(act: &str) -> String {
        answer_of(act, Duration::from_secs(60)).expect_err("a problem")
    }

    fn good() -> Probe {
        Probe {
            gpus: vec![Gpu {
                id: "gpu0".to_owned(),
                pci: "0000:01:00.0".parse().ok(),
                ..Gpu::default()
            }],
            problem: None,
        }
    }

    /// Not a test but the program that the others start.
    #[test]
    #[ignore = "started by the other tests"]
    fn actor() {
        let forever = || thread::sleep(Duration::from_secs(3600));
        let answer = || {
            let line = serde_json::to_string(&good()).unwrap();
            std::io::stdout()
                .write_all(format!("\na driver's own line\n{line}\n").as_bytes())
                .unwrap();
        };
        match &*std::env::var(ACT).expect("an action") {
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
            act => panic!("no action '{act}'"),
        }
    }

    #[test]
    fn a_driver_that_crashes_hangs_or_prints_garbage_costs_only_its_gpu() {
        assert!(problem("crash").contains("crashed"));
        assert!(problem("rubbish").contains("no readable answer"));
        assert!(problem("fail").contains("exit code 3"));
        let hung = answer_of("hang", Duration::from_secs(1)).expect_err("a problem");
        assert!(hung.contains("within 1 seconds"), "{hung}");
        let missing = probe(Path::new("no-such-program"), LIMIT).problem.unwrap();
        assert!(
            missing.starts_with("no-such-program") && missing.ends_with("Hearth uses the CPU."),
            "{missing}"
        );
        let mismatch = check(Path::new("no-such-program"), Some(0), true)
            .unwrap()
            .mismatch
            .unwrap();
        assert!(mismatch.starts_with("no-such-program"), "{mismatch}");
    }

    #[test]
    fn a_querying_process_ends_with_the_one_that_asked() {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "hardware::probe::tests::actor", "--ignored", "--nocapture"])
            .env(ACT, "hang until the parent ends")
            .env(PROBING, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        assert_eq!(answer(output), Some(good()), "it runs");
        assert!(child.try_wait().unwrap().is_none(), "it runs");
        drop(child.stdin.take());
        let (ended, end) = channel();
        thread::spawn(move || ended.send(child.wait()));
        let status = end.recv_timeout(Duration::from_secs(60)).expect("it ends");
        assert_eq!(status.unwrap().code(), Some(1));
    }

    #[test]
    fn a_complete_answer_counts_however_the_process_ends() {
        for act in ["answer and hang", "answer and crash"] {
            assert_eq!(answer_of(act, Duration::from_secs(60)), Ok(good()), "{act}");
        }
    }

    #[test]
    fn a_tests_executable_does_not_answer() {
        let probe = probe(&std::env::current_exe().unwrap(), Duration::from_secs(60));
        assert!(probe.problem.is_some_and(|problem| problem.contains("exit code")));
    }
}
