//! The commands of the stages of a test run.

use crate::cargo::{SELECT_OWN_TESTS, SELECT_TESTS, cargo, first_build};
use crate::junit::{TestResults, run_tests};
use crate::nextest::{Failures, nextest, nextest_with, run_nextest};
use crate::process::{Outcome, read, run};
use crate::{paths, report, ui};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Version of tauri-driver, the WebDriver of the window.
const TAURI_DRIVER: &str = "2.1.0";

/// Modules of `llm`'s tests that run complete layers on the CPU.
const LAYERS: [&str; 6] = ["layer", "logits", "packed", "kv_snapshot", "sliding_window", "batch"];

/// Formatting.
pub fn format() -> Outcome {
    run("Formatting", &mut cargo(&["fmt", "--all", "--check"]))
}

/// Clippy. `cargo clippy` calls its compiler by one path in all checkouts, so results of another
/// checkout that shares the build folder would count. On Unix it is called by a link in this
/// checkout instead, in the way of `cargo clippy` (a test checks that warnings fail).
pub fn lints() -> Outcome {
    run("Lints", &mut clippy(&paths::root(), &["--workspace", "--all-targets"])?)
}

/// The command of [`lints`], in a folder.
fn clippy(folder: &Path, selected: &[&str]) -> Outcome<Command> {
    let link = link_to_clippy()?;
    let mut command = cargo(&[if link.is_some() { "check" } else { "clippy" }, "--release", "--locked"]);
    command.args(selected).current_dir(folder);
    match link {
        // Between arguments, Clippy's own separator.
        Some(link) => command
            .env("RUSTC_WORKSPACE_WRAPPER", link)
            .env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__"),
        None => command.args(["--", "-D", "warnings"]),
    };
    Ok(command)
}

/// A link to Clippy's compiler in the target folder; `None` if there is no such program, or there
/// are no links.
#[cfg(unix)]
fn link_to_clippy() -> Outcome<Option<PathBuf>> {
    let sysroot = read(Command::new("rustc").args(["--print", "sysroot"])).unwrap_or_default();
    let driver = Path::new(&sysroot).join("bin").join("clippy-driver");
    let link = paths::target().join("clippy-driver");
    if !driver.is_file() {
        return Ok(None);
    }
    if fs::read_link(&link).is_ok_and(|program| program == driver) {
        return Ok(Some(link));
    }
    // It may be a link to another compiler.
    let _ = fs::remove_file(&link);
    let result = fs::create_dir_all(paths::target()).and_then(|()| std::os::unix::fs::symlink(&driver, &link));
    result.map_err(|error| format!("{} could not be linked ({error}).", link.display()))?;
    Ok(Some(link))
}

#[cfg(not(unix))]
fn link_to_clippy() -> Outcome<Option<PathBuf>> {
    Ok(None)
}

/// Builds all programs and tests.
pub fn build() -> Outcome {
    run(
        &format!("Building everything{}", first_build()),
        cargo(&["build", "--release", "--locked"]).args(SELECT_TESTS),
    )
}

/// Environment variables for test processes.
type Variables = [(String, String)];

/// Runs the web UI's tests: all, or the tests in `files`.
pub fn ui(files: &[String], variables: &Variables) -> Outcome<TestResults> {
    let report = report::junit("ui");
    let mut command = ui::npm()?;
    command.args(["test", "--", "--reporter=default", "--reporter=junit"]);
    command.arg(format!("--outputFile.junit={}", report.display()));
    command.args(files).envs(variables.iter().cloned());
    run_tests("The web UI's tests", &mut command, &report)
}

/// The Rust tests that a filter expression of nextest selects.
pub fn rust(filter: &str, variables: &Variables, failures: Failures) -> Outcome<TestResults> {
    let mut command = nextest_with(failures, SELECT_TESTS)?;
    command
        .args(["--filterset", filter])
        .envs(variables.iter().cloned())
        .env("HEARTH_MODELS", paths::root().join("models"))
        .env("HEARTH_TOOLS", paths::tools())
        .env("HEARTH_PROGRAMS", paths::target().join("release"));
    run_nextest("Rust tests, including the window's", &mut command, "rust")
}

/// The tests of xtask itself, and of the pages.
pub fn xtask() -> Outcome<TestResults> {
    run_nextest("The tests of xtask", &mut nextest(SELECT_OWN_TESTS)?, "xtask")
}

/// The tests of `kernels` and the CPU tests of `llm` that run whole layers, with debug assertions
/// and overflow checks in these two crates. Uninitialized scratch memory is then NaN
/// (`kernels/src/scratch.rs`). The code for AVX-VNNI runs on machines with AVX-512.
pub fn assertions() -> Outcome<TestResults> {
    // Alone, so that the unit tests of other crates are not built.
    let mut units = checked(&[
        "--package",
        "hearth-kernels",
        "--lib",
        "--features",
        "avx-vnni-on-avx512",
    ])?;
    let mut results = run_nextest(
        "Unit tests of the kernels, with assertions",
        &mut units,
        "checked-units",
    )?;
    // From the whole workspace, so that dependencies are not built again.
    let mut integration = checked(&["--workspace", "--features", "hearth-kernels/avx-vnni-on-avx512"])?;
    let layers = format!("binary(=llm) & test(/^({})::/)", LAYERS.join("|"));
    integration
        .args(["--test", "kernels", "--test", "llm"])
        .args(["--filterset", &format!("binary(=kernels) | ({layers})")])
        .env("HEARTH_MODELS", paths::root().join("models"));
    let what = "Tests of the kernels and of layers, with assertions";
    results.append(run_nextest(what, &mut integration, "checked")?);
    Ok(results)
}

/// Tests with debug assertions in `kernels` and `llm` only.
fn checked(selected: &[&str]) -> Outcome<Command> {
    let mut command = nextest(selected)?;
    command.env("HEARTH_CHECKED", "1");
    for name in ["hearth-kernels", "hearth-llm"] {
        for check in ["debug-assertions", "overflow-checks"] {
            command.args(["--config", &format!("profile.release.package.{name}.{check}=true")]);
        }
    }
    Ok(command)
}

/// Installs tauri-driver, through which tests control the window.
pub fn driver() -> Outcome {
    let program = paths::tools().join("bin").join("tauri-driver");
    if program.is_file() {
        return Ok(());
    }
    let mut install = cargo(&["install", "tauri-driver", "--locked", "--version", TAURI_DRIVER]);
    // A debug build is sufficient and fastest to build.
    install
        .arg("--debug")
        .arg("--root")
        .arg(paths::tools())
        .env("CARGO_TARGET_DIR", paths::tools().join("build"));
    run("Installing tauri-driver for the window's tests", &mut install)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_of_clippy_fails_the_lints() {
        let folder = std::env::temp_dir().join(format!("hearth-lints-{}", std::process::id()));
        fs::create_dir_all(folder.join("src")).expect("a folder");
        let manifest = "[package]\nname = \"lints\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n";
        fs::write(folder.join("Cargo.toml"), manifest).expect("a manifest");
        let lock = "version = 4\n[[package]]\nname = \"lints\"\nversion = \"0.0.0\"\n";
        fs::write(folder.join("Cargo.lock"), lock).expect("a lock file");
        let lint = |code: &str| {
            fs::write(folder.join("src").join("lib.rs"), code).expect("code");
            let mut command = clippy(&folder, &["--offline"]).expect("a command");
            let output = command
                .env("CARGO_TARGET_DIR", folder.join("target"))
                .output()
                .expect("cargo");
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            (output.status.success(), message)
        };
        let (is_clean, message) = lint("pub fn length(list: &[u8]) -> bool {\n    list.is_empty()\n}\n");
        assert!(is_clean, "{message}");
        let (is_clean, message) = lint("pub fn length(list: &[u8]) -> bool {\n    list.len() == 0\n}\n");
        assert!(!is_clean && message.contains("len_zero"), "{message}");
        fs::remove_dir_all(folder).expect("the folder of the test");
    }
}
