//! What becomes of the files of runs and adapters that were deleted.

use crate::{
    shared::Shared,
    store::{adapter, run},
    wire::Problem,
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

/// How long a deletion can be taken back while the app runs.
pub(crate) const UNDO_FOR: Duration = Duration::from_secs(10 * 60);

/// The folder that has a folder for each run.
pub(crate) fn runs_folder(shared: &Shared) -> PathBuf {
    shared.data.join("runs")
}

/// Removes what was deleted before a time (milliseconds since 1970), files first: what cannot be removed is tried again the
/// next time. An adapter that lies elsewhere is the person's, and stays.
pub(crate) fn purge(shared: &Shared, before: i64) -> Result<(), Problem> {
    let (runs, adapters) = shared
        .store
        .read(|t| Ok((run::deleted(t, before)?, adapter::deleted(t, before)?)))?;
    let folder = runs_folder(shared);
    for id in runs {
        if removed(&folder.join(id.to_string())) {
            shared.store.write(|t| run::remove(t, id))?;
        }
    }
    for (id, path) in adapters {
        if !path.starts_with(&folder) || removed(&path) {
            shared.store.write(|t| adapter::remove(t, id))?;
        }
    }
    Ok(())
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
