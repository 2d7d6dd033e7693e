//! The record beside a downloaded model: the origin of its files, and their version.

use super::with_suffix;
use crate::library::{
    LibraryError,
    hub::{Origin, RemoteFile},
};
use hearth_formats::durable::write_file;
use serde::{Deserialize, Serialize};
use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Suffix of the record's file name.
pub(in super::super) const ORIGIN: &str = ".origin.json";

/// Most bytes of a record of any version of Hearth: 500 files take 150 kB.
const MAX_BYTES: u64 = 512 << 10;

/// The origin of a downloaded model, and its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Its origin.
    #[serde(flatten)]
    pub origin: Origin,
    /// Its files; empty in the record of an earlier Hearth.
    #[serde(default)]
    pub files: Vec<SavedFile>,
    /// Whether its files are being replaced, or the replacement was interrupted: they may be of two
    /// versions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub updating: bool,
}

/// A file of a model, as it was downloaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedFile {
    /// Its path in the folder of downloads.
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 in lower-case hexadecimal. `None` means that it is not known.
    pub sha256: Option<String>,
    /// The hashes of its parts on the server, if it was joined here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Option<String>>,
}

impl SavedFile {
    pub(super) fn new(file: &RemoteFile, sha256: Option<String>) -> Self {
        Self {
            path: file.path.clone(),
            size: file.size,
            sha256,
            parts: file.parts.iter().map(|part| part.sha256.clone()).collect(),
        }
    }

    /// Whether a file on the server has the same bytes. `None` means unknown.
    pub fn is_same(&self, file: &RemoteFile) -> Option<bool> {
        let is_equal = |left: &Option<String>, right: &Option<String>| Some(left.as_ref()? == right.as_ref()?);
        if self.size != file.size {
            Some(false)
        } else if self.parts.is_empty() != file.parts.is_empty() {
            None
        } else if self.parts.is_empty() {
            is_equal(&self.sha256, &file.sha256)
        } else if self.parts.len() != file.parts.len() {
            Some(false)
        } else {
            let pairs = self.parts.iter().zip(&file.parts);
            let matches: Option<Vec<bool>> = pairs.map(|(hash, part)| is_equal(hash, &part.sha256)).collect();
            matches.map(|matches| matches.into_iter().all(|is_match| is_match))
        }
    }
}

impl Saved {
    /// The record of a model while its files are replaced. It contains no version.
    pub(super) fn while_updating(&self) -> Self {
        let unknown = |file: &SavedFile| SavedFile {
            sha256: None,
            parts: vec![None; file.parts.len()],
            ..file.clone()
        };
        Self {
            origin: Origin {
                revision: None,
                ..self.origin.clone()
            },
            files: self.files.iter().map(unknown).collect(),
            updating: true,
        }
    }

    /// Whether its files are of a revision. Without a revision, only the sizes of the files can be
    /// compared.
    pub(super) fn is_of(&self, revision: Option<&str>) -> bool {
        !self.updating && self.origin.revision.as_deref() == revision
    }

    /// The file at a path in the folder of downloads.
    pub fn file(&self, path: &Path) -> Option<&SavedFile> {
        self.files.iter().find(|file| file.path == path)
    }
}

/// The path of the record, beside a model's first file.
fn record_path(model: &Path) -> PathBuf {
    with_suffix(model, ORIGIN)
}

pub(super) fn save_origin(model: &Path, saved: &Saved) -> Result<(), LibraryError> {
    let path = record_path(model);
    let text = serde_json::to_vec_pretty(saved).unwrap_or_default();
    let result: io::Result<()> = write_file(&path, |out| out.write_all(&text));
    result.map_err(|source| LibraryError::Write { path, source })
}

/// The record of a model. `None` means that Hearth did not download it.
pub(in super::super) fn saved(model: &Path) -> Option<Saved> {
    let path = record_path(model);
    let is_small = fs::metadata(&path).is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MAX_BYTES);
    let text = fs::read(path).ok().filter(|_| is_small)?;
    serde_json::from_slice(&text).ok()
}

/// The origin of a model. `None` means that Hearth did not download it.
pub(in super::super) fn origin(model: &Path) -> Option<Origin> {
    saved(model).map(|saved| saved.origin)
}

/// Removes the record of a deleted model.
pub(in super::super) fn remove_origin(model: &Path) -> io::Result<()> {
    match fs::remove_file(record_path(model)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
