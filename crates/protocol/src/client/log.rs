//! The log of a worker, on its standard error.

use super::lines::Lines;
use crate::{
    Problem, WorkerReason,
    memory_death::{Death, KillCount},
};
use std::{
    collections::VecDeque,
    process::ExitStatus,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::process::ChildStderr;

/// Maximum lines of a worker's log that are retained.
const MAX_TAIL_LINES: usize = 12;
/// Maximum bytes of a line; drivers write to the log, too.
const MAX_LINE_BYTES: usize = 4 << 10;
/// Maximum characters of a line in a problem.
const MAX_LINE_CHARS: usize = 200;
/// Older lines do not say why a worker failed.
const MAX_AGE: Duration = Duration::from_secs(10);

/// The last lines of a worker's log, each with the time when it was read.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<VecDeque<(Instant, String)>>>);

impl Log {
    /// Forwards the log to `tracing`, line by line, and retains the last lines.
    pub async fn follow(self, stderr: ChildStderr) {
        let mut lines = Lines::for_log(stderr, MAX_LINE_BYTES);
        while let Ok(Some(line)) = lines.next().await {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            tracing::debug!(target: "worker", "{line}");
            let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if tail.len() == MAX_TAIL_LINES {
                tail.pop_front();
            }
            tail.push_back((Instant::now(), line));
        }
    }

    /// The cause of the death of the process that wrote this log.
    pub fn death(&self, status: ExitStatus, kills_at_start: KillCount) -> Death {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Death::new(
            status,
            kills_at_start,
            KillCount::now(),
            tail.iter().map(|(_, line)| line.as_str()),
        )
    }

    /// The line that says why the worker failed, for the user; all retained lines go to `tracing`.
    pub fn failure(&self) -> Option<String> {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, line) in tail.iter() {
            tracing::warn!(target: "worker", "{line}");
        }
        let recent = tail.iter().filter(|(at, _)| at.elapsed() <= MAX_AGE);
        let line = failure(recent.map(|(_, line)| line.as_str()))?;
        Some(line.chars().take(MAX_LINE_CHARS).collect())
    }
}

/// The message of a panic or the last error, whichever is later. `None` if there is none, or if it
/// has a path of this machine, which says nothing to the user.
fn failure<'a>(lines: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut found = None;
    let mut follows_panic = false;
    for line in lines.map(str::trim) {
        if follows_panic {
            found = Some(line);
        } else if let Some(text) = error_in(line) {
            found = Some(text);
        }
        // Its message is in the next line.
        follows_panic = line.contains(" panicked at ");
    }
    found.filter(|line| !line.is_empty() && !has_path(line))
}

/// The error in a line of `tracing`, of the standard library, of C++ or of the dynamic loader.
fn error_in(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    if words
        .nth(1)
        .is_some_and(|level| ["TRACE", "DEBUG", "INFO", "WARN"].contains(&level))
    {
        return None;
    }
    if let Some((_, text)) = line.split_once(" ERROR ") {
        return Some(text);
    }
    // The dynamic loader begins with the executable.
    let text = match line.split_once(": ") {
        Some((path, text)) if has_path(path) => text,
        _ => line,
    };
    let begins = [
        "error",
        "Error",
        "fatal ",
        "terminate called ",
        "what():",
        "memory allocation of ",
    ];
    let is_error = begins.iter().any(|begin| text.starts_with(begin)) || text.contains(" has overflowed its stack");
    is_error.then_some(text)
}

/// Whether a line has an absolute path.
fn has_path(line: &str) -> bool {
    let ends_word = |c: char| c.is_whitespace() || "=\"'`(<[,".contains(c);
    line.split(ends_word).any(|word| {
        let is_unix = word.len() > 1 && (word.starts_with('/') || word.starts_with("~/"));
        let is_windows = word.starts_with("\\\\")
            || matches!(word.as_bytes(), [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic());
        is_unix || is_windows
    })
}

/// The problem of a worker, with the line of its log that says why.
pub(super) fn with_log_line(problem: Problem, line: Option<String>) -> Problem {
    match line {
        Some(line) => Problem::new(
            problem.code,
            WorkerReason::Logged {
                cause: Box::new(problem),
                line,
            },
        ),
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failure_is_the_last_panic_or_error_without_a_path() {
        let warning = "2026-12-01T09:40:05.123456Z  WARN hearth_engine::prompt_cache: a prompt cache file is unusable \
                       path=/home/you/.cache/hearth/7.kv error=it is truncated";
        let panic = "thread 'main' panicked at crates/llm/src/session.rs:12:5:";
        let note = "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace";
        for (lines, expected) in [
            (&[][..], None),
            (&[warning], None),
            (&[warning, "loading", ""], None),
            (
                &[warning, panic, "index out of bounds", note],
                Some("index out of bounds"),
            ),
            (&[panic, "cannot open /home/you/model.gguf", note], None),
            (&[panic, ""], None),
            (&[panic], None),
            (
                &["error: the first", "Error: the second", "done"],
                Some("Error: the second"),
            ),
            (
                &["2026-12-01T09:40:05.123456Z ERROR hearth_llm: the device was lost"],
                Some("hearth_llm: the device was lost"),
            ),
            (&["2026-12-01T09:40:05.123456Z  WARN hearth_llm: slow error=none"], None),
            (
                &["/opt/hearth/hearth: error while loading shared libraries: libm.so.6: cannot open"],
                Some("error while loading shared libraries: libm.so.6: cannot open"),
            ),
            (
                &["fatal runtime error: stack overflow"],
                Some("fatal runtime error: stack overflow"),
            ),
            (&["  what():  std::bad_alloc"], Some("what():  std::bad_alloc")),
        ] {
            assert_eq!(failure(lines.iter().copied()), expected, "{lines:?}");
        }
    }

    #[test]
    fn paths_are_recognized() {
        for line in [
            "at /home/you",
            "path=/x",
            "in \"C:\\Users\\you\"",
            "(~/models)",
            "d:/models",
            "\\\\server\\share",
        ] {
            assert!(has_path(line), "{line}");
        }
        for line in [
            "12 / 5",
            "3 tokens/s",
            "crates/llm/src/session.rs:12:5",
            "step 1/20: done",
            "a: b",
        ] {
            assert!(!has_path(line), "{line}");
        }
    }
}
