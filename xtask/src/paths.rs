//! Paths of the repository and of programs.

use crate::cache;
use std::env;
use std::path::{Path, PathBuf};

/// The repository's root.
pub fn root() -> PathBuf {
    let package =
        env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().map_or_else(|| package.clone(), Path::to_path_buf)
}

/// Cargo's target folder.
pub fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// The folder of cargo's intermediate build artifacts: see `checkout.rs`.
pub fn build() -> PathBuf {
    let is_shared = root().join(".cargo").join("checkout.toml").is_file();
    match cache::folder().filter(|_| is_shared) {
        Some(folder) => folder.join("build"),
        None => target(),
    }
}

/// The path of an executable built by this workspace.
pub fn executable(name: &str) -> PathBuf {
    target()
        .join("release")
        .join(name)
        .with_extension(env::consts::EXE_EXTENSION)
}

/// Folder of tools that only tests need, shared by all checkouts.
pub fn tools() -> PathBuf {
    cache::folder().unwrap_or_else(target).join("tools")
}

/// Finds the first of these programs on the PATH.
pub fn program(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let endings: &[&str] = if cfg!(windows) {
        &[".exe", ".cmd", ".bat"]
    } else {
        &[""]
    };
    names.iter().find_map(|name| {
        folders.iter().find_map(|folder| {
            endings
                .iter()
                .map(|ending| folder.join(format!("{name}{ending}")))
                .find(|file| file.is_file())
        })
    })
}
