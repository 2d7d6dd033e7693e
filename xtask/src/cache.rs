//! Hearth's cache folder, outside of any checkout: the shared build folder, tools, the run lock,
//! the ledger of test runs, the work tree of CI, and executables to compare with.

use std::env;
use std::path::PathBuf;

/// The cache folder; `None` if the system names none.
pub fn folder() -> Option<PathBuf> {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || variable(if cfg!(windows) { "USERPROFILE" } else { "HOME" });
    // A relative path is invalid there.
    let base = variable("XDG_CACHE_HOME")
        .filter(|folder| folder.is_absolute())
        .or_else(|| {
            if cfg!(windows) {
                variable("LOCALAPPDATA")
            } else if cfg!(target_os = "macos") {
                home().map(|home| home.join("Library").join("Caches"))
            } else {
                home().map(|home| home.join(".cache"))
            }
        })?;
    Some(base.join("hearth"))
}
