//! The page: its packages, its build, its tests.

use crate::place;
use crate::process::{Outcome, announce, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// What the page is built from; its tests and scripts are not among them.
const SOURCES: &[&str] = &[
    "src",
    "public",
    "index.html",
    "package.json",
    "package-lock.json",
    "vite.config.ts",
    "svelte.config.js",
    "tsconfig.json",
];

fn folder() -> PathBuf {
    place::root().join("ui")
}

/// A call of npm in the page's folder.
///
/// # Errors
/// When there is no npm.
pub fn npm() -> Outcome<Command> {
    let npm =
        place::program(&["npm"]).ok_or("npm is needed to build the page, and there is none. It comes with Node.")?;
    let mut command = Command::new(npm);
    command.current_dir(folder());
    Ok(command)
}

/// Installs the page's packages and builds it, each only when something has changed.
///
/// # Errors
/// What npm says.
pub fn build() -> Outcome {
    let lock = newest(&folder().join("package-lock.json"));
    if newest(&folder().join("node_modules/.package-lock.json")) < lock {
        run(
            "Installing the page's packages (npm ci)",
            npm()?.args(["ci", "--no-audit", "--no-fund"]),
        )?;
    }
    let sources = SOURCES.iter().map(|name| newest(&folder().join(name))).max().flatten();
    if newest(&folder().join("dist/index.html")) < sources {
        return run("Building the page", npm()?.args(["run", "build"]));
    }
    announce("The page is up to date");
    Ok(())
}

/// When a file, or the newest in a folder, was last written; none when there is none.
fn newest(path: &Path) -> Option<SystemTime> {
    let about = fs::metadata(path).ok()?;
    if !about.is_dir() {
        return about.modified().ok();
    }
    fs::read_dir(path)
        .ok()?
        .filter_map(Result::ok)
        .filter_map(|entry| newest(&entry.path()))
        .max()
}
