//! Running the `hearth` executable.

use crate::paths;
use serde_json::Value;
use std::ffi::OsStr;
use std::process::{Command, Output};

/// The result of running `hearth`.
#[derive(Debug)]
pub struct Ended {
    /// Exit code. `None` means killed by a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs `hearth` to its end, with the models folder, an empty data folder and no cache.
///
/// # Panics
/// Panics if it cannot be started.
pub fn hearth<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ended {
    call(Command::new(paths::executable("hearth")).args(arguments))
}

/// Runs a command of `hearth` like [`hearth`].
///
/// # Panics
/// Panics if it cannot be started.
pub fn call(command: &mut Command) -> Ended {
    let data = tempfile::tempdir().expect("a temporary folder");
    // The caller's variables take precedence.
    let models = paths::models();
    for (name, value) in [("HEARTH_CACHE", "off".as_ref()), ("HEARTH_MODELS", models.as_os_str())] {
        if !command.get_envs().any(|(variable, _)| variable == name) {
            command.env(name, value);
        }
    }
    let Output { status, stdout, stderr } = command.env("HEARTH_DATA", data.path()).output().expect("hearth starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("hearth prints UTF-8");
    Ended {
        code: status.code(),
        stdout: text(stdout),
        stderr: text(stderr),
    }
}

impl Ended {
    /// The JSON object on the last line of stdout.
    ///
    /// # Panics
    /// Panics if it failed or printed none.
    pub fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        let line = self.stdout.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|error| panic!("no JSON on the last line ({error}): {self:?}"))
    }

    /// The last line of stderr: the error message.
    ///
    /// # Panics
    /// Panics if the exit code is not 1, or if it panicked or printed nothing.
    pub fn error_line(&self) -> &str {
        assert_eq!(self.code, Some(1), "{self:?}");
        assert!(!self.stderr.contains("panicked"), "{self:?}");
        self.stderr
            .lines()
            .last()
            .unwrap_or_else(|| panic!("no error message: {self:?}"))
    }
}
