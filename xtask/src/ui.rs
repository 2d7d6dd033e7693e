//! The web UI: its npm packages and its build.

use crate::paths;
use crate::process::{Outcome, announce, read, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The sources of the web UI, without tests and scripts.
const SOURCES: &[&str] = &[
    "src",
    "messages",
    "project.inlang",
    "scripts/messages.mjs",
    "public",
    "index.html",
    "package.json",
    "package-lock.json",
    "vite.config.ts",
    "svelte.config.js",
    "tsconfig.json",
];

fn folder() -> PathBuf {
    paths::root().join("ui")
}

/// An npm command in the web UI's folder.
///
/// # Errors
/// If npm is not installed.
pub fn npm() -> Outcome<Command> {
    let npm = paths::program(&["npm"])
        .ok_or("Building the web UI requires npm, which is not installed. It is part of Node.")?;
    let mut command = Command::new(npm);
    command.current_dir(folder());
    Ok(command)
}

/// Installs the npm packages and builds the web UI, each only if something changed.
///
/// # Errors
/// If npm fails.
pub fn build() -> Outcome {
    let lock = newest(&folder().join("package-lock.json"));
    if newest(&folder().join("node_modules/.package-lock.json")) < lock {
        run(
            "Installing the web UI's packages (npm ci)",
            npm()?.args(["ci", "--no-audit", "--no-fund"]),
        )?;
    }
    let sources = SOURCES.iter().map(|name| newest(&folder().join(name))).max().flatten();
    if newest(&folder().join("dist/index.html")) < sources {
        return run("Building the web UI", npm()?.args(["run", "build"]));
    }
    announce("The web UI is up to date");
    Ok(())
}

/// The test files that changes of these files, as paths from the repository's root, can affect;
/// empty for all.
pub fn affected(paths: &[&String]) -> Vec<String> {
    let Some(node) = paths::program(&["node"]) else {
        return Vec::new();
    };
    let inside = paths.iter().map(|path| path.strip_prefix("ui/").unwrap_or(path));
    let mut command = Command::new(node);
    command.arg("scripts/affected.mjs").args(inside).current_dir(folder());
    let Some(printed) = read(&mut command) else {
        println!("    `node scripts/affected.mjs` failed, so all of the UI's tests run.");
        return Vec::new();
    };
    let files: Vec<String> = printed.split_whitespace().map(str::to_owned).collect();
    if files.iter().any(|file| file == "all") {
        Vec::new()
    } else {
        files
    }
}

/// Modification time of a file, or the latest in a folder; `None` if there is no file.
fn newest(path: &Path) -> Option<SystemTime> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_dir() {
        return metadata.modified().ok();
    }
    fs::read_dir(path)
        .ok()?
        .filter_map(Result::ok)
        .filter_map(|entry| newest(&entry.path()))
        .max()
}
