//! Other programs: started with what they do said first, and read without ceremony.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What went wrong, for a person to act on.
pub type Outcome<T = ()> = Result<T, String>;

/// Says what comes next.
pub fn announce(what: &str) {
    println!("\n==> {what}");
}

/// Runs a program whose output a person sees.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub fn run(what: &str, command: &mut Command) -> Outcome {
    announce(what);
    let begun = Instant::now();
    let status = command
        .status()
        .map_err(|error| not_started(what, command, &error.to_string()))?;
    if !status.success() {
        return Err(format!(
            "{what}: failed ({status}). The command was: {}",
            shown(command)
        ));
    }
    println!("    {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// Runs a program, handing each line of its output to `see` after showing it. Tells whether it succeeded.
///
/// # Errors
/// When it cannot be started.
pub fn watch(what: &str, command: &mut Command, mut see: impl FnMut(&str)) -> Outcome<bool> {
    announce(what);
    let begun = Instant::now();
    let failed = |command: &Command, error: std::io::Error| not_started(what, command, &error.to_string());
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failed(command, error))?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            see(&line);
        }
    }
    let status = child.wait().map_err(|error| failed(command, error))?;
    println!("    {:.0} s", begun.elapsed().as_secs_f64());
    Ok(status.success())
}

/// What a program prints, or nothing when it cannot be started or fails.
pub fn read(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).stdin(Stdio::null()).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// What a program that has ended said.
#[derive(Debug)]
pub struct Said {
    /// Whether it succeeded.
    pub ok: bool,
    /// What it printed.
    pub stdout: String,
    /// What it said on the side.
    pub stderr: String,
}

/// Runs a program for what it says.
///
/// # Errors
/// When it cannot be started.
pub fn hear(what: &str, command: &mut Command) -> Outcome<Said> {
    announce(what);
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| not_started(what, command, &error.to_string()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Ok(Said {
        ok: output.status.success(),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    })
}

impl Said {
    /// The last line that it printed: of our own programs, and of those that print JSON line by line, an object.
    pub fn last_line(&self) -> &str {
        self.stdout.lines().last().unwrap_or_default()
    }

    /// Why it failed: the last line that it said on the side.
    pub fn complaint(&self) -> &str {
        self.stderr.lines().last().unwrap_or("it said nothing")
    }
}

fn not_started(what: &str, command: &Command, error: &str) -> String {
    format!(
        "{what}: could not start `{}` ({error}).",
        command.get_program().to_string_lossy()
    )
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}
