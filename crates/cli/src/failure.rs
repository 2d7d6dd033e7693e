//! How a command ends that did not succeed.

use crate::terminal::escaped;
use hearth_protocol::Problem;
use std::fmt::{self, Display};
use std::io;

/// Why a command failed: one line for a person.
#[derive(Debug)]
pub enum Failure {
    /// It could not be done.
    Said(String),
    /// It was asked for in a way that makes no sense.
    Usage(String),
    /// Whoever read standard output has had enough; that is no failure.
    Closed,
}

impl Failure {
    /// With this line.
    pub fn new(text: impl Display) -> Self {
        Self::Said(text.to_string())
    }

    /// The code the process ends with.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Closed => 0,
            Self::Said(_) => 1,
            Self::Usage(_) => 2,
        }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            // One line, whatever the sentence came from.
            Self::Said(text) | Self::Usage(text) => {
                f.write_str(&escaped(&text.split_whitespace().collect::<Vec<_>>().join(" ")))
            }
            Self::Closed => Ok(()),
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Said(problem.message)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Said(format!("Reading or writing failed: {error}.")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_and_a_closed_pipe_is_none() {
        assert_eq!(Failure::new("two\n  lines").to_string(), "two lines");
        // A chat template may say anything.
        assert_eq!(Failure::new("\u{1b}[2Jno").to_string(), "\\u{1b}[2Jno");
        assert_eq!(Failure::from(io::Error::from(io::ErrorKind::BrokenPipe)).exit_code(), 0);
        assert_eq!(Failure::from(io::Error::from(io::ErrorKind::NotFound)).exit_code(), 1);
    }
}
