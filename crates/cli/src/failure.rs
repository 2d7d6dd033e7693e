//! Failures of commands.

use crate::terminal::escaped;
use hearth_protocol::Problem;
use std::fmt::{self, Display};
use std::io;

/// The reason why a command failed: one line for the user.
#[derive(Debug)]
pub enum Failure {
    /// A failure, exit code 1.
    Failed(String),
    /// Invalid usage, exit code 2.
    Usage(String),
    /// The reader closed standard output; exit code 0.
    Closed,
}

impl Failure {
    /// A failure with exit code 1.
    pub fn new(text: impl Display) -> Self {
        Self::Failed(text.to_string())
    }

    /// The exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Closed => 0,
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
        }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            // Line breaks become spaces, so that the message is one line.
            Self::Failed(text) | Self::Usage(text) => {
                f.write_str(&escaped(&text.split_whitespace().collect::<Vec<_>>().join(" ")))
            }
            Self::Closed => Ok(()),
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::new(problem)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Failed(format!("Reading or writing failed: {error}.")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_and_a_closed_pipe_is_success() {
        assert_eq!(Failure::new("two\n  lines").to_string(), "two lines");
        // Messages of chat templates are untrusted.
        assert_eq!(Failure::new("\u{1b}[2Jno").to_string(), "\\u{1b}[2Jno");
        assert_eq!(Failure::from(io::Error::from(io::ErrorKind::BrokenPipe)).exit_code(), 0);
        assert_eq!(Failure::from(io::Error::from(io::ErrorKind::NotFound)).exit_code(), 1);
    }
}
