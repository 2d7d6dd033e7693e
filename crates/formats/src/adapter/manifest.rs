//! The manifest of an adapter trained by Hearth: base model, data, settings and metrics.

use super::{AdapterError, BaseShape, Fingerprint};
use crate::gguf::TensorData;
use crate::hex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The key of the adapters that were merged into a model, each by [`AdapterManifest::id`].
pub const MERGED_KEY: &str = "hearth.merged";

/// Saved as `hearth.json` in the PEFT folder, and in the metadata of an exported GGUF.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdapterManifest {
    /// The version of Hearth that trained it.
    pub hearth: String,
    /// The model it was trained on.
    pub base: BaseId,
    /// SHA-256 of the chat template used in training, in hexadecimal; `None` for plain text.
    pub template_sha256: Option<String>,
    /// System prompt of the conversations in the data that had none. `None` means that the chat
    /// template decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The training data.
    pub data: DataId,
    /// The settings of the run.
    pub settings: Value,
    /// The seed of the run.
    pub seed: u64,
    /// Metrics of the run: losses, perplexities. Earlier versions named this field `scores`.
    #[serde(alias = "scores")]
    pub metrics: Value,
    /// Time of creation, in RFC 3339.
    pub created: String,
}

/// Identifies the base model of an adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseId {
    /// File name without the folder.
    pub file: String,
    /// Fingerprint of its weights.
    pub fingerprint: Fingerprint,
    /// Its architecture and sizes.
    #[serde(flatten)]
    pub shape: BaseShape,
}

/// Identifies the training data of an adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataId {
    /// File name without the folder.
    pub name: String,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

impl BaseId {
    /// Identifies a model.
    ///
    /// # Errors
    /// As for [`BaseShape::from_gguf`] and [`Fingerprint::from_gguf`].
    pub fn from_gguf(gguf: &impl TensorData) -> Result<Self, AdapterError> {
        let file = gguf.path().file_name().unwrap_or(gguf.path().as_os_str());
        Ok(Self {
            file: file.to_string_lossy().into_owned(),
            fingerprint: Fingerprint::from_gguf(gguf).map_err(|error| AdapterError::new(gguf.path(), error))?,
            shape: BaseShape::from_gguf(gguf)?,
        })
    }

    /// Returns how another model differs from this one, as the end of a sentence; `None` if it does
    /// not. File names are not compared.
    pub fn mismatch(&self, other: &Self) -> Option<String> {
        let (expected, actual) = (&self.fingerprint, &other.fingerprint);
        let difference = match self.shape.mismatch(&other.shape) {
            Some(sizes) => return Some(sizes),
            None if expected == actual => return None,
            None if expected.model == actual.model => {
                "the same sizes and norms but different weights: it is another quantization of it, or a fine-tune of \
                 the same model"
            }
            None => "different weights of the same sizes",
        };
        Some(format!(
            "it was trained on '{}', and this model has {difference}",
            self.file
        ))
    }
}

impl AdapterManifest {
    /// Identifies the adapter, in all of its formats: a hash of this manifest.
    pub fn id(&self) -> String {
        let manifest = serde_json::to_vec(self).unwrap_or_default();
        hex(&Sha256::digest(manifest)[..16])
    }

    /// The current time in the format of [`AdapterManifest::created`].
    pub fn now() -> String {
        jiff::Timestamp::now()
            .round(jiff::Unit::Second)
            .unwrap_or_default()
            .to_string()
    }
}
