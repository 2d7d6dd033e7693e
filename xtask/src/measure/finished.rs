//! A measured process: its output, time and memory.

use crate::process::{Outcome, Output, shown};
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;
use wait4::Wait4;

/// A process that succeeded.
#[derive(Debug)]
pub struct Finished {
    /// The captured output.
    pub output: Output,
    /// Seconds from its start to its end.
    pub seconds: f64,
    /// Maximum resident set size in MB, mapped files included; none if the system does not report
    /// it.
    pub peak_mb: Option<f64>,
}

/// Runs a program that must succeed, without printing anything.
///
/// # Errors
/// If it cannot be started or fails.
pub fn finish(command: &mut Command) -> Outcome<Finished> {
    let shown = shown(command);
    let failed = |error: std::io::Error| format!("`{shown}` could not be run ({error}).");
    let start = Instant::now();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let stderr = child.stderr.take();
    let stderr_reader = thread::spawn(move || read(stderr));
    let stdout = read(child.stdout.take());
    // A thread that panicked has read nothing.
    let stderr = stderr_reader.join().unwrap_or_default();
    let usage = child.wait4().map_err(failed)?;
    let output = Output {
        ok: usage.status.success(),
        stdout,
        stderr,
    };
    if output.ok {
        Ok(Finished {
            output,
            seconds: start.elapsed().as_secs_f64(),
            peak_mb: Some(usage.rusage.maxrss as f64 / 1e6).filter(|peak| *peak > 0.0),
        })
    } else {
        Err(format!("`{shown}`: {}", output.last_stderr_line()))
    }
}

/// Reads a pipe to its end, trimmed.
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
        let finished = finish(Command::new("cargo").arg("--version")).expect("cargo runs");
        assert!(finished.output.stdout.starts_with("cargo "), "{:?}", finished.output);
        assert!(finished.seconds > 0.0);
        // More than a megabyte, less than a gigabyte: the unit is right.
        assert!(
            finished.peak_mb.is_none_or(|peak| (1.0..1000.0).contains(&peak)),
            "{:?}",
            finished.peak_mb
        );
        let error = finish(Command::new("cargo").arg("--no-such-option")).expect_err("a failure");
        assert!(error.contains("--no-such-option"), "{error}");
    }
}
