//! Whether a disk has room for what is about to be written.

use crate::wire::{Problem, ProblemCode};
use hearth_formats::{byte_size, free_space};
use std::path::Path;

/// Bytes that stay free: the running store and other programs need some.
pub(crate) const RESERVE: u64 = 100 << 20;

/// Refuses to write bytes into a folder whose disk has too little room. `what` is the subject of
/// the sentence.
///
/// # Errors
/// [`ProblemCode::DiskFull`]; nothing was written.
pub(crate) fn check_space(folder: &Path, bytes: u64, what: &str) -> Result<(), Problem> {
    let needed = bytes.saturating_add(RESERVE);
    match free_space(folder) {
        Some(free) if free < needed => Err(Problem {
            code: ProblemCode::DiskFull,
            message: format!(
                "{what} takes {}, and {} has {} free, of which {} have to stay free. Nothing was changed. Free some \
                 space or choose another disk.",
                byte_size(bytes),
                folder.display(),
                byte_size(free),
                byte_size(RESERVE)
            ),
        }),
        _ => Ok(()),
    }
}
