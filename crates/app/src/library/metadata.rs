//! The metadata of a model's file.

use super::{error::LibraryError, file_sampling::FileSampling};
use crate::wire::{Problem, ProblemCode};
use hearth_formats::{
    adapter::{BaseShape, MERGED_KEY},
    gguf::{GgufError, GgufFile, GgufHeader},
    hex,
};
use hearth_protocol::ModelsReason;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Most characters of a model's name.
const MAX_NAME_CHARS: usize = 200;

/// Most adapters merged into a model, one after the other, that are read.
const MAX_MERGED: usize = 64;

/// Most characters of an adapter's id.
const MAX_ID_CHARS: usize = 64;

/// Most bytes of an architecture's name; known ones have up to 20.
const MAX_ARCHITECTURE_BYTES: usize = 64;

/// Most bytes of a chat template that is shown; known ones have up to 20 kB.
const MAX_TEMPLATE_BYTES: usize = 256 << 10;

/// Metadata of a GGUF file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelMetadata {
    /// `general.name`.
    pub name: Option<String>,
    /// `llama`, `qwen2` and so on.
    pub architecture: String,
    /// Display name of the file's quantization.
    pub quantization: String,
    /// Number of parameters.
    pub parameters: u64,
    /// File size in bytes.
    pub file_size: u64,
    /// Training context length in tokens; 0 means unknown.
    pub context_trained: u32,
    /// Fingerprint of its vocabulary: models that share it have the same tokens under the same ids.
    /// `None` means that it has no vocabulary.
    pub vocabulary: Option<String>,
    /// Its sizes, by which adapters are matched. `None` means that Hearth supports no adapters of
    /// its architecture.
    pub shape: Option<BaseShape>,
    /// The adapters that were merged into it, by [`AdapterManifest::id`].
    ///
    /// [`AdapterManifest::id`]: hearth_formats::adapter::AdapterManifest::id
    pub merged: Vec<String>,
    /// `general.sampling.*`: the sampling parameters that the file recommends.
    pub sampling: FileSampling,
}

/// The reason why a file has no metadata of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetadataError {
    /// It is a LoRA adapter.
    IsAdapter(PathBuf),
    /// It lacks bytes at its end, as one that is still being downloaded.
    Incomplete(Problem),
    /// It cannot be read, or is corrupt.
    Unreadable(Problem),
}

impl From<MetadataError> for Problem {
    fn from(error: MetadataError) -> Self {
        match error {
            MetadataError::IsAdapter(path) => LibraryError::IsAdapter(path).into(),
            MetadataError::Incomplete(problem) | MetadataError::Unreadable(problem) => problem,
        }
    }
}

impl ModelMetadata {
    /// Reads the metadata of a file, without mapping it and within the reader's limits.
    ///
    /// # Errors
    /// The file is none of a model, is corrupt or cannot be read.
    pub fn read(path: &Path) -> Result<Self, MetadataError> {
        let unreadable = |error: GgufError| {
            let problem = invalid(&error);
            if error.problem.is_incomplete() {
                MetadataError::Incomplete(problem)
            } else {
                MetadataError::Unreadable(problem)
            }
        };
        let gguf = GgufFile::open(path).map_err(unreadable)?;
        let architecture = gguf.architecture().map_err(unreadable)?.to_owned();
        if architecture.len() > MAX_ARCHITECTURE_BYTES {
            let reason = ModelsReason::ArchitectureTooLong {
                path: path.display().to_string(),
                length: architecture.len() as u64,
            };
            return Err(MetadataError::Unreadable(Problem::new(
                ProblemCode::FileInvalid,
                reason,
            )));
        }
        if gguf.str("general.type").ok().flatten() == Some("adapter") {
            return Err(MetadataError::IsAdapter(path.to_owned()));
        }
        // Invalid optional fields are ignored.
        let context = gguf.u64(&format!("{architecture}.context_length")).ok().flatten();
        let name = gguf.str("general.name").ok().flatten();
        Ok(Self {
            name: name.map(|name| name.chars().take(MAX_NAME_CHARS).collect()),
            quantization: gguf.quantization(),
            parameters: gguf.parameter_count(),
            file_size: gguf.file_size(),
            context_trained: context.map_or(0, |tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
            vocabulary: vocabulary_fingerprint(&gguf),
            shape: BaseShape::from_gguf(&gguf).ok(),
            merged: merged_adapters(&gguf),
            sampling: FileSampling::read(gguf.metadata()),
            architecture,
        })
    }
}

/// The last adapters that were merged into a model. An invalid list counts as an empty one.
fn merged_adapters(gguf: &GgufHeader) -> Vec<String> {
    let ids = gguf.strings(MERGED_KEY).ok().flatten();
    let ids = ids
        .into_iter()
        .flat_map(|ids| ids.iter().skip(ids.len().saturating_sub(MAX_MERGED)));
    ids.map(|id| id.chars().take(MAX_ID_CHARS).collect()).collect()
}

/// The problem of a file that is not a valid model, with the reader's error.
pub(super) fn invalid(error: impl ToString) -> Problem {
    Problem::detail(ProblemCode::FileInvalid, error)
}

/// The source of a file's chat template. `None` means that it has none.
///
/// # Errors
/// The file cannot be read, or its template is malformed or too long.
pub fn chat_template(path: &Path) -> Result<Option<String>, Problem> {
    let gguf = GgufFile::open(path).map_err(invalid)?;
    let template = gguf.str("tokenizer.chat_template").map_err(invalid)?;
    match template {
        Some(text) if text.len() > MAX_TEMPLATE_BYTES => {
            let reason = ModelsReason::TemplateTooLong {
                path: path.display().to_string(),
                length: text.len() as u64,
                limit: MAX_TEMPLATE_BYTES as u64,
            };
            Err(Problem::new(ProblemCode::FileInvalid, reason))
        }
        template => Ok(template.map(str::to_owned)),
    }
}

/// The first 16 hexadecimal digits of SHA-256 over the tokenizer's kind, its pre-tokenizer and all
/// tokens. The header is read already, within the reader's limits; a missing or malformed
/// vocabulary gives `None`.
fn vocabulary_fingerprint(gguf: &GgufHeader) -> Option<String> {
    let text = |key: &str| gguf.str(key).ok().flatten();
    let tokens = gguf.strings("tokenizer.ggml.tokens").ok().flatten()?;
    let mut hash = Sha256::new();
    // Lengths first, so that field boundaries are unambiguous.
    let mut field = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    };
    field(text("tokenizer.ggml.model")?);
    field(text("tokenizer.ggml.pre").unwrap_or_default());
    tokens.iter().for_each(field);
    Some(hex(&hash.finalize()[..8]))
}

/// A model's name from its metadata, or else its file's.
pub(super) fn name(metadata: &Result<ModelMetadata, Problem>, stem: String) -> String {
    match metadata {
        Ok(ModelMetadata { name: Some(name), .. }) if !name.trim().is_empty() => name.trim().to_owned(),
        _ => stem,
    }
}
