//! The shape of an adapter's base model.

use super::error::quotable;
use super::{AdapterError, AdapterProblem, LinearName, RowOrder, TargetName};
use crate::Architecture;
use crate::gguf::{GgufError, GgufHeader, GgufProblem};
use serde::{Deserialize, Serialize};

/// The architecture and sizes of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseShape {
    /// `llama`, `qwen2` and so on.
    pub architecture: String,
    /// Number of layers.
    pub layers: usize,
    /// Hidden size: width of the residual stream.
    pub width: usize,
    /// Intermediate size of the feed-forward layer.
    pub ffn_width: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key and value heads.
    pub kv_heads: usize,
    /// Head dimension.
    pub head_dim: usize,
    /// Vocabulary size.
    pub vocab: usize,
}

impl BaseShape {
    /// Reads the shape of a model.
    ///
    /// # Errors
    /// If a key is missing or out of range, or adapters of the architecture are not supported.
    pub fn from_gguf(gguf: &GgufHeader) -> Result<Self, AdapterError> {
        let adapter_error = |error: GgufError| AdapterError::new(gguf.path(), error);
        let architecture = gguf.architecture().map_err(adapter_error)?.to_owned();
        supported(&architecture).map_err(|problem| AdapterError::new(gguf.path(), problem))?;
        let out_of_range = |key: String| {
            adapter_error(gguf.error(GgufProblem::Metadata {
                key,
                why: "its value is out of range".to_owned(),
            }))
        };
        let optional = |suffix: &str| -> Result<Option<usize>, AdapterError> {
            let key = format!("{architecture}.{suffix}");
            match gguf.u32(&key).map_err(adapter_error)? {
                Some(size) if size == 0 || size > MAX_SIZE => Err(out_of_range(key)),
                size => Ok(size.map(|size| size as usize)),
            }
        };
        let required = |suffix: &str| {
            optional(suffix)?.ok_or_else(|| {
                adapter_error(gguf.error(GgufProblem::MissingKey {
                    key: format!("{architecture}.{suffix}"),
                }))
            })
        };
        let width = required("embedding_length")?;
        let heads = required("attention.head_count")?;
        let kv_heads = optional("attention.head_count_kv")?.unwrap_or(heads);
        let head_dim = optional("attention.key_length")?.unwrap_or(width / heads);
        if head_dim == 0 || head_dim % 2 != 0 {
            return Err(out_of_range(format!("{architecture}.attention.key_length")));
        }
        let vocab = gguf
            .info("token_embd.weight")
            .and_then(|table| usize::try_from(*table.shape.get(1)?).ok())
            .unwrap_or(0);
        Ok(Self {
            layers: required("block_count")?,
            ffn_width: required("feed_forward_length")?,
            width,
            heads,
            kv_heads,
            head_dim,
            vocab,
            architecture,
        })
    }

    /// Output and input features of a linear of this model.
    pub fn linear(&self, linear: LinearName) -> (usize, usize) {
        let q = self.heads * self.head_dim;
        let kv = self.kv_heads * self.head_dim;
        match linear {
            LinearName::AttnQ => (q, self.width),
            LinearName::AttnK | LinearName::AttnV => (kv, self.width),
            LinearName::AttnOutput => (self.width, q),
            LinearName::FfnGate | LinearName::FfnUp => (self.ffn_width, self.width),
            LinearName::FfnDown => (self.width, self.ffn_width),
        }
    }

    /// Refuses a target whose layer or shape does not match this model.
    pub(super) fn check_linear(&self, target: TargetName, inputs: usize, outputs: usize) -> Result<(), AdapterProblem> {
        if target.layer >= self.layers {
            return Err(AdapterProblem::OtherModel(format!(
                "it targets {target}, but this model has {} layers",
                self.layers
            )));
        }
        let (own_outputs, own_inputs) = self.linear(target.linear);
        if (outputs, inputs) != (own_outputs, own_inputs) {
            return Err(AdapterProblem::OtherModel(format!(
                "its matrices for {target} are for {inputs} x {outputs}, but this model's weight is {own_inputs} x \
                 {own_outputs}"
            )));
        }
        Ok(())
    }

    /// Returns why an adapter for `architecture` does not belong to this model; `None` if it may.
    pub(super) fn architecture_mismatch(&self, architecture: &str) -> Option<String> {
        (architecture != self.architecture).then(|| {
            format!(
                "it was trained for the architecture '{architecture}', but this model's is '{}'",
                self.architecture
            )
        })
    }

    /// Returns how `other` differs from this shape, as the end of a sentence; `None` if it does
    /// not.
    pub(super) fn mismatch(&self, other: &Self) -> Option<String> {
        let sizes = [
            ("number of layers", self.layers, other.layers),
            ("hidden size", self.width, other.width),
            ("feed-forward size", self.ffn_width, other.ffn_width),
            ("number of query heads", self.heads, other.heads),
            ("number of key/value heads", self.kv_heads, other.kv_heads),
            ("head dimension", self.head_dim, other.head_dim),
            ("vocabulary size", self.vocab, other.vocab),
        ];
        if let Some(mismatch) = other.architecture_mismatch(&self.architecture) {
            return Some(mismatch);
        }
        sizes
            .iter()
            .find(|(_, own, other)| own != other)
            .map(|(size, own, other)| {
                format!("it was trained on a model whose {size} is {own}, but this model's is {other}")
            })
    }

    /// The row order of a linear.
    pub(super) fn row_order(&self, linear: LinearName) -> Result<RowOrder, AdapterProblem> {
        match linear {
            LinearName::AttnQ | LinearName::AttnK => Ok(supported(&self.architecture)?.row_order()),
            _ => Ok(RowOrder::Same),
        }
    }
}

/// Upper limit for any size; the product of two does not overflow.
const MAX_SIZE: u32 = 1 << 24;

/// The architecture of this name; an error if its adapters are not supported.
fn supported(architecture: &str) -> Result<Architecture, AdapterProblem> {
    Architecture::named(architecture).ok_or_else(|| AdapterProblem::Architecture(quotable(architecture)))
}
