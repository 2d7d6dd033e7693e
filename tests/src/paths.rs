//! Paths of executables, models and tools.

use std::env;
use std::path::{Path, PathBuf};

/// The default model's file name.
const MODEL: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

/// The folder of the executables of the build that this test belongs to.
pub fn build() -> PathBuf {
    let test = env::current_exe().expect("a test knows its own executable");
    // target/release/deps/TEST
    test.ancestors()
        .nth(2)
        .expect("a test executable is two folders deep")
        .to_path_buf()
}

/// An executable of this build.
///
/// # Panics
/// Panics if it has not been built.
pub fn executable(name: &str) -> PathBuf {
    let path = build().join(name).with_extension(env::consts::EXE_EXTENSION);
    assert!(
        path.is_file(),
        "{} has not been built: run `cargo xtask test`",
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
    let tools = env::var_os("HEARTH_TOOLS").map_or_else(|| build().join("../tools"), PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    std::iter::once(tools.join("bin"))
        .chain(env::split_paths(&path))
        .map(|folder| folder.join(name).with_extension(env::consts::EXE_EXTENSION))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("`{name}` is not installed: run `cargo xtask test`"))
}

/// The folder of screenshots.
pub fn screenshots() -> PathBuf {
    build().join("../screenshots")
}
