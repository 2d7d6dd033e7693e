//! Runs other programs: announced, with inherited or captured output.

use std::process::{Command, Stdio};
use std::time::Instant;

/// A result with an error message for the user.
pub type Outcome<T = ()> = Result<T, String>;

/// Prints the heading of a step.
pub fn announce(what: &str) {
    println!("\n==> {what}");
}

/// Runs a program with inherited output.
///
/// # Errors
/// If it cannot be started or fails.
pub fn run(what: &str, command: &mut Command) -> Outcome {
    announce(what);
    let start = Instant::now();
    let status = command
        .status()
        .map_err(|error| not_started(what, command, &error.to_string()))?;
    if !status.success() {
        return Err(format!(
            "{what}: failed ({status}). The command was: {}",
            shown(command)
        ));
    }
    println!("    {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Returns a program's trimmed output; `None` if it cannot be started or fails.
pub fn read(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).stdin(Stdio::null()).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The captured output of a program.
#[derive(Debug)]
pub struct Output {
    /// Whether the program succeeded.
    pub ok: bool,
    /// Standard output, trimmed.
    pub stdout: String,
    /// Standard error, trimmed.
    pub stderr: String,
}

/// Runs a program and captures its output.
///
/// # Errors
/// If it cannot be started.
pub fn capture(what: &str, command: &mut Command) -> Outcome<Output> {
    announce(what);
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| not_started(what, command, &error.to_string()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Ok(Output {
        ok: output.status.success(),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    })
}

impl Output {
    /// The last line of standard output: a JSON object, for `--json` and JSON lines.
    pub fn last_line(&self) -> &str {
        self.stdout.lines().last().unwrap_or_default()
    }

    /// The last line of standard error, the reason for a failure.
    pub fn last_stderr_line(&self) -> &str {
        self.stderr.lines().last().unwrap_or("no error message")
    }
}

fn not_started(what: &str, command: &Command, error: &str) -> String {
    format!(
        "{what}: could not start `{}` ({error}).",
        command.get_program().to_string_lossy()
    )
}

/// A command line for a message.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}
