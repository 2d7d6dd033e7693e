//! Files that are there whole or not at all: written beside their place, flushed to the disk, then renamed.
//!
//! Unlike those of [`durable`](crate::durable), staged files have names of their own, so that two processes may write one path at the same
//! time, and several can be staged before the first is renamed.

use crate::durable::{parent, sync_folder};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Writes a file by `write`; where that fails, what was at `path` before is still there and nothing else is.
///
/// # Errors
/// What `write` says, or that the file cannot be made, flushed or renamed.
pub fn write_whole<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    Ok(Staged::write(path, write)?.commit()?)
}

/// A file that is written but not in its place yet. Dropped, it is removed.
pub(super) struct Staged {
    /// None once it is in its place.
    temporary: Option<PathBuf>,
    path: PathBuf,
}

impl Staged {
    /// Writes beside `path`, and waits until the disk has it all.
    pub fn write<E: From<io::Error>>(
        path: &Path,
        write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let (temporary, file) = beside(path)?;
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

    /// Puts it in its place.
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
            // One that cannot be removed is in no one's way: the next one has another name.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// A new file beside `path`.
fn beside(path: &Path) -> io::Result<(PathBuf, File)> {
    /// Tells files apart that one process writes at once.
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
            // A process that had this one's number was killed.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return Ok((temporary, opened?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_a_killed_process_of_the_same_number_left_is_in_no_ones_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("adapter.gguf");
        for number in 0..50 {
            let left = format!(".adapter.gguf.{}-{number}.part", std::process::id());
            fs::write(folder.path().join(left), "half").unwrap();
        }
        write_whole::<io::Error>(&path, |out| out.write_all(b"whole")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
    }
}
