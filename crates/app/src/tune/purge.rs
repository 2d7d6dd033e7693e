//! What becomes of the files of runs and adapters that were deleted: a file goes with its owner, and with nothing else.
//!
//! All files of a run, its adapter's among them, are that run's. An imported adapter owns none, wherever it lies.

use crate::{
    library,
    shared::Shared,
    store::{adapter, run},
    wire::Problem,
};
use hearth_formats::durable::stand_ins;
use rusqlite::Transaction;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::PoisonError,
    time::{Duration, UNIX_EPOCH},
};

/// How long a deletion can be taken back while the app runs.
pub(crate) const UNDO_FOR: Duration = Duration::from_secs(10 * 60);

/// The folder that has a folder for each run.
pub(crate) fn runs_folder(shared: &Shared) -> PathBuf {
    shared.data.join("runs")
}

/// The highest number that a run's folder has, be it of this store or of one that was set aside; 0 if there is none.
pub(crate) fn last_folder(shared: &Shared) -> i64 {
    let entries = fs::read_dir(runs_folder(shared)).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.max().unwrap_or(0)
}

/// Removes what was deleted before a time (milliseconds since 1970), files first: what cannot be removed is tried again the
/// next time. Files that a run is at work on, or that another adapter lies in, stay until then, too. A deletion that was overtaken, since
/// the adapter was made again, is undone.
pub(crate) fn purge(shared: &Shared, before: i64) -> Result<(), Problem> {
    // No run begins meanwhile, and none that is under way is touched: what is looked at does not change.
    let _beginning = shared.beginning.lock().unwrap_or_else(PoisonError::into_inner);
    let (runs, adapters) = shared
        .store
        .read(|t| Ok((run::deleted(t, before)?, adapter::deleted(t, before)?)))?;
    for id in runs {
        let files = runs_folder(shared).join(id.to_string());
        if shared.live_run(id).is_none() {
            // In one transaction, so that it is not restored between the two.
            shared.store.write(|t| {
                let goes = run::deleted(t, before)?.contains(&id) && !is_used(t, Some(id), None, &files)?;
                Ok(goes && removed(&files) && run::remove(t, id)?)
            })?;
        }
    }
    let mut restored = false;
    for deleted in adapters {
        let busy = |run| shared.live_run(run).is_some();
        if !deleted.run.is_some_and(busy) {
            restored |= shared.store.write(|t| {
                let still = adapter::deleted(t, before)?.contains(&deleted);
                Ok(still && purge_adapter(t, &runs_folder(shared), &deleted)?)
            })?;
        }
    }
    if restored {
        shared.emit_adapters()?;
    }
    Ok(())
}

/// Removes a deleted adapter, or restores it; whether it was restored.
fn purge_adapter(t: &Transaction<'_>, runs: &Path, deleted: &adapter::Deleted) -> rusqlite::Result<bool> {
    let path = &deleted.path;
    // The files of an imported adapter belong to the user, even inside a run's folder.
    let owned = deleted
        .run
        .is_some_and(|run| path.starts_with(runs.join(run.to_string())));
    if !owned {
        return adapter::remove(t, deleted.id).map(|_| false);
    }
    if modified(path).is_some_and(|modified| modified > deleted.deleted_at) {
        tracing::info!(id = deleted.id, "a deleted adapter was made again, so it stays");
        return adapter::restore(t, deleted.id);
    }
    let goes = !is_used(t, None, Some(deleted.id), path)?;
    if goes && stand_ins(path).iter().all(|path| removed(path)) && removed(path) {
        adapter::remove(t, deleted.id)?;
    }
    Ok(false)
}

/// Whether an adapter that is not deleted lies in a folder: any but those of a run, or but one.
fn is_used(t: &Transaction<'_>, run: Option<i64>, id: Option<i64>, folder: &Path) -> rusqlite::Result<bool> {
    // Imported ones have their full path.
    let full = |path: &Path| fs::canonicalize(path).map_or_else(|_| path.to_owned(), |path| library::plain(&path));
    let folder = full(folder);
    let others = adapter::list(t)?.into_iter().filter(|other| {
        let own = run.is_some() && other.run == run || id == Some(other.id);
        !own
    });
    Ok(others.into_iter().any(|other| full(&other.path).starts_with(&folder)))
}

/// When a file or folder was last written, in milliseconds since 1970.
fn modified(path: &Path) -> Option<i64> {
    let modified = fs::symlink_metadata(path).ok()?.modified().ok()?;
    i64::try_from(modified.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

/// Removes a file or a folder; whether it is gone.
pub(crate) fn removed(path: &Path) -> bool {
    let removed = match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "something deleted could not be removed yet");
            false
        }
    }
}
