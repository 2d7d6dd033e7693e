//! Checks for new versions of downloaded models. The server is asked only when the user requests
//! it.

use super::{
    Library, LibraryError, Model,
    download::{Saved, is_hashed, saved},
    hub::{Hub, Reference, Remote},
    remote,
};
use crate::wire::{Problem, ProblemCode};
use hearth_protocol::ModelsReason;
use std::fs;

/// The state of a downloaded model on its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// The server has the same files.
    Current,
    /// The server has other files.
    Available,
    /// Not known, for this reason.
    Unknown(Untold),
}

/// The reason why it is not known whether a model changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Untold {
    /// It has no record of its origin.
    NoRecord,
    /// Its record has no hashes.
    NoHashes,
    /// Its record has no version, and the server publishes no hash.
    NoRecordedVersion,
    /// The record has its address without the query.
    NoQuery,
    /// The server names no version.
    NoVersion,
}

impl From<Untold> for Problem {
    fn from(untold: Untold) -> Self {
        let reason = match untold {
            Untold::NoRecord => ModelsReason::UpdateNoRecord,
            Untold::NoHashes => ModelsReason::UpdateNoHashes,
            Untold::NoRecordedVersion => ModelsReason::UpdateNoRecordedVersion,
            Untold::NoQuery => ModelsReason::UpdateNoQuery,
            Untold::NoVersion => ModelsReason::UpdateNoVersion,
        };
        Self::new(ProblemCode::NotFound, reason)
    }
}

impl Library {
    /// Asks the server of a downloaded model whether it has another version. `source` is the
    /// reference from which the model was downloaded.
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
        let (saved_revision, server_revision) = (&saved.origin.revision, &remote.origin.revision);
        if saved_revision.is_some() && saved_revision == server_revision {
            return Update::Current;
        }
        if saved.files.is_empty() {
            let folder = self.folder_of(remote);
            let mut files = remote.files.iter();
            let size_of = |path| fs::metadata(path).map(|metadata| metadata.len()).ok();
            return if !files.all(|file| size_of(folder.join(&file.path)) == Some(file.size)) {
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
        let comparisons: Vec<Option<bool>> = remote
            .files
            .iter()
            .map(|file| {
                saved
                    .file(&file.path)
                    .map_or(Some(false), |record| record.is_same(file))
            })
            .collect();
        if comparisons.iter().all(|is_same| *is_same == Some(true)) {
            Update::Current
        } else if comparisons.contains(&Some(false)) || saved_revision.is_some() && server_revision.is_some() {
            Update::Available
        } else {
            Update::Unknown(Untold::NoVersion)
        }
    }
}
