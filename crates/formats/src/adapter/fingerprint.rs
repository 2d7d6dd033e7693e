//! Fingerprint of a model: fast even for large files, different for each model and quantization.

use crate::gguf::{GgufError, GgufProblem, TensorData, TensorInfo, Value};
use crate::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Two hashes of a model, in hexadecimal. They differ for models that compute differently, as far
/// as samples of each tensor show; file names, titles and chat templates are not hashed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Hash of what all quantizations of a model share: the architecture, tensor names and shapes,
    /// and its vectors (norms, biases), which are never quantized. Full fine-tuning changes the
    /// norms, so it gives another model; merging a LoRA does not.
    pub model: String,
    /// Hash of this file: also its hyperparameters, its tensor types, and [`SAMPLE`] bytes at the
    /// start, middle and end of each tensor.
    pub file: String,
}

/// Bytes of one sample: a page. Three per tensor are a few megabytes for the largest models.
const SAMPLE: usize = 4096;

/// Vectors up to this many bytes are hashed completely.
const VECTOR: usize = 1 << 20;

impl Fingerprint {
    /// Computes the fingerprint; reads about 12 KiB of each tensor.
    ///
    /// # Errors
    /// If a tensor cannot be read.
    pub fn from_gguf(gguf: &impl TensorData) -> Result<Self, GgufError> {
        Self::read(gguf).map_err(|problem| gguf.error(problem))
    }

    fn read(gguf: &impl TensorData) -> Result<Self, GgufProblem> {
        let architecture = gguf.architecture().unwrap_or_default();
        let (mut model, mut file) = (FieldHasher::new(), FieldHasher::new());
        model.text(architecture);
        file.text(architecture);

        // Sorted by name, since the order of keys and tensors is up to the writer.
        let prefix = format!("{architecture}.");
        let mut keys: Vec<_> = gguf
            .metadata()
            .iter()
            .filter(|(key, _)| key.starts_with(&prefix))
            .collect();
        keys.sort_by_key(|&(key, _)| key);
        for (key, value) in keys {
            file.text(key);
            file.value(value);
        }
        let mut tensors: Vec<&TensorInfo> = gguf.tensors().collect();
        tensors.sort_by_key(|info| info.name.as_str());
        for info in tensors {
            file.shape(info);
            file.number(info.kind.id().into());
            file.samples(gguf, info)?;
            // Scale tensors beside a weight are specific to one quantization.
            if !info.name.ends_with("scale") {
                model.shape(info);
                if info.shape.len() == 1 && info.byte_len <= VECTOR {
                    model.number(info.kind.id().into());
                    model.bytes(&gguf.read(info, 0, info.byte_len)?);
                }
            }
        }
        Ok(Self {
            model: model.end(),
            file: file.end(),
        })
    }
}

/// A hasher of length-prefixed fields, so that field boundaries are unambiguous.
struct FieldHasher(Sha256);

impl FieldHasher {
    fn new() -> Self {
        Self(Sha256::new())
    }

    fn number(&mut self, number: u64) {
        self.0.update(number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn value(&mut self, value: &Value) {
        self.text(&format!("{value:?}"));
    }

    fn shape(&mut self, info: &TensorInfo) {
        self.text(&info.name);
        self.number(info.shape.len() as u64);
        info.shape.iter().for_each(|&n| self.number(n));
    }

    /// Hashes the start, middle and end of a tensor, or all of it if it is no longer than three
    /// samples.
    fn samples(&mut self, gguf: &impl TensorData, info: &TensorInfo) -> Result<(), GgufProblem> {
        let len = info.byte_len;
        if len <= 3 * SAMPLE {
            self.bytes(&gguf.read(info, 0, len)?);
            return Ok(());
        }
        self.number(len as u64);
        for start in [0, len / 2, len - SAMPLE] {
            self.0.update(gguf.read(info, start, SAMPLE)?);
        }
        Ok(())
    }

    fn end(self) -> String {
        hex(self.0.finalize())
    }
}
