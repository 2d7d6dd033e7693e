//! Atomic file writes: a temporary file beside the target, fsync, then rename. Unlike
//! [`durable`](crate::durable), staged files have unique names, so two processes may write the same
//! path at the same time, and several files can be staged before the first is renamed.

use crate::durable::{parent, sync_folder};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Writes a file with `write` and replaces `path` atomically. On failure `path` is unchanged and no
/// temporary file is left.
///
/// # Errors
/// If `write` fails, or the file cannot be created, synced or renamed.
pub fn write_atomic<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    Ok(Staged::write(path, write)?.commit()?)
}

/// A temporary file that is written but not yet renamed. Removed when dropped.
pub(super) struct Staged {
    /// `None` after the rename.
    temporary: Option<PathBuf>,
    path: PathBuf,
}

impl Staged {
    /// Writes a temporary file beside `path` and syncs it to disk.
    pub fn write<E: From<io::Error>>(
        path: &Path,
        write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let (temporary, file) = create_temporary(path)?;
        let staged = Self {
            temporary: Some(temporary),
            path: path.to_owned(),
        };
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()?;
        out.get_ref().sync_all()?;
        Ok(staged)
    }

    /// Renames it to its final path.
    pub fn commit(mut self) -> io::Result<()> {
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.path)?;
            self.temporary = None;
        }
        sync_folder(parent(&self.path))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // A leftover file does no harm: the next one has another name.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Creates a new temporary file beside `path`.
fn create_temporary(path: &Path) -> io::Result<(PathBuf, File)> {
    /// Distinguishes files that one process writes at the same time.
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name"))?;
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let temporary = path.with_file_name(format!(
            ".{}.{}-{number}.part",
            name.to_string_lossy(),
            std::process::id()
        ));
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            // Left by a killed process with the same process ID.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return Ok((temporary, opened?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_of_a_killed_process_with_the_same_id_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("adapter.gguf");
        for number in 0..50 {
            let left = format!(".adapter.gguf.{}-{number}.part", std::process::id());
            fs::write(folder.path().join(left), "half").unwrap();
        }
        write_atomic::<io::Error>(&path, |out| out.write_all(b"whole")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
    }
}
