//! What Hearth writes down about an adapter that it trained: on what, with what, and how well.

use super::{AdapterError, BaseShape, Fingerprint};
use crate::gguf::TensorData;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Beside PEFT's files in an adapter's folder, and in the metadata of an exported GGUF.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Passport {
    /// The version of Hearth that trained it.
    pub hearth: String,
    /// The model it was trained on.
    pub base: BaseId,
    /// The sha256 of the chat template it was trained with, in hexadecimal; none for text without turns.
    pub template_sha256: Option<String>,
    /// What it was trained on.
    pub data: DataId,
    /// The settings of the run.
    pub settings: Value,
    /// The seed of the run.
    pub seed: u64,
    /// How well it did: losses, perplexities.
    pub scores: Value,
    /// When it was made, in RFC 3339.
    pub created: String,
}

/// Which model an adapter was trained on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseId {
    /// The name of its file, without the folder.
    pub file: String,
    /// Which weights it has.
    pub fingerprint: Fingerprint,
    /// Its architecture and sizes.
    #[serde(flatten)]
    pub shape: BaseShape,
}

/// Which data an adapter was trained on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataId {
    /// The name of its file, without the folder.
    pub name: String,
    /// Its sha256 in hexadecimal.
    pub sha256: String,
}

impl BaseId {
    /// Names a model.
    ///
    /// # Errors
    /// As [`BaseShape::from_gguf`] and [`Fingerprint::of`].
    pub fn of(gguf: &impl TensorData) -> Result<Self, AdapterError> {
        let file = gguf.path().file_name().unwrap_or(gguf.path().as_os_str());
        Ok(Self {
            file: file.to_string_lossy().into_owned(),
            fingerprint: Fingerprint::of(gguf).map_err(|error| AdapterError::new(gguf.path(), error))?,
            shape: BaseShape::from_gguf(gguf)?,
        })
    }

    /// What sets another model apart from this one, if anything: the end of a sentence. Names of files play no part.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let (own, others) = (&self.fingerprint, &other.fingerprint);
        let what = match self.shape.difference(&other.shape) {
            Some(sizes) => return Some(sizes),
            None if own == others => return None,
            None if own.model == others.model => {
                "the same sizes and norms but other weights, so it is another quantisation, or one tuned from the same model"
            }
            None => "other weights of the same sizes",
        };
        Some(format!("it was made for '{}', and this model has {what}", self.file))
    }
}

impl Passport {
    /// The time now, as [`Passport::created`] has it.
    pub fn now() -> String {
        jiff::Timestamp::now()
            .round(jiff::Unit::Second)
            .unwrap_or_default()
            .to_string()
    }
}
