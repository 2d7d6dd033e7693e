//! Asking the graphics drivers in a process of its own, with a time limit, since drivers crash.

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

/// How long the drivers may take to say what they can do.
pub const LIMIT: Duration = Duration::from_secs(10);

/// How long a check of one device may take: some hundreds of kernels are translated for it. A driver in software takes its time.
const CHECK_LIMIT: Duration = Duration::from_secs(300);
const SOFTWARE_LIMIT: Duration = Duration::from_secs(900);

/// Names the program that asks, in place of this one.
const PROGRAM: &str = "HEARTH_PROBE";

/// Set in the process that asks, which therefore starts no other.
const ASKING: &str = "HEARTH_PROBING";

/// More than this, in bytes, is no answer.
const LONGEST: u64 = 1 << 20;

/// What the graphics drivers said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Every GPU once, the best kind first.
    pub gpus: Vec<Gpu>,
    /// What went wrong when they were asked, in whole sentences; then there is no GPU.
    pub problem: Option<String>,
}

/// Asks the graphics drivers in this process, which they may crash: what `hearth probe` prints.
pub fn ask() -> Probe {
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

/// Checks a device in this process, which its driver may crash: what `hearth probe --check` prints.
pub fn check_here(adapter: Option<usize>, small: bool) -> Result<DeviceCheck, String> {
    let place = adapter.map_or(Place::Cpu, Place::Gpu);
    let check = || crate::check::check(place, small).map_err(|error| error.to_string());
    catch_unwind(check).unwrap_or_else(|payload| {
        Ok(wrong(format!(
            "It fails in the middle of its work ({})",
            panic_text(&*payload)
        )))
    })
}

/// A device that cannot be used because of this, a sentence without its full stop.
fn wrong(what: String) -> DeviceCheck {
    DeviceCheck {
        wrong: Some(format!(
            "{what}. It can be checked again in the settings, or with `hearth devices --check`."
        )),
        ..DeviceCheck::default()
    }
}

/// The program that is asked: this one, unless the environment variable `HEARTH_PROBE` names another.
pub fn this_program() -> Option<PathBuf> {
    named().or_else(|| std::env::current_exe().ok())
}

fn named() -> Option<PathBuf> {
    let program = std::env::var_os(PROGRAM).filter(|program| !program.is_empty());
    program.map(PathBuf::from)
}

/// Whether another program than this one is asked.
pub(super) fn is_named() -> bool {
    named().is_some()
}

/// Asks the graphics drivers by `program probe`, which is ended when the limit is over. Where it crashes, hangs or makes
/// no sense there is no GPU but a sentence that says so.
pub fn probe(program: &Path, limit: Duration) -> Probe {
    let mut command = Command::new(program);
    // A test's executable refuses the option; without it, it would run its own tests that are called like the command.
    let asked = listen(command.args(["probe", "--json"]), limit, "it was asked what it can do");
    asked.unwrap_or_else(|what| Probe {
        gpus: Vec::new(),
        problem: Some(format!("{what}. Hearth uses the processor.")),
    })
}

/// Checks a device by `program probe --check`, in a process of its own: the GPU of this number in that program's list, or the processor
/// (none). Whatever ends the process is what is wrong.
///
/// # Errors
/// The device cannot be checked now: its memory is in use, say. A sentence, perhaps with its full stop.
pub fn check(program: &Path, adapter: Option<usize>, small: bool) -> Result<DeviceCheck, String> {
    let mut command = Command::new(program);
    let which = adapter.map_or_else(|| "cpu".to_owned(), |number| number.to_string());
    command.args(["probe", "--json", "--check", &which]);
    if small {
        command.arg("--small");
    }
    let limit = if small { SOFTWARE_LIMIT } else { CHECK_LIMIT };
    let checked = listen::<Result<DeviceCheck, String>>(&mut command, limit, "it was checked");
    checked.unwrap_or_else(|what| Ok(wrong(what)))
}

/// Whether this process is the one that asks.
pub(super) fn is_asking() -> bool {
    std::env::var_os(ASKING).is_some()
}

/// Runs the command until it has answered or the limit is over; else what happened to the driver while this was `done` with it, in a
/// sentence without its full stop.
fn listen<T: DeserializeOwned + Send + 'static>(
    command: &mut Command,
    limit: Duration,
    done: &str,
) -> Result<T, String> {
    let started = command
        .env(ASKING, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            let program = Path::new(command.get_program()).display();
            return Err(format!(
                "{program}, which asks the graphics driver, could not be started ({error})"
            ));
        }
    };
    let (said, heard) = channel();
    if let Some(output) = child.stdout.take() {
        thread::spawn(move || said.send(answer(BufReader::new(output.take(LONGEST)))));
    }
    let answer = heard.recv_timeout(limit);
    // Whole answers count whatever the driver does while its process ends. Its end is waited for elsewhere: one that hangs in the
    // kernel cannot be killed.
    let _ = child.kill();
    let (ended, end) = channel();
    thread::spawn(move || ended.send(child.wait()));
    let hung = || {
        Err(format!(
            "The graphics driver did not answer within {} seconds when {done}",
            limit.as_secs()
        ))
    };
    match answer {
        Ok(Some(answer)) => Ok(answer),
        Ok(None) => match end.recv_timeout(limit) {
            Ok(Ok(status)) => Err(reason(status, done)),
            _ => hung(),
        },
        Err(_) => hung(),
    }
}

/// The line that is an answer; drivers print lines of their own. None where the output ends without one.
fn answer<T: DeserializeOwned>(output: impl BufRead) -> Option<T> {
    let mut lines = output.split(b'\n').map_while(Result::ok);
    lines.find_map(|line| serde_json::from_slice(&line).ok())
}

/// Why a program gave no answer that has ended like this.
fn reason(status: ExitStatus, done: &str) -> String {
    let crashed = |how| format!("The graphics driver crashed when {done} ({how})");
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return crashed(format!("signal {signal}"));
    }
    match status.code() {
        Some(0) | None => format!("What the graphics driver said when {done} made no sense"),
        // Windows' exceptions are codes with the highest bit set.
        Some(code) if code < 0 => crashed(format!("exception {code:#010x}")),
        Some(code) => format!("The graphics driver failed when {done} (exit code {code})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const ACT: &str = "HEARTH_TEST_ACT";

    /// What was heard from this very executable, which runs only [`actor`] and does there as it is told.
    fn heard(act: &str, limit: Duration) -> Result<Probe, String> {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "hardware::probe::tests::actor", "--nocapture"]);
        listen(command.env(ACT, act), limit, "it was asked")
    }

    fn problem(act: &str) -> String {
        heard(act, Duration::from_secs(60)).expect_err("a problem")
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

    /// No test but the program that the others start.
    #[test]
    fn actor() {
        let forever = || thread::sleep(Duration::from_secs(3600));
        let answer = || {
            let line = serde_json::to_string(&good()).unwrap();
            std::io::stdout()
                .write_all(format!("\na driver's own line\n{line}\n").as_bytes())
                .unwrap();
        };
        match std::env::var(ACT).as_deref() {
            Ok("crash") => std::process::abort(),
            Ok("hang") => forever(),
            Ok("rubbish") => println!("\n{{\"gpus\": 3}}"),
            Ok("fail") => std::process::exit(3),
            Ok("answer and hang") => {
                answer();
                forever();
            }
            Ok("answer and crash") => {
                answer();
                std::process::abort();
            }
            _ => {}
        }
    }

    #[test]
    fn a_driver_that_crashes_hangs_or_babbles_costs_only_its_gpu() {
        assert!(problem("crash").contains("crashed"));
        assert!(problem("rubbish").contains("made no sense"));
        assert!(problem("fail").contains("exit code 3"));
        let hung = heard("hang", Duration::from_secs(1)).expect_err("a problem");
        assert!(hung.contains("within 1 seconds"), "{hung}");
        let missing = probe(Path::new("no-such-program"), LIMIT).problem.unwrap();
        assert!(
            missing.starts_with("no-such-program") && missing.ends_with("Hearth uses the processor."),
            "{missing}"
        );
        let wrong = check(Path::new("no-such-program"), Some(0), true)
            .unwrap()
            .wrong
            .unwrap();
        assert!(wrong.starts_with("no-such-program"), "{wrong}");
    }

    #[test]
    fn a_whole_answer_counts_however_the_process_ends() {
        for act in ["answer and hang", "answer and crash"] {
            assert_eq!(heard(act, Duration::from_secs(60)), Ok(good()), "{act}");
        }
    }

    #[test]
    fn another_test_does_not_take_part() {
        let probe = probe(&std::env::current_exe().unwrap(), Duration::from_secs(60));
        assert!(probe.problem.is_some_and(|problem| problem.contains("exit code")));
    }
}
