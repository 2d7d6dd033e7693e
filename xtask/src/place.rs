//! Where things lie.

use std::env;
use std::path::{Path, PathBuf};

/// The repository's root.
pub fn root() -> PathBuf {
    let here =
        env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().map_or_else(|| here.clone(), Path::to_path_buf)
}

/// Cargo's target folder.
pub fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// An executable that a build of this workspace makes.
pub fn executable(name: &str) -> PathBuf {
    target()
        .join("release")
        .join(name)
        .with_extension(env::consts::EXE_EXTENSION)
}

/// Tools that only tests need, kept out of the person's own folders.
pub fn tools() -> PathBuf {
    target().join("tools")
}

/// The first of these programs that is on the PATH.
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
