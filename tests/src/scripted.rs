//! Hearth with tiny models and a worker without a model, whose answers are scripted: for tests of
//! the window alone.

use crate::paths;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The models' names, and the fixtures they are copies of.
pub const MODELS: [(&str, &str); 2] = [("Ember", "llama.gguf"), ("Lantern", "qwen3.gguf")];

/// A folder with the models and the worker's program.
pub struct Scripted {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Scripted {
    /// Copies the models and writes the program: `hearth`, except that its worker is the fake one
    /// of `hearth-protocol`, which the first word of a message controls.
    ///
    /// # Panics
    /// Panics if an executable has not been built, or the disk is full.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, fixture) in MODELS {
            let from = paths::root().join("tests/fixtures/models").join(fixture);
            fs::copy(from, folder.path().join(format!("{name}.gguf"))).expect("a copy of a model");
        }
        let [worker, hearth] = ["fake-worker", "hearth"].map(paths::executable);
        let program = folder.path().join("scripted-hearth");
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = worker ] && exec '{}' worker\nexec '{}' \"$@\"\n",
            worker.display(),
            hearth.display()
        );
        fs::write(&program, script).expect("a program can be written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its permissions can be set");
        Self { folder, program }
    }

    /// The environment variables of a window with these models and this worker.
    pub fn variables(&self) -> [(&'static str, &OsStr); 2] {
        [
            ("HEARTH_MODELS", self.models().as_os_str()),
            ("HEARTH_WORKER", self.program.as_os_str()),
        ]
    }

    /// The folder of the models.
    pub fn models(&self) -> &Path {
        self.folder.path()
    }
}

impl Default for Scripted {
    fn default() -> Self {
        Self::new()
    }
}
