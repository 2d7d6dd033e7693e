//! The list of the files that a move has copied. Only these are deleted in the former folder,
//! because the user or a program may have added other files since.

use super::{copy::Contents, location};
use crate::{inside::inside, prompt_cache, remove_path::remove_path, store};
use hearth_formats::durable;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

/// The file in a data folder that lists the files copied from the former one.
pub(crate) const COPIED: &str = "hearth-copied.json";

/// Most bytes of that file.
const MAX_BYTES: u64 = 256 << 20;

/// Time in which an early version may still have written to the former store after a move, in
/// nanoseconds.
const CLOSING: u128 = 60 * 60 * 1_000_000_000;

/// The list of copied files, folders and links.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Copied {
    /// The clock of the store, which changes whenever the store is opened.
    pub clock: Option<String>,
    pub files: Vec<CopiedFile>,
    /// Relative paths of symbolic links.
    pub links: Vec<PathBuf>,
    /// Relative paths of folders, parents first.
    pub folders: Vec<PathBuf>,
}

/// A file that was copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CopiedFile {
    /// The path in the data folder.
    pub path: PathBuf,
    pub bytes: u64,
    /// Time of the last change, in nanoseconds since 1970. `None` means that only the size is
    /// compared.
    pub modified: Option<u64>,
}

/// The time of the last change, as in [`CopiedFile::modified`].
pub(super) fn modified(metadata: &fs::Metadata) -> Option<u64> {
    let since_epoch = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since_epoch.as_nanos()).ok()
}

impl Copied {
    /// Writes the list into the folder of a complete copy.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        durable::write_file(&folder.join(COPIED), |out| {
            serde_json::to_writer(&mut *out, self)?;
            out.flush()
        })
    }

    /// The list in a data folder. `None` if an early version moved the data.
    ///
    /// # Errors
    /// It is damaged or cannot be read.
    pub(super) fn read(data: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(data.join(COPIED)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut text = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut text)?;
        Ok(Some(serde_json::from_slice(&text)?))
    }

    /// The list for a move by an early version, which wrote none: the files that are in both
    /// folders.
    pub(super) fn of_both(former: &Path, data: &Path) -> io::Result<Self> {
        let contents = Contents::from_folder(former)?;
        let mut copied = contents.copied();
        copied
            .files
            .retain(|file| fs::metadata(data.join(&file.path)).is_ok_and(|metadata| metadata.len() == file.bytes));
        Ok(copied)
    }

    /// Whether the store in the former folder was opened after the move.
    pub(super) fn is_used_since(&self, former: &Path, base: &Path) -> bool {
        if !former.join(store::FILE).exists() {
            return false;
        }
        match &self.clock {
            Some(clock) => store::clock_of(former).as_ref() != Some(clock),
            None => {
                let time = |path: PathBuf| fs::metadata(path).ok().as_ref().and_then(modified).map(u128::from);
                let moved = time(base.join(location::MOVED));
                moved.is_some_and(|moved| time(former.join(store::FILE)) > Some(moved + CLOSING))
            }
        }
    }

    /// Deletes the copied files in the former folder, the store first, and caches that Hearth can
    /// recreate. Returns `false` if a file cannot be deleted.
    pub(super) fn delete(&self, former: &Path) -> bool {
        let mut is_deleted = true;
        for suffix in ["", "-wal", "-shm", "-archive"] {
            is_deleted &= remove_path(&former.join(format!("{}{suffix}", store::FILE)));
        }
        for file in self.files.iter().filter(|file| is_unchanged(former, file)) {
            is_deleted &= remove_path(&former.join(&file.path));
        }
        for link in self.links.iter().map(|link| former.join(link)) {
            let is_link = fs::symlink_metadata(&link).is_ok_and(|metadata| metadata.is_symlink());
            if is_link && is_in_real_folder(former, &link) {
                is_deleted &= remove_path(&link);
            }
        }
        prompt_cache::clear(former);
        for name in [
            location::ORIGIN,
            COPIED,
            "hearth-coming",
            "hearth-restore",
            "hearth-restore-2",
        ] {
            is_deleted &= remove_path(&former.join(name));
        }
        // Folders with other files are kept.
        for folder in self.folders.iter().rev().map(|folder| former.join(folder)) {
            if is_in_real_folder(former, &folder) {
                let _ = fs::remove_dir(folder);
            }
        }
        is_deleted
    }
}

/// Whether a file is unchanged since it was copied.
fn is_unchanged(former: &Path, file: &CopiedFile) -> bool {
    let path = former.join(&file.path);
    let is_same = fs::symlink_metadata(&path).is_ok_and(|metadata| {
        metadata.is_file()
            && metadata.len() == file.bytes
            && file.modified.is_none_or(|time| modified(&metadata) == Some(time))
    });
    is_same && is_in_real_folder(former, &path)
}

/// Whether no folder between `former` and a path is a link, which may point to the copy.
fn is_in_real_folder(former: &Path, path: &Path) -> bool {
    let Some(parent) = inside(path, former).and_then(Path::parent) else {
        return false;
    };
    let canonical = |path: &Path| fs::canonicalize(path).ok();
    canonical(former).is_some_and(|former_path| canonical(&former.join(parent)) == Some(former_path.join(parent)))
}
