//! The `hearth` executable, as a person calls it.

use crate::place;
use serde_json::Value;
use std::ffi::OsStr;
use std::process::{Command, Output};

/// What a call of `hearth` left behind.
#[derive(Debug)]
pub struct Ended {
    /// The exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it said on the side.
    pub stderr: String,
}

/// Calls `hearth` and waits for its end. It sees the folder of models, and data of its own; it keeps no packed weights, which nobody would
/// use again.
///
/// # Panics
/// When it cannot be started.
pub fn hearth<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ended {
    call(Command::new(place::executable("hearth")).args(arguments))
}

/// Lets a command line of `hearth` run to its end, as [`hearth`] does.
///
/// # Panics
/// When it cannot be started.
pub fn call(command: &mut Command) -> Ended {
    let data = tempfile::tempdir().expect("a temporary folder");
    // What the caller has set stays.
    let models = place::models();
    for (name, value) in [("HEARTH_CACHE", "off".as_ref()), ("HEARTH_MODELS", models.as_os_str())] {
        if !command.get_envs().any(|(own, _)| own == name) {
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
    /// When it failed or printed none.
    pub fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        let line = self.stdout.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|error| panic!("no JSON on the last line ({error}): {self:?}"))
    }

    /// The one line it said on failing.
    ///
    /// # Panics
    /// When it did not fail with exit code 1 and one clear line.
    pub fn complaint(&self) -> &str {
        assert_eq!(self.code, Some(1), "{self:?}");
        assert!(!self.stderr.contains("panicked"), "{self:?}");
        self.stderr
            .lines()
            .last()
            .unwrap_or_else(|| panic!("it said nothing: {self:?}"))
    }
}
