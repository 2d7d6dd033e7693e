//! The metadata of a model's file.

use hearth_formats::gguf::GgufFile;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Most characters of a model's name.
const MAX_NAME_CHARS: usize = 200;

/// Most bytes of an architecture's name; known ones have up to 20.
const MAX_ARCHITECTURE_BYTES: usize = 64;

/// Metadata of a GGUF file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelMetadata {
    /// `general.name`.
    pub name: Option<String>,
    /// `llama`, `qwen2` and so on.
    pub architecture: String,
    /// Display name of the file's quantisation.
    pub quantization: String,
    /// Number of parameters.
    pub parameters: u64,
    /// File size in bytes.
    pub file_size: u64,
    /// Training context length in tokens; 0 means unknown.
    pub context_trained: u32,
}

impl ModelMetadata {
    /// Reads the metadata of a file, without mapping it and within the reader's limits.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let gguf = GgufFile::open(path).map_err(|error| error.to_string())?;
        let architecture = gguf.architecture().map_err(|error| error.to_string())?.to_owned();
        if architecture.len() > MAX_ARCHITECTURE_BYTES {
            return Err(format!(
                "{}: the name of its architecture has {} bytes, so the file is corrupt. Get another file.",
                path.display(),
                architecture.len()
            ));
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
            architecture,
        })
    }
}

/// A model's name from its metadata, or else its file's.
pub(super) fn name(metadata: &Result<ModelMetadata, String>, stem: String) -> String {
    match metadata {
        Ok(ModelMetadata { name: Some(name), .. }) if !name.trim().is_empty() => name.trim().to_owned(),
        _ => stem,
    }
}
