//! A model that is not on this machine: its files, with their addresses, sizes and hashes.

use super::super::{Flaw, LibraryError};
use super::client::{Failure, Hub, ResponseRange};
use super::deadline::Deadline;
use super::reference::{decode, without_query};
use super::server_info::ServerInfo;
use super::variants::Kind;
use crate::device_name::is_portable_name;
use hearth_formats::hex;
use hearth_protocol::FetchFailure;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::{Component, Path, PathBuf};

/// Most bytes of a file or folder name. Most file systems allow 255, and unfinished files have
/// suffixes.
const MAX_NAME_BYTES: usize = 200;

/// Most files of a model.
pub(super) const MAX_FILES: usize = 500;

/// A file on the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteFile {
    /// Display name for messages.
    pub name: String,
    /// Address.
    pub url: String,
    /// Relative path in the download folder, from [`safe_path`].
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 in lower-case hexadecimal. `None` means that the source publishes none: then only
    /// the size is checked, and of a model that it is complete.
    pub sha256: Option<String>,
    /// The parts into which it was cut on the server, in order; the download joins them. Empty if
    /// the server has one file.
    #[serde(default)]
    pub parts: Vec<RemotePart>,
    /// The version and range support that the server reported, if this file was requested
    /// separately.
    #[serde(default, rename = "said")]
    pub server_info: ServerInfo,
}

/// A file on the server, downloaded with one or more requests: a whole file, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemotePart {
    /// Display name for messages.
    pub name: String,
    /// Address.
    pub url: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 in lower-case hexadecimal, if the source publishes it.
    pub sha256: Option<String>,
}

/// The origin of a downloaded model, saved beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The reference with which the user can pull it again: `hf.co/OWNER/REPO:QUANT`.
    pub source: String,
    /// The commit or digest, or the version of a file at an address.
    pub revision: Option<String>,
    /// License, if the source names one. Files of early versions have it as `licence`.
    #[serde(alias = "licence")]
    pub license: Option<String>,
}

/// A model that is not on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remote {
    /// Display name.
    pub name: String,
    /// Its files; the first of a split model is first.
    pub files: Vec<RemoteFile>,
    /// Its origin.
    pub origin: Origin,
    /// Model, or adapter and its format.
    #[serde(default)]
    pub kind: Kind,
}

impl RemoteFile {
    /// The files on the server, in order: its parts, or itself.
    pub fn pieces(&self) -> Vec<RemotePart> {
        if self.parts.is_empty() {
            vec![RemotePart {
                name: self.name.clone(),
                url: self.url.clone(),
                size: self.size,
                sha256: self.sha256.clone(),
            }]
        } else {
            self.parts.clone()
        }
    }

    /// A model of one file at an address; asks the server for its size and version.
    ///
    /// # Errors
    /// [`LibraryError::Hub`] if the server does not report the size, and
    /// [`LibraryError::UnsafeName`].
    pub(in super::super) fn at(hub: &Hub, url: &str) -> Result<Remote, LibraryError> {
        let path = without_query(url);
        let name = decode(path.rsplit('/').next().unwrap_or_default());
        // Files with one name at several addresses are different files.
        let digest = hex(&Sha256::digest(url)[..6]);
        let safe = safe_path(["web", &digest, &name]).ok_or_else(|| LibraryError::UnsafeName(name.clone()))?;
        let failed = |failure: Failure| failure.error(&name);
        let empty = || LibraryError::flawed(&name, path, Flaw::Empty);
        let response = match hub.get_until(url, Some((0, Some(0))), Deadline::new(hub)) {
            // Only an empty file has no first byte.
            Err(Failure::Range) => return Err(empty()),
            response => response.map_err(failed)?,
        };
        let range = ResponseRange::from_response(&response).map_err(failed)?;
        let size = match range.total {
            Some(0) => return Err(empty()),
            Some(size) => size,
            None => return Err(failed(Failure::Final(FetchFailure::NoSize))),
        };
        let server_info = ServerInfo::from_response(&response, true);
        Ok(Remote {
            files: vec![Self {
                name: name.clone(),
                url: url.to_owned(),
                path: safe,
                size,
                sha256: None,
                parts: Vec::new(),
                server_info: server_info.clone(),
            }],
            origin: Origin {
                // A query may hold a password.
                source: path.to_owned(),
                revision: server_info.version,
                license: None,
            },
            kind: Kind::Model,
            name,
        })
    }
}

impl Remote {
    /// Whether the path of each file is inside the download folder. A row of the store may be from
    /// another machine.
    pub fn has_safe_paths(&self) -> bool {
        self.files.iter().all(|file| {
            let names: Option<Vec<&str>> = file.path.iter().map(|name| name.to_str()).collect();
            let safe = names.and_then(safe_path);
            safe.is_some_and(|safe| safe.as_os_str() == file.path.as_os_str())
        })
    }

    /// Whether two models have a common file on this machine.
    pub fn shares_files(&self, other: &Self) -> bool {
        let is_shared = |file: &RemoteFile| other.files.iter().any(|other_file| other_file.path == file.path);
        self.kind.is_adapter() == other.kind.is_adapter() && self.files.iter().any(is_shared)
    }

    /// Total size in bytes.
    pub fn size(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.size))
    }
}

/// Joins names to a relative path. `None` means that a name leaves its folder or has a special
/// meaning on any system.
pub(super) fn safe_path<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for name in names {
        path.push(name);
        is_safe(name).then_some(())?;
    }
    let is_plain = |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
    (path.components().next().is_some() && is_plain(&path)).then_some(path)
}

fn is_safe(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES && is_portable_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_folder_on_every_system() {
        assert_eq!(
            safe_path(["owner", "name", "a.Q4_K_M.gguf"]),
            Some(["owner", "name", "a.Q4_K_M.gguf"].iter().collect())
        );
        assert!(safe_path(["🦙 model (2).gguf"]).is_some());
        let long = "a".repeat(300);
        for unsafe_name in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            r"a\b",
            "C:",
            "con",
            "CON.gguf",
            "nul .txt",
            "a\0b",
            "a\nb",
            " a",
            "a ",
            "a.",
            ".hidden",
            "a?b",
            "lpt1.x",
            "COM\u{b9}.gguf",
            "CONIN$",
            "a\u{202e}fug.gguf",
            "a\u{200b}b.gguf",
            &long,
        ] {
            assert_eq!(safe_path(["owner", unsafe_name]), None, "{unsafe_name:?}");
        }
        assert_eq!(safe_path([]), None);
    }
}
