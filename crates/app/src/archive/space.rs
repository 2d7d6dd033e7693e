//! Checks of the free space on a disk.

use crate::wire::{Problem, ProblemCode};
use hearth_formats::free_space;
use hearth_protocol::{DataReason, DiskContents};
use std::path::Path;

/// Bytes that are kept free for the store and other programs.
pub(crate) const RESERVE: u64 = 100 << 20;

/// Checks that the disk of a folder has space for `bytes`, plus [`RESERVE`].
///
/// # Errors
/// [`ProblemCode::DiskFull`]; nothing was written.
pub(crate) fn check_space(folder: &Path, bytes: u64, contents: DiskContents) -> Result<(), Problem> {
    let needed = bytes.saturating_add(RESERVE);
    match free_space(folder) {
        Some(free) if free < needed => Err(Problem::new(
            ProblemCode::DiskFull,
            DataReason::NoSpace {
                contents,
                bytes,
                folder: folder.display().to_string(),
                free_bytes: free,
                reserved_bytes: RESERVE,
            },
        )),
        _ => Ok(()),
    }
}
