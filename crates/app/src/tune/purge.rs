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
pub(crate) const UNDO_TIME: Duration = Duration::from_secs(10 * 60);

/// The parent of the runs' folders.
pub(crate) fn runs_folder(shared: &Shared) -> PathBuf {
    shared.data.join("runs")
}

/// The highest number of a run's folder; 0 if there is none. The folder may belong to a run of a
/// store that was set aside.
pub(crate) fn max_run_number(shared: &Shared) -> i64 {
    let entries = fs::read_dir(runs_folder(shared)).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // Hearth creates no folder with a larger number, and after such a number no run could start.
    numbers.filter(|number| *number <= MAX_RUN_FOLDER).max().unwrap_or(0)
}

/// Removes runs and adapters deleted before a time (milliseconds since 1970), files first. Files
/// that cannot be removed, that an active run uses, or that contain another adapter stay until the
/// next call. If an adapter was written again after its deletion, it is restored.
pub(crate) fn purge(shared: &Shared, deleted_before: i64) -> Result<(), Problem> {
    // No run starts meanwhile and the active run is skipped, so the checked files do not change.
    let _no_run_starts = lock(&shared.starting_run);
    let (runs, adapters) = shared
        .store
        .read(|t| Ok((run::deleted(t, deleted_before)?, adapter::deleted(t, deleted_before)?)))?;
    let is_active = |run_id| shared.live_run(run_id).is_some();
    for run_id in runs {
        if !is_active(run_id) {
            // One transaction: the run cannot be restored between check and removal.
            shared.store.write(|t| {
                let is_still_deleted = run::deleted(t, deleted_before)?.contains(&run_id);
                Ok(is_still_deleted && purge_run(t, shared, run_id)?)
            })?;
        }
    }
    let mut is_any_restored = false;
    for deleted in adapters {
        if !deleted.run.is_some_and(is_active) {
            is_any_restored |= shared.store.write(|t| {
                let is_still_deleted = adapter::deleted(t, deleted_before)?.contains(&deleted);
                Ok(is_still_deleted && purge_adapter(t, shared, &deleted)?)
            })?;
        }
    }
    if is_any_restored {
        shared.announce_adapters()?;
    }
    Ok(())
}

/// Removes a deleted run. Returns `true` if it was removed.
fn purge_run(t: &Transaction<'_>, shared: &Shared, run_id: i64) -> rusqlite::Result<bool> {
    let folder = runs_folder(shared).join(run_id.to_string());
    let is_removable = !holds_other_adapter(t, &folder, Owner::Run(run_id))?;
    Ok(is_removable && remove_path(&folder) && run::remove(t, run_id)?)
}

/// Removes or restores a deleted adapter. Returns `true` if it was restored.
fn purge_adapter(t: &Transaction<'_>, shared: &Shared, deleted: &adapter::Deleted) -> rusqlite::Result<bool> {
    let path = &deleted.path;
    if deleted.run.is_none() && shared.library.adapter_origin(path).is_some() {
        return purge_downloaded(t, shared, deleted);
    }
    // The files of an imported adapter belong to the user, even inside a run's folder.
    let run_folder = deleted.run.map(|run_id| runs_folder(shared).join(run_id.to_string()));
    if !run_folder.is_some_and(|folder| is_inside_resolved(path, &folder)) {
        return adapter::remove(t, deleted.id).map(|_| false);
    }
    if modified_at(path).is_some_and(|time| time > deleted.deleted_at) {
        tracing::info!(id = deleted.id, "a deleted adapter was written again and is restored");
        return adapter::restore(t, deleted.id);
    }
    let is_removable = !holds_other_adapter(t, path, Owner::Adapter(deleted.id))?;
    if is_removable && recovery_candidates(path).iter().all(|path| remove_path(path)) && remove_path(path) {
        adapter::remove(t, deleted.id)?;
    }
    Ok(false)
}

/// Removes a deleted adapter that Hearth downloaded. Returns `false`, since it is never restored.
fn purge_downloaded(t: &Transaction<'_>, shared: &Shared, deleted: &adapter::Deleted) -> rusqlite::Result<bool> {
    // Another row may have the same files.
    if !holds_other_adapter(t, &deleted.path, Owner::Adapter(deleted.id))?
        && let Err(error) = shared.library.delete_adapter(&deleted.path)
    {
        tracing::warn!(%error, "the files of a deleted adapter could not be removed yet");
        return Ok(false);
    }
    adapter::remove(t, deleted.id).map(|_| false)
}

/// Whether a path is in a folder, both as written and after symbolic links are resolved: the row
/// may come from another machine, and a folder may be a link.
fn is_inside_resolved(path: &Path, folder: &Path) -> bool {
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

/// The owner of files that are about to be removed.
#[derive(Clone, Copy)]
enum Owner {
    /// The run with this id, which owns its adapters too.
    Run(i64),
    /// The adapter with this id.
    Adapter(i64),
}

impl Owner {
    /// Whether the owner is or has this adapter.
    fn includes(self, adapter: &adapter::Adapter) -> bool {
        match self {
            Self::Run(run_id) => adapter.run == Some(run_id),
            Self::Adapter(adapter_id) => adapter.id == adapter_id,
        }
    }
}

/// Whether a folder contains an adapter that is not deleted and that the owner does not include.
fn holds_other_adapter(t: &Transaction<'_>, folder: &Path, owner: Owner) -> rusqlite::Result<bool> {
    // Imported adapters are stored by their canonical path.
    let canonical = |path: &Path| fs::canonicalize(path).map_or_else(|_| path.to_owned(), |path| library::plain(&path));
    let folder = canonical(folder);
    let is_other_inside =
        |adapter: &adapter::Adapter| !owner.includes(adapter) && canonical(&adapter.path).starts_with(&folder);
    Ok(adapter::list(t)?.iter().any(is_other_inside))
}

/// Modification time of a file or folder, in milliseconds since 1970.
fn modified_at(path: &Path) -> Option<i64> {
    let modified = fs::symlink_metadata(path).ok()?.modified().ok()?;
    i64::try_from(modified.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}
