//! The names of entries in the data folder.

use crate::relocation::{COPIED, location};
use std::ffi::OsStr;

/// The folder of the prompt cache.
pub(crate) const PROMPT_CACHE: &str = "prompt-cache";

/// The folder of the prompt cache in early versions.
pub(crate) const OLD_PROMPT_CACHE: &str = "kept";

/// Hearth's entries in its data folder, and entries that operating systems create in any folder.
const HEARTH_ENTRIES: [&str; 20] = [
    "models",
    "adapters",
    "datasets",
    "runs",
    "presets",
    PROMPT_CACHE,
    OLD_PROMPT_CACHE,
    "cache",
    "window.json",
    "hearth-coming",
    "hearth-restore",
    "hearth-restore-2",
    "hearth-restore.json",
    "hearth-arriving",
    location::MOVED,
    location::ORIGIN,
    COPIED,
    // Created by operating systems.
    ".DS_Store",
    "desktop.ini",
    "lost+found",
];

/// Whether this is the name of one of Hearth's entries, or of an entry that operating systems
/// create.
pub(crate) fn is_hearth_entry(name: &OsStr) -> bool {
    let is_store = |name: &str| name == "hearth.lock" || name == "hearth-backups" || name.starts_with("hearth.db");
    name.to_str()
        .is_some_and(|name| HEARTH_ENTRIES.contains(&name) || is_store(name) || name.starts_with("hearth-set-aside-"))
}

/// Whether an entry is copied when the data folder is moved: all data that cannot be regenerated,
/// except the store, which is copied as a database.
pub(crate) fn is_relocated(name: &OsStr) -> bool {
    const NAMES: [&str; 6] = ["models", "adapters", "datasets", "runs", "presets", "hearth-backups"];
    name.to_str()
        .is_some_and(|name| NAMES.contains(&name) || name.starts_with("hearth-set-aside-"))
}
