//! A repository of the hub: its files, and the license and gating of its model card.

use super::super::{Flaw, LibraryError};
use super::adapters::{self, Tagged};
use super::client::Hub;
use super::reference::{MAIN, Reference, Selection, encode};
use super::remote::{MAX_FILES, Origin, Remote, RemoteFile, safe_path};
use super::server_info::ServerInfo;
use super::variants::{self, Kind, Listed, Variant};
use hearth_formats::hex;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::PathBuf;

/// Most characters of a license's name.
const MAX_LICENSE_CHARS: usize = 80;

/// A repository at a commit.
#[derive(Debug, Clone)]
pub struct Repository {
    /// `owner/name`.
    pub id: String,
    /// The requested branch, tag or commit.
    pub asked: String,
    /// The commit. Files are requested at it, so that all parts are of one version.
    pub revision: String,
    /// License, if its card has one.
    pub license: Option<String>,
    /// Whether terms must be accepted before a download.
    pub is_gated: bool,
    /// The information on adapters in its tags.
    pub tagged: Tagged,
    /// The models in it, from small to large, then the adapters.
    pub variants: Vec<Variant>,
}

/// The fields of the hub's response that Hearth uses.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    #[serde(default)]
    sha: Option<String>,
    #[serde(default)]
    gated: Value,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    card_data: Option<Value>,
    #[serde(default)]
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    #[serde(default)]
    size: Option<u64>,
    #[serde(default)]
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    #[serde(default, alias = "oid")]
    sha256: Option<String>,
    #[serde(default)]
    size: Option<u64>,
}

impl Repository {
    /// Requests a repository's metadata from the hub.
    ///
    /// # Errors
    /// [`LibraryError::Hub`]
    pub fn get(hub: &Hub, id: &str, revision: &str) -> Result<Self, LibraryError> {
        let url = format!(
            "{}/api/models/{id}/revision/{}?blobs=true",
            hub.endpoint,
            encode(revision).replace('/', "%2F")
        );
        let response: Response = hub.json(&url, None).map_err(|failure| failure.error(id))?;
        Ok(Self::from_response(id, revision, response))
    }

    fn from_response(id: &str, revision: &str, response: Response) -> Self {
        let license = license(&response);
        let files: Vec<Listed> = response
            .siblings
            .into_iter()
            .filter_map(|file| {
                let lfs = file.lfs.as_ref();
                Some(Listed {
                    size: lfs.and_then(|lfs| lfs.size).or(file.size)?,
                    sha256: lfs.and_then(|lfs| lfs.sha256.clone()).filter(|hash| is_sha256(hash)),
                    path: file.rfilename,
                })
            })
            .collect();
        let commit = response.sha.filter(|sha| is_hex(sha, 40));
        Self {
            id: id.to_owned(),
            asked: revision.to_owned(),
            revision: commit.unwrap_or_else(|| revision.to_owned()),
            license,
            is_gated: !matches!(response.gated, Value::Null | Value::Bool(false)),
            tagged: Tagged::from_tags(&response.tags),
            variants: variants::variants(&files),
        }
    }

    /// Requests the headers of files that may be adapters. After the first request that fails, as
    /// it does for a gated repository, the repository's tags decide.
    pub fn identify_adapters(&mut self, hub: &Hub) {
        let mut is_answering = true;
        for at in adapters::candidates(&self.variants, self.tagged.is_adapter) {
            let files = self.files(hub, &self.variants[at]);
            let Some(file) = files.as_ref().ok().and_then(|files| files.first()) else {
                continue;
            };
            let is_adapter = is_answering
                .then(|| adapters::is_gguf_adapter(hub, file).ok())
                .flatten();
            is_answering = is_adapter.is_some();
            if is_adapter.unwrap_or(self.tagged.is_adapter) {
                self.variants[at].kind = Kind::GgufAdapter;
            }
        }
    }

    /// Returns the files to download for the selected model or adapter.
    ///
    /// # Errors
    /// There is no such model, a file's name cannot be stored, or the hub cannot be asked about an
    /// adapter's files.
    pub fn remote(&self, hub: &Hub, selection: &Selection) -> Result<Remote, LibraryError> {
        let variant = variants::select(&self.variants, selection, &self.id)?;
        let mut files = self.files(hub, variant)?;
        let mut kind = variant.kind;
        if adapters::may_be_adapter(variant, self.tagged.is_adapter) && adapters::is_gguf_adapter(hub, &files[0])? {
            kind = Kind::GgufAdapter;
        }
        if kind == Kind::PeftAdapter {
            files.iter_mut().try_for_each(|file| adapters::hash_config(hub, file))?;
        }
        if kind.is_adapter() {
            for file in &mut files {
                file.path = self.adapter_path(&file.name)?;
            }
        }
        let name = self.id.rsplit('/').next().unwrap_or_default();
        Ok(Remote {
            name: match kind {
                Kind::PeftAdapter if !variant.file().contains('/') => name.to_owned(),
                _ => format!("{} {}", name.trim_end_matches("-GGUF"), variant.name),
            },
            files,
            origin: Origin {
                source: self.source(variant),
                revision: Some(self.revision.clone()),
                license: self.license.clone(),
            },
            kind,
        })
    }

    /// Returns the local path of an adapter's file. The path contains the commit, so that the files
    /// of two commits never mix.
    fn adapter_path(&self, file: &str) -> Result<PathBuf, LibraryError> {
        let digest = hex(&Sha256::digest(&self.revision)[..6]);
        let commit = if is_hex(&self.revision, 40) {
            &self.revision[..12]
        } else {
            digest.as_str()
        };
        let names = self.id.split('/').chain([commit]).chain(file.split('/'));
        safe_path(names).ok_or_else(|| LibraryError::UnsafeName(file.to_owned()))
    }

    /// Returns the files of a variant, at least one.
    fn files(&self, hub: &Hub, variant: &Variant) -> Result<Vec<RemoteFile>, LibraryError> {
        if variant.files.is_empty() || variant.files.len() > MAX_FILES {
            return Err(LibraryError::BadReference(self.id.clone()));
        }
        let files: Vec<RemoteFile> = variant
            .files
            .iter()
            .map(|file| self.file(hub, file))
            .collect::<Result<_, _>>()?;
        match &variant.joined {
            None => Ok(files),
            Some(joined) => Ok(vec![self.joined(joined, files)?]),
        }
    }

    fn file(&self, hub: &Hub, file: &Listed) -> Result<RemoteFile, LibraryError> {
        Ok(RemoteFile {
            name: file.path.clone(),
            url: format!(
                "{}/{}/resolve/{}/{}",
                hub.endpoint,
                self.id,
                encode(&self.revision).replace('/', "%2F"),
                encode(&file.path)
            ),
            path: self.path(&file.path)?,
            size: file.size,
            sha256: file.sha256.as_ref().map(|hash| hash.to_lowercase()),
            parts: Vec::new(),
            server_info: ServerInfo::default(),
        })
    }

    /// Returns the local path of a model's file.
    fn path(&self, file: &str) -> Result<PathBuf, LibraryError> {
        let names = self.id.split('/').chain(file.split('/'));
        safe_path(names).ok_or_else(|| LibraryError::UnsafeName(file.to_owned()))
    }

    /// Returns the file to which the parts `files` are joined.
    fn joined(&self, name: &str, files: Vec<RemoteFile>) -> Result<RemoteFile, LibraryError> {
        let mut sizes = files.iter().map(|file| file.size);
        let size = sizes.try_fold(0_u64, |sum, size| sum.checked_add(size));
        // File offsets are signed.
        let size = size.filter(|size| i64::try_from(*size).is_ok());
        let empty = files.iter().find(|file| file.size == 0);
        if let Some(empty) = empty {
            return Err(LibraryError::flawed(&empty.name, &empty.url, Flaw::Empty));
        }
        Ok(RemoteFile {
            name: name.to_owned(),
            url: files.first().map(|first| first.url.clone()).unwrap_or_default(),
            path: self.path(name)?,
            size: size.ok_or_else(|| LibraryError::BadReference(self.id.clone()))?,
            sha256: None,
            parts: files.iter().flat_map(RemoteFile::pieces).collect(),
            server_info: ServerInfo::default(),
        })
    }

    /// The reference with which the user can pull this model.
    pub fn source(&self, variant: &Variant) -> String {
        // The repository's name is enough if it has nothing else.
        if variant.kind == Kind::PeftAdapter && self.variants.first() == Some(variant) && self.asked == MAIN {
            return format!("hf.co/{}", self.id);
        }
        // The name of a file is unambiguous; the name of a quantization is shorter.
        let is_unambiguous = variants::quantization(variant.path()).as_deref() == Some(&variant.name);
        let selection = if is_unambiguous && self.asked == MAIN {
            Selection::Quantization(variant.name.clone())
        } else {
            Selection::File(variant.file().to_owned())
        };
        let reference = Reference::Hub {
            repository: self.id.clone(),
            revision: self.asked.clone(),
            selection,
        };
        reference.text()
    }

    /// The model in the best of the preferred quantizations, if there is one.
    pub fn preferred(&self) -> Option<&Variant> {
        variants::preferred(&self.variants)
    }
}

/// The license on the card, or in a tag.
fn license(response: &Response) -> Option<String> {
    let card = response.card_data.as_ref();
    let text = |key: &str| {
        card.and_then(|card| card.get(key))
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let license_name = text("license_name").filter(|_| text("license").as_deref() == Some("other"));
    let license_tag = || {
        let tags = response.tags.iter();
        tags.filter_map(|tag| tag.strip_prefix("license:"))
            .next()
            .map(str::to_owned)
    };
    let license = license_name.or_else(|| text("license")).or_else(license_tag)?;
    Some(license.chars().take(MAX_LICENSE_CHARS).collect())
}

pub(super) fn is_sha256(text: &str) -> bool {
    is_hex(text, 64)
}

fn is_hex(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hub's response for a gated repository.
    const RESPONSE: &str = r#"{
        "_id": "66", "id": "o/Model-GGUF", "modelId": "o/Model-GGUF", "author": "o",
        "sha": "0123456789abcdef0123456789abcdef01234567", "lastModified": "2026-01-02T03:04:05.000Z",
        "private": false, "gated": "manual", "disabled": false, "downloads": 7, "likes": 1, "tags": ["gguf", "license:mit"],
        "cardData": {"license": "other", "license_name": "model-terms", "base_model": ["o/Model"]},
        "siblings": [
            {"rfilename": ".gitattributes", "size": 1519, "blobId": "a6"},
            {"rfilename": "Model-Q4_K_M.gguf", "size": 12, "blobId": "b6",
             "lfs": {"sha256": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "size": 12, "pointerSize": 135}},
            {"rfilename": "../../evil-Q8_0.gguf", "size": 13, "lfs": {"oid": "no hash", "size": 13}},
            {"rfilename": "nameless"}
        ]
    }"#;

    #[test]
    fn a_repository_is_read() {
        let response = serde_json::from_str(RESPONSE).expect("a response");
        let repository = Repository::from_response("o/Model-GGUF", "main", response);
        assert_eq!(repository.license.as_deref(), Some("model-terms"));
        assert!(repository.is_gated);
        let hub = Hub::at("https://hub.example");
        let remote = repository.remote(&hub, &Selection::Automatic).expect("a model");
        assert_eq!((remote.name.as_str(), remote.size()), ("Model Q4_K_M", 12));
        assert_eq!(
            remote.files[0].url,
            "https://hub.example/o/Model-GGUF/resolve/0123456789abcdef0123456789abcdef01234567/Model-Q4_K_M.gguf"
        );
        assert_eq!(remote.files[0].sha256, Some("a".repeat(64)));
        let unsafe_path = Selection::Quantization("Q8_0".to_owned());
        let error = repository.remote(&hub, &unsafe_path).unwrap_err().to_string();
        assert!(error.contains("../../evil-Q8_0.gguf"), "{error}");
    }

    #[test]
    fn an_open_repository_with_little_metadata_is_read() {
        for text in ["{}", r#"{"gated": false, "cardData": null, "siblings": []}"#] {
            let repository = Repository::from_response("o/n", "main", serde_json::from_str(text).expect("a response"));
            assert!(!repository.is_gated && repository.variants.is_empty() && repository.revision == "main");
        }
    }
}
