//! Paths of programs, models and tools.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The default model's file name.
const MODEL: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

/// Environment variable of the folder of the programs, for test executables that run on a machine
/// without a checkout.
const PROGRAMS: &str = "HEARTH_PROGRAMS";

/// The inputs that determine the folder of the tested programs.
///
/// The test executable's folder does not: it is cargo's build folder, which all checkouts on a
/// machine share, whereas programs are in the target folder of their checkout.
#[derive(Debug, Default)]
pub struct Places {
    /// Value of `HEARTH_PROGRAMS`.
    pub named: Option<OsString>,
    /// Value of `CARGO_TARGET_DIR`.
    pub target: Option<OsString>,
    /// The root of the workspace that the test was built from.
    pub root: PathBuf,
    /// The test's executable.
    pub test: PathBuf,
}

impl Places {
    /// The folder of the programs: the named one, else the one in the target folder. If the
    /// workspace has no target folder (because the test was copied to another machine), the folder
    /// above the one with the test's executable, which is then `FOLDER/deps/TEST`.
    pub fn programs(&self) -> PathBuf {
        let non_empty = |value: &Option<OsString>| value.clone().filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(named) = non_empty(&self.named) {
            return named;
        }
        if let Some(target) = non_empty(&self.target) {
            return self.root.join(target).join("release");
        }
        let release = self.root.join("target").join("release");
        let test_folder = self.test.ancestors().nth(2);
        match test_folder {
            Some(test_folder) if !release.is_dir() => test_folder.to_path_buf(),
            _ => release,
        }
    }
}

/// The folder of the programs of this test's build.
pub fn programs() -> PathBuf {
    let places = Places {
        named: env::var_os(PROGRAMS),
        target: env::var_os("CARGO_TARGET_DIR"),
        root: root().to_path_buf(),
        test: env::current_exe().unwrap_or_default(),
    };
    places.programs()
}

/// A program of this build.
///
/// # Panics
/// Panics if it has not been built.
pub fn executable(name: &str) -> PathBuf {
    let path = programs().join(name).with_extension(env::consts::EXE_EXTENSION);
    assert!(
        path.is_file(),
        "{} has not been built: run `cargo xtask test`, or name the folder of the programs in {PROGRAMS}",
        path.display()
    );
    path
}

/// The repository's root.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ is in the repository")
}

/// The folder of models.
pub fn models() -> PathBuf {
    env::var_os("HEARTH_MODELS").map_or_else(|| root().join("models"), PathBuf::from)
}

/// The default model's file.
///
/// # Panics
/// Panics if it has not been downloaded.
pub fn model() -> PathBuf {
    let path = models().join(MODEL);
    assert!(
        path.is_file(),
        "{} does not exist: run `cargo xtask setup`",
        path.display()
    );
    path
}

/// A tool of the tests, from the tools folder or the PATH.
///
/// # Panics
/// Panics if it is not found.
pub fn tool(name: &str) -> PathBuf {
    let tools = env::var_os("HEARTH_TOOLS").map_or_else(|| beside_programs("tools"), PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    std::iter::once(tools.join("bin"))
        .chain(env::split_paths(&path))
        .map(|folder| folder.join(name).with_extension(env::consts::EXE_EXTENSION))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("`{name}` is not installed: run `cargo xtask test`"))
}

/// The folder of screenshots.
pub fn screenshots() -> PathBuf {
    beside_programs("screenshots")
}

/// The folder of files that tests make once (`shared.rs`).
pub fn shared() -> PathBuf {
    beside_programs("tests")
}

/// A folder in the target folder.
fn beside_programs(name: &str) -> PathBuf {
    programs().join("..").join(name)
}
