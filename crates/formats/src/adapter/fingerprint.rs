//! A model's fingerprint: quick even for large files, and another for another quantisation or another model.

use crate::gguf::{GgufError, GgufProblem, TensorData, TensorInfo, Value};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Two hashes of a model, in hexadecimal. They differ where the file differs in what a layer computes; file names, titles and
/// chat templates play no part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Of what every quantisation of a model has in common: the architecture, the names and sizes of its tensors, and the
    /// vectors among them (norms, biases), which no quantisation touches. A full fine-tuning moves the norms, so it is another
    /// model; a LoRA that was merged in does not.
    pub model: String,
    /// Of this file: also its hyperparameters, the types of its tensors, and the [`SAMPLE`] bytes at the beginning, the
    /// middle and the end of each.
    pub file: String,
}

/// Bytes of one sample of a tensor: a page. Three of them from each tensor are some megabytes of the largest models.
const SAMPLE: usize = 4096;

/// Vectors up to so many bytes are hashed whole.
const VECTOR: usize = 1 << 20;

impl Fingerprint {
    /// Computes it; reads about 12 KiB of each tensor.
    ///
    /// # Errors
    /// Where a tensor cannot be read.
    pub fn of(gguf: &impl TensorData) -> Result<Self, GgufError> {
        Self::read(gguf).map_err(|problem| gguf.error(problem))
    }

    fn read(gguf: &impl TensorData) -> Result<Self, GgufProblem> {
        let architecture = gguf.architecture().unwrap_or_default();
        let (mut model, mut file) = (Hash::new(), Hash::new());
        model.text(architecture);
        file.text(architecture);

        // By name, since writers order keys and tensors as they like.
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
            // The scales beside a weight belong to one quantisation alone.
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

/// A hash of parts that cannot run into each other: each comes after its length.
struct Hash(Sha256);

impl Hash {
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

    /// The beginning, the middle and the end; all of what is no longer than the three.
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
        hex(&self.0.finalize())
    }
}

/// Bytes in hexadecimal.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
