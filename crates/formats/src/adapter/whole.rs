//! Files that are there whole or not at all: written beside their place, flushed to the disk, then renamed.

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
        /// Tells files apart that one process writes at once.
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = path
            .file_name()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the place has no file name"))?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let temporary = path.with_file_name(format!(
            ".{}.{}-{number}.part",
            name.to_string_lossy(),
            std::process::id()
        ));
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
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
        self.path.parent().map_or(Ok(()), sync_folder)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // What cannot be removed is in nobody's way.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Waits until the disk knows of the new name.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    File::open(folder)?.sync_all()
}

/// Folders cannot be opened here; the system keeps their order itself.
#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}
