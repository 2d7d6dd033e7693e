//! Removal of the files of deleted runs and adapters. A file is deleted only with its owner.
//!
//! A run owns all files in its folder, its adapter's included. A downloaded adapter owns its files
//! in the folder of adapters. An imported adapter owns no files, wherever it is stored.

use crate::{
    inside::inside,
    library,
    lock::lock,
    remove_path::remove_path,
    shared::Shared,
    store::{MAX_RUN_FOLDER, adapter, run},
    wire::Problem,
};
use hearth_formats::durable::recovery_candidates;
use rusqlite::Transaction;
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

/// Time for which a deletion can be undone while the app runs.
pub(crate) const UNDO_FOR: Duration = Duration::from_secs(10 * 60);

/// The parent of the runs' folders.
pub(crate) fn runs_folder(shared: &Shared) -> PathBuf {
    shared.data.join("runs")
}

/// The highest number of a run's folder; 0 if there is none. The folder may belong to a run of a
/// store that was set aside.
pub(crate) fn last_folder(shared: &Shared) -> i64 {
    let entries = fs::read_dir(runs_folder(shared)).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // Hearth creates no folder with a larger number, and after such a number no run could start.
    numbers.filter(|number| *number <= MAX_RUN_FOLDER).max().unwrap_or(0)
}

/// Removes runs and adapters deleted before a time (milliseconds since 1970), files first. Files
/// that cannot be removed, that an active run uses, or that contain another adapter stay until the
/// next call. If an adapter was written again after its deletion, it is restored.
pub(crate) fn purge(shared: &Shared, before: i64) -> Result<(), Problem> {
    // No run starts meanwhile and the active run is skipped, so the checked files do not change.
    let _no_run_starts = lock(&shared.starting_run);
    let (runs, adapters) = shared
        .store
        .read(|t| Ok((run::deleted(t, before)?, adapter::deleted(t, before)?)))?;
    for id in runs {
        let files = runs_folder(shared).join(id.to_string());
        if shared.live_run(id).is_none() {
            // One transaction: the run cannot be restored between check and removal.
            shared.store.write(|t| {
                let is_removable =
                    run::deleted(t, before)?.contains(&id) && !holds_other_adapter(t, Some(id), None, &files)?;
                Ok(is_removable && remove_path(&files) && run::remove(t, id)?)
            })?;
        }
    }
    let mut restored = false;
    for deleted in adapters {
        let is_active = |run| shared.live_run(run).is_some();
        if !deleted.run.is_some_and(is_active) {
            restored |= shared.store.write(|t| {
                let is_still_deleted = adapter::deleted(t, before)?.contains(&deleted);
                Ok(is_still_deleted && purge_adapter(t, shared, &deleted)?)
            })?;
        }
    }
    if restored {
        shared.announce_adapters()?;
    }
    Ok(())
}

/// Removes or restores a deleted adapter. Returns `true` if it was restored.
fn purge_adapter(t: &Transaction<'_>, shared: &Shared, deleted: &adapter::Deleted) -> rusqlite::Result<bool> {
    let (path, runs) = (&deleted.path, runs_folder(shared));
    if deleted.run.is_none() && shared.library.adapter_origin(path).is_some() {
        return purge_downloaded(t, shared, deleted);
    }
    // The files of an imported adapter belong to the user, even inside a run's folder.
    let run_folder = deleted.run.map(|run| runs.join(run.to_string()));
    if !run_folder.is_some_and(|folder| is_really_in(path, &folder)) {
        return adapter::remove(t, deleted.id).map(|_| false);
    }
    if modified(path).is_some_and(|modified| modified > deleted.deleted_at) {
        tracing::info!(id = deleted.id, "a deleted adapter was written again and is restored");
        return adapter::restore(t, deleted.id);
    }
    let is_removable = !holds_other_adapter(t, None, Some(deleted.id), path)?;
    if is_removable && recovery_candidates(path).iter().all(|path| remove_path(path)) && remove_path(path) {
        adapter::remove(t, deleted.id)?;
    }
    Ok(false)
}

/// Whether a path is in a folder, lexically and after symbolic links are resolved: the row may come
/// from another machine, and a folder may be a link.
fn is_really_in(path: &Path, folder: &Path) -> bool {
    match inside(path, folder) {
        None => false,
        Some(rest) if rest.as_os_str().is_empty() => true,
        Some(_) => match (path.parent().map(fs::canonicalize), fs::canonicalize(folder)) {
            (Some(Ok(parent)), Ok(folder)) => parent.starts_with(folder),
            // There is nothing to remove.
            _ => !path.exists(),
        },
    }
}

/// Removes a deleted adapter that Hearth downloaded.
fn purge_downloaded(t: &Transaction<'_>, shared: &Shared, deleted: &adapter::Deleted) -> rusqlite::Result<bool> {
    // Another row may have the same files.
    if !holds_other_adapter(t, None, Some(deleted.id), &deleted.path)?
        && let Err(error) = shared.library.delete_adapter(&deleted.path)
    {
        tracing::warn!(%error, "the files of a deleted adapter could not be removed yet");
        return Ok(false);
    }
    adapter::remove(t, deleted.id).map(|_| false)
}

/// Whether a folder contains an adapter that is not deleted, other than the adapters of `run` and
/// adapter `id`.
fn holds_other_adapter(
    t: &Transaction<'_>,
    run: Option<i64>,
    id: Option<i64>,
    folder: &Path,
) -> rusqlite::Result<bool> {
    // Imported adapters are stored by their canonical path.
    let canonical = |path: &Path| fs::canonicalize(path).map_or_else(|_| path.to_owned(), |path| library::plain(&path));
    let folder = canonical(folder);
    let others = adapter::list(t)?.into_iter().filter(|other| {
        let is_excepted = run.is_some() && other.run == run || id == Some(other.id);
        !is_excepted
    });
    Ok(others
        .into_iter()
        .any(|other| canonical(&other.path).starts_with(&folder)))
}

/// Modification time of a file or folder, in milliseconds since 1970.
fn modified(path: &Path) -> Option<i64> {
    let modified = fs::symlink_metadata(path).ok()?.modified().ok()?;
    i64::try_from(modified.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}
