//! Whether a downloaded model has changed on its server since. The server is asked only when the
//! user requests it.

use super::{
    Library, LibraryError, Model,
    download::{Saved, is_hashed, saved},
    hub::{Hub, Reference, Remote},
    remote,
};
use std::fs;

/// The state of a downloaded model on its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// The same files.
    Current,
    /// Other files.
    Available,
    /// Nothing tells.
    Unknown(Untold),
}

/// Why nothing tells whether a model changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Untold {
    /// It has no record of its origin.
    #[error("Hearth did not download this model, so it does not know which server to ask.")]
    NoRecord,
    /// Its record has no hashes.
    #[error(
        "An earlier version of Hearth downloaded this model and kept no checksum of it. Download it again to be sure: \
         what is unchanged is not downloaded."
    )]
    NoHashes,
    /// Its record has no version, and the server publishes no hash.
    #[error(
        "An earlier version of Hearth downloaded this model and kept no version of it; only its size is known to be \
         the same. To be sure, delete it and download it again."
    )]
    NoRecordedVersion,
    /// The record has its address without the query.
    #[error(
        "Its address had a query, which Hearth does not keep because it may hold a password. Download it again from the \
         whole address."
    )]
    NoQuery,
    /// The server names no version.
    #[error("Its server does not say which version of the file it has; only its size is known to be the same.")]
    NoVersion,
}

impl Library {
    /// Asks the server of a downloaded model whether it has another version of it. `source` is what
    /// it was downloaded from.
    ///
    /// # Errors
    /// The server cannot be asked, or does not have the model any more.
    pub fn update(&self, hub: &Hub, model: &Model, source: &str) -> Result<Update, LibraryError> {
        let Some(saved) = saved(&model.path) else {
            return Ok(Update::Unknown(Untold::NoRecord));
        };
        let reference = Reference::parse(source, hub)?;
        let remote = remote(hub, &reference)?;
        let first = remote
            .files
            .first()
            .map(|file| self.folder_of(&remote).join(&file.path));
        let is_elsewhere = first.is_none_or(|first| first != model.path);
        Ok(match reference {
            Reference::Url(_) if is_elsewhere => Update::Unknown(Untold::NoQuery),
            _ => self.compare(&saved, &remote),
        })
    }

    fn compare(&self, saved: &Saved, remote: &Remote) -> Update {
        if saved.updating {
            // Its files may be of two versions.
            return Update::Available;
        }
        let (before, now) = (&saved.origin.revision, &remote.origin.revision);
        if before.is_some() && before == now {
            return Update::Current;
        }
        if saved.files.is_empty() {
            let folder = self.folder_of(remote);
            let mut files = remote.files.iter();
            let is_size = |path| fs::metadata(path).map(|about| about.len()).ok();
            return if !files.all(|file| is_size(folder.join(&file.path)) == Some(file.size)) {
                Update::Available
            } else if is_hashed(remote) {
                Update::Unknown(Untold::NoHashes)
            } else {
                Update::Unknown(Untold::NoRecordedVersion)
            };
        }
        if saved.files.len() != remote.files.len() {
            return Update::Available;
        }
        let same: Vec<Option<bool>> = remote
            .files
            .iter()
            .map(|file| saved.file(&file.path).map_or(Some(false), |known| known.is_same(file)))
            .collect();
        if same.iter().all(|same| *same == Some(true)) {
            Update::Current
        } else if same.contains(&Some(false)) || before.is_some() && now.is_some() {
            Update::Available
        } else {
            Update::Unknown(Untold::NoVersion)
        }
    }
}
