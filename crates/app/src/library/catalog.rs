//! The catalog: known models with their download, system prompt and sampling parameters.

use super::LibraryError;
use super::download::Saved;
use super::hub::{self, Hub, Kind, Origin, Remote, RemoteFile, Repository, Selection, ServerInfo};
use hearth_protocol::SamplingParams;
use serde::Deserialize;
use std::sync::LazyLock;

/// A model of the catalog.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Id, in the CLI and in the window.
    pub id: String,
    /// Display name.
    pub name: String,
    /// The license of the weights.
    pub license: String,
    /// `owner/name` on the Hugging Face hub.
    pub repository: String,
    /// Revision of the repository.
    pub revision: String,
    /// File name, in the repository and on disk.
    pub file: String,
    /// File size in bytes; approximate without a hash.
    pub size: u64,
    /// SHA-256 of the file, in lower-case hexadecimal. `None` means that the hub's hash applies.
    pub sha256: Option<String>,
    /// Default system prompt. `None` means that the chat template decides.
    pub system_prompt: Option<String>,
    /// Default sampling parameters. `None` means that the file decides, or Hearth's apply.
    pub sampling: Option<SamplingParams>,
    /// Whether it writes titles of conversations.
    #[serde(default = "yes")]
    pub titles: bool,
    /// Whether the first run offers it on machines that it suits.
    #[serde(default = "yes")]
    pub first_run: bool,
}

fn yes() -> bool {
    true
}

impl Entry {
    /// Name of its quantization, or an empty text.
    pub fn quantization(&self) -> String {
        hub::quantization(&self.file).unwrap_or_default()
    }

    /// Whether a downloaded file is this one: by its hash or, in the record of an earlier Hearth,
    /// by its commit.
    pub(super) fn is_of(&self, saved: &Saved) -> bool {
        let is_commit = self.revision.len() == 40 && self.revision.bytes().all(|byte| byte.is_ascii_hexdigit());
        match (&self.sha256, saved.files.as_slice()) {
            _ if saved.updating => false,
            (Some(expected), [file]) => file.sha256.as_ref() == Some(expected),
            _ => is_commit && saved.origin.revision.as_deref() == Some(&self.revision),
        }
    }

    /// Returns its files to download. Requests the hub's hash if the catalog has none.
    ///
    /// # Errors
    /// The request fails, or the hub no longer has the file.
    pub fn remote(&self, hub: &Hub) -> Result<Remote, LibraryError> {
        let Some(sha256) = &self.sha256 else {
            let selection = Selection::File(self.file.clone());
            let remote = Repository::get(hub, &self.repository, &self.revision)?.remote(hub, &selection)?;
            return Ok(Remote {
                name: self.name.clone(),
                origin: Origin {
                    source: self.id.clone(),
                    license: Some(self.license.clone()),
                    ..remote.origin
                },
                ..remote
            });
        };
        Ok(Remote {
            name: self.name.clone(),
            files: vec![RemoteFile {
                name: self.name.clone(),
                url: format!(
                    "{}/{}/resolve/{}/{}",
                    hub.endpoint, self.repository, self.revision, self.file
                ),
                path: self.file.clone().into(),
                size: self.size,
                sha256: Some(sha256.clone()),
                parts: Vec::new(),
                server_info: ServerInfo::default(),
            }],
            origin: Origin {
                source: self.id.clone(),
                revision: Some(self.revision.clone()),
                license: Some(self.license.clone()),
            },
            kind: Kind::Model,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    model: Vec<Entry>,
}

static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let text = include_str!("../../../../models/catalog.toml");
    // The text is embedded and the test below parses it, so this never fails in a release.
    toml::from_str::<File>(text)
        .map(|file| file.model)
        .unwrap_or_else(|error| {
            tracing::error!(%error, "the catalog cannot be parsed");
            Vec::new()
        })
});

/// All entries; the first is the default model.
pub fn entries() -> &'static [Entry] {
    &ENTRIES
}

/// Finds an entry by id, name or file name, ignoring case.
pub fn find(name: &str) -> Option<&'static Entry> {
    entries().iter().find(|entry| {
        [&entry.id, &entry.name, &entry.file]
            .into_iter()
            .any(|candidate| candidate.to_lowercase() == name.to_lowercase())
    })
}

/// The entry of a file name.
pub fn of_file(file: &str) -> Option<&'static Entry> {
    entries().iter().find(|entry| entry.file == file)
}

#[cfg(test)]
mod tests {
    use super::{entries, find, of_file};
    use std::collections::HashSet;

    #[test]
    fn every_entry_is_valid() {
        assert!(!entries().is_empty(), "the catalog can be read");
        let mut seen = HashSet::new();
        for entry in entries() {
            assert!(
                seen.insert(&entry.id) && seen.insert(&entry.file),
                "{} is there twice",
                entry.id
            );
            assert_eq!(find(&entry.id.to_uppercase()), Some(entry));
            assert_eq!(of_file(&entry.file), Some(entry));
            if let Some(hash) = &entry.sha256 {
                let is_hash = hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit());
                assert!(is_hash && *hash == hash.to_lowercase(), "{}", entry.id);
            }
            assert_eq!(entry.repository.split('/').count(), 2, "{}", entry.id);
            assert!(
                entry.file.ends_with(".gguf") && !entry.file.contains(['/', '\\']),
                "{}",
                entry.id
            );
            assert!(entry.size > 1_000_000);
            if let Some(sampling) = &entry.sampling {
                let is_in_range = (0.0..=2.0).contains(&sampling.temperature) && (0.0..=1.0).contains(&sampling.top_p);
                assert!(is_in_range, "{}", entry.id);
            }
        }
    }
}
