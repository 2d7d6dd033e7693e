//! Replaces the current data by an extracted backup when the app starts.
//!
//! First the current data is moved aside, then the backup's files are moved into place, each by a
//! rename. The file [`PENDING`] has the phase that is in progress. If the process is killed, the
//! next start continues: it calls [`complete`] before it opens the store.

use super::{FOLDERS, PENDING, STAGING};
use crate::{
    prompt_cache, store,
    wire::{PendingRestore, Problem, ProblemCode},
};
use hearth_formats::durable;
use hearth_protocol::DataReason;
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
    /// The folder in the data folder to which the current data is moved.
    aside: PathBuf,
    /// Whether the backup is in the second folder of [`STAGING`].
    #[serde(default)]
    in_second: bool,
    pub about: PendingRestore,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    /// The current data is moved aside.
    Aside,
    /// The backup's files are moved into place.
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

/// Creates an empty staging folder for a backup, other than the folder of the pending one.
pub(super) fn new_staging(data: &Path) -> Result<PathBuf, Problem> {
    let [first, second] = STAGING.map(|name| data.join(name));
    let staging = match pending(data) {
        Some(pending) if pending.staging(data) == first => second,
        _ => first,
    };
    remove_folder(&staging)
        .and_then(|()| crate::permissions::create_private_folder(&staging))
        .map_err(|error| super::failed(&staging, &error))?;
    Ok(staging)
}

/// Makes an extracted backup pending. It replaces a backup that is pending already.
pub(super) fn begin(data: &Path, pending: &Pending) -> Result<(), Problem> {
    save(data, pending).map_err(|error| super::failed(&data.join(PENDING), &error))?;
    for other in STAGING.map(|name| data.join(name)) {
        if other != pending.staging(data) {
            // An error is ignored, because the next start removes the folder.
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

/// Completes a pending restoration, and removes the files of one that was not extracted completely.
/// Must be called before the store is opened, while its folder is locked.
///
/// # Errors
/// A file cannot be moved; the next call continues.
pub(crate) fn complete(data: &Path) -> Result<(), Problem> {
    let folder = || data.display().to_string();
    let result = match pending(data) {
        Some(pending) => put_in_place(data, pending),
        None if data.join(PENDING).exists() => {
            let (folder, name) = (folder(), PENDING.to_owned());
            let reason = DataReason::RestoreUnreadable { folder, name };
            return Err(Problem::new(ProblemCode::Store, reason));
        }
        None => remove_staging(data),
    };
    result.map_err(|error| {
        let (folder, detail) = (folder(), error.to_string());
        Problem::new(ProblemCode::Store, DataReason::RestoreIncomplete { folder, detail })
    })
}

fn put_in_place(data: &Path, mut pending: Pending) -> io::Result<()> {
    let aside = data.join(pending.aside.file_name().unwrap_or_default());
    let staging = pending.staging(data);
    if pending.phase == Phase::Aside && !staging.join(store::FILE).exists() {
        // The extraction failed and its files were removed. Nothing was moved yet.
        durable::remove_file(&data.join(PENDING))?;
        return remove_staging(data);
    }
    if pending.phase == Phase::Aside {
        crate::permissions::create_private_folder(&aside)?;
        for name in replaced_entries() {
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
fn replaced_entries() -> impl Iterator<Item = String> {
    let store_files = ["-wal", "-shm", ""]
        .iter()
        .map(|suffix| format!("{}{suffix}", store::FILE));
    store_files.chain(FOLDERS.map(str::to_owned))
}

/// Renames a file or folder if the source exists. A missing source was renamed before a kill.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !from.exists() => Ok(()),
        result => result,
    }
}

fn remove_staging(data: &Path) -> io::Result<()> {
    STAGING.iter().try_for_each(|name| remove_folder(&data.join(name)))
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn save(data: &Path, pending: &Pending) -> io::Result<()> {
    durable::write_file(&data.join(PENDING), |out| {
        serde_json::to_writer(&mut *out, pending)?;
        out.flush()
    })
}
