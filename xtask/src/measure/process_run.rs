//! A measured run of a process: its output, time and memory.

use crate::process::{Outcome, Output, shown};
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;
use wait4::Wait4;

/// The run of a process that succeeded.
#[derive(Debug)]
pub struct ProcessRun {
    /// The captured output.
    pub output: Output,
    /// Seconds from its start to its end.
    pub seconds: f64,
    /// Maximum resident set size in MB, including mapped files. `None` if the system does not
    /// report it.
    pub peak_mb: Option<f64>,
}

/// Runs a program that must succeed, and measures it. Prints nothing.
///
/// # Errors
/// If it cannot be started or fails.
pub fn run_measured(command: &mut Command) -> Outcome<ProcessRun> {
    let command_line = shown(command);
    let failed = |error: std::io::Error| format!("`{command_line}` could not be run ({error}).");
    let start = Instant::now();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let stderr_pipe = child.stderr.take();
    // Both pipes are read at once: a process blocks while one of them is full.
    let stderr_reader = thread::spawn(move || read(stderr_pipe));
    let stdout = read(child.stdout.take());
    let stderr = stderr_reader.join().unwrap_or_default();
    let usage = child.wait4().map_err(failed)?;
    let output = Output {
        ok: usage.status.success(),
        stdout,
        stderr,
    };
    if output.ok {
        Ok(ProcessRun {
            output,
            seconds: start.elapsed().as_secs_f64(),
            peak_mb: Some(usage.rusage.maxrss as f64 / 1e6).filter(|peak| *peak > 0.0),
        })
    } else {
        Err(format!("`{command_line}`: {}", output.last_stderr_line()))
    }
}

/// Reads a pipe to its end. Returns the text, trimmed.
fn read(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    // The output before a read error is still useful.
    let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_output_time_and_memory() {
        let run = run_measured(Command::new("cargo").arg("--version")).expect("cargo runs");
        assert!(run.output.stdout.starts_with("cargo "), "{:?}", run.output);
        assert!(run.seconds > 0.0);
        // More than a megabyte, less than a gigabyte: the unit is right.
        assert!(
            run.peak_mb.is_none_or(|peak| (1.0..1000.0).contains(&peak)),
            "{:?}",
            run.peak_mb
        );
        let error = run_measured(Command::new("cargo").arg("--no-such-option")).expect_err("a failure");
        assert!(error.contains("--no-such-option"), "{error}");
    }
}
