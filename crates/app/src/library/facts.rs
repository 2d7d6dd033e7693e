//! What a model's file says of itself.

use hearth_formats::gguf::GgufFile;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The longest name of a model that is shown, in characters.
const LONGEST_NAME: usize = 200;

/// The longest name of an architecture, in bytes; known ones have up to 20.
const LONGEST_ARCHITECTURE: usize = 64;

/// What a GGUF file says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The model's own name.
    pub name: Option<String>,
    /// `llama`, `qwen2` and so on.
    pub architecture: String,
    /// The file's quantisation, as people call it.
    pub quantization: String,
    /// Number of weights.
    pub parameters: u64,
    /// Bytes.
    pub file_size: u64,
    /// Context in tokens that the model was trained for; 0 where the file does not say.
    pub context_trained: u32,
}

impl Facts {
    /// Reads them from a model's file, without a map and within limits.
    ///
    /// # Errors
    /// Why they cannot be had: a sentence that names the file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let gguf = GgufFile::open(path).map_err(|error| error.to_string())?;
        let architecture = gguf.architecture().map_err(|error| error.to_string())?.to_owned();
        if architecture.len() > LONGEST_ARCHITECTURE {
            return Err(format!(
                "{}: the name of its architecture has {} bytes, so the file is damaged. Get another file of this model.",
                path.display(),
                architecture.len()
            ));
        }
        // A model is not refused for an invalid description.
        let context = gguf.u64(&format!("{architecture}.context_length")).ok().flatten();
        let name = gguf.str("general.name").ok().flatten();
        Ok(Self {
            name: name.map(|name| name.chars().take(LONGEST_NAME).collect()),
            quantization: gguf.quantization(),
            parameters: gguf.parameter_count(),
            file_size: gguf.file_size(),
            context_trained: context.map_or(0, |tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
            architecture,
        })
    }
}

/// The name of a model: its own, or the file's.
pub(super) fn name(facts: &Result<Facts, String>, stem: String) -> String {
    match facts {
        Ok(Facts { name: Some(name), .. }) if !name.trim().is_empty() => name.trim().to_owned(),
        _ => stem,
    }
}
