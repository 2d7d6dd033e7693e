//! Puts an extracted backup in place of the present data, when the app starts.
//!
//! First everything present is moved aside, then the backup's files to their places, each by a
//! rename; the file [`PENDING`] says which of the two is in progress. A process killed at any point
//! is continued by the next start, which calls [`complete`] before it opens the store.

use super::{FOLDERS, PENDING, STAGING};
use crate::{
    prompt_cache, store,
    wire::{PendingRestore, Problem, ProblemCode},
};
use hearth_formats::durable;
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    io::Write,
    path::{Path, PathBuf},
};

/// A restoration that is not complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Pending {
    phase: Phase,
    /// The folder in the data folder to which the present data is moved.
    aside: PathBuf,
    /// Whether the backup is in the second folder of [`STAGING`].
    #[serde(default)]
    in_second: bool,
    pub about: PendingRestore,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    /// The present data is moved aside.
    Aside,
    /// The backup's files are moved to their places.
    Place,
}

impl Pending {
    /// A backup that is extracted in `staging`.
    pub fn new(about: PendingRestore, staging: &Path) -> Self {
        Self {
            phase: Phase::Aside,
            aside: PathBuf::from(&about.aside),
            in_second: staging.ends_with(STAGING[1]),
            about,
        }
    }

    fn staging(&self, data: &Path) -> PathBuf {
        data.join(STAGING[usize::from(self.in_second)])
    }
}

/// An empty folder to extract a backup into, which the pending one is not in.
pub(super) fn new_staging(data: &Path) -> Result<PathBuf, Problem> {
    let [first, second] = STAGING.map(|name| data.join(name));
    let staging = match pending(data) {
        Some(pending) if pending.staging(data) == first => second,
        _ => first,
    };
    let created = remove_folder(&staging).and_then(|()| crate::permissions::create_private_folder(&staging));
    created.map_err(|error| super::failed(&staging, &error))?;
    Ok(staging)
}

/// Makes an extracted backup pending, in place of the one before.
pub(super) fn begin(data: &Path, pending: &Pending) -> Result<(), Problem> {
    save(data, pending).map_err(|error| super::failed(&data.join(PENDING), &error))?;
    for other in STAGING.map(|name| data.join(name)) {
        if other != pending.staging(data) {
            // The next start would remove it.
            let _ = remove_folder(&other);
        }
    }
    Ok(())
}

/// The restoration that the next start completes.
pub(super) fn pending(data: &Path) -> Option<Pending> {
    let text = fs::read(data.join(PENDING)).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Cancels a restoration, unless its completion has begun.
pub(super) fn cancel(data: &Path) -> Result<(), Problem> {
    let remove = || -> io::Result<()> {
        durable::remove_file(&data.join(PENDING))?;
        remove_staging(data)
    };
    remove().map_err(|error| super::failed(data, &error))
}

/// Completes a pending restoration, and removes the remains of one that was not extracted
/// completely. Call it before the store is opened, while its folder is locked.
///
/// # Errors
/// A file cannot be moved; the next call continues.
pub(crate) fn complete(data: &Path) -> Result<(), Problem> {
    let done = match pending(data) {
        Some(pending) => put_in_place(data, pending),
        None if data.join(PENDING).exists() => Err(io::Error::other("its file cannot be read")),
        None => remove_staging(data),
    };
    done.map_err(|error| Problem {
        code: ProblemCode::Store,
        message: format!(
            "The restoration of a backup could not be completed in {}: {error}. Nothing is lost: the data from before \
             is there or in a folder “hearth-set-aside-…” in it. Check that the folder is writable, then start Hearth \
             again.",
            data.display()
        ),
    })
}

fn put_in_place(data: &Path, mut pending: Pending) -> io::Result<()> {
    let aside = data.join(pending.aside.file_name().unwrap_or_default());
    let staging = pending.staging(data);
    if pending.phase == Phase::Aside && !staging.join(store::FILE).exists() {
        // Its beginning failed, and its files were removed: nothing was moved yet.
        durable::remove_file(&data.join(PENDING))?;
        return remove_staging(data);
    }
    if pending.phase == Phase::Aside {
        crate::permissions::create_private_folder(&aside)?;
        for name in present() {
            rename(&data.join(&name), &aside.join(&name))?;
        }
        durable::sync_folder(&aside)?;
        durable::sync_folder(data)?;
        pending.phase = Phase::Place;
        save(data, &pending)?;
    }
    for name in FOLDERS.iter().copied().chain([store::FILE]) {
        rename(&staging.join(name), &data.join(name))?;
    }
    durable::sync_folder(data)?;
    prompt_cache::clear(data);
    durable::remove_file(&data.join(PENDING))?;
    remove_staging(data)
}

/// The entries of the data folder that a backup replaces.
fn present() -> impl Iterator<Item = String> {
    let endings = ["-wal", "-shm", ""]
        .iter()
        .map(|ending| format!("{}{ending}", store::FILE));
    endings.chain(FOLDERS.map(str::to_owned))
}

/// Renames, if the source exists: a rename before a kill is not repeated.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !from.exists() => Ok(()),
        renamed => renamed,
    }
}

fn remove_staging(data: &Path) -> io::Result<()> {
    STAGING.iter().try_for_each(|name| remove_folder(&data.join(name)))
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn save(data: &Path, pending: &Pending) -> io::Result<()> {
    durable::write_file(&data.join(PENDING), |out| {
        serde_json::to_writer(&mut *out, pending)?;
        out.flush()
    })
}
