//! The shape of an adapter's base model: sizes, and the row order of Q and K.

use super::{AdapterError, AdapterProblem, LinearName, TargetName};
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

/// Row order of Q and K in a GGUF, relative to transformers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOrder {
    /// The same order.
    Same,
    /// In each head the two halves are interleaved, since RoPE rotates adjacent pairs in the GGUF
    /// and halves in transformers.
    Interleaved,
}

impl BaseShape {
    /// Reads the shape of a model.
    ///
    /// # Errors
    /// If a key is missing or out of range, or adapters of the architecture are not supported.
    pub fn from_gguf(gguf: &GgufHeader) -> Result<Self, AdapterError> {
        let of_gguf = |error: GgufError| AdapterError::new(gguf.path(), error);
        let architecture = gguf.architecture().map_err(of_gguf)?.to_owned();
        known(&architecture).map_err(|problem| AdapterError::new(gguf.path(), problem))?;
        let bad = |key: String| {
            of_gguf(gguf.error(GgufProblem::Metadata {
                key,
                why: "its value is out of range".to_owned(),
            }))
        };
        let optional = |suffix: &str| -> Result<Option<usize>, AdapterError> {
            let key = format!("{architecture}.{suffix}");
            match gguf.u32(&key).map_err(of_gguf)? {
                Some(n) if n == 0 || n > MAX_SIZE => Err(bad(key)),
                found => Ok(found.map(|n| n as usize)),
            }
        };
        let required = |suffix: &str| {
            optional(suffix)?.ok_or_else(|| {
                of_gguf(gguf.error(GgufProblem::MissingKey {
                    key: format!("{architecture}.{suffix}"),
                }))
            })
        };
        let width = required("embedding_length")?;
        let heads = required("attention.head_count")?;
        let kv_heads = optional("attention.head_count_kv")?.unwrap_or(heads);
        let head_dim = optional("attention.key_length")?.unwrap_or(width / heads);
        if head_dim == 0 || head_dim % 2 != 0 {
            return Err(bad(format!("{architecture}.attention.key_length")));
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
        if let Some(why) = other.architecture_mismatch(&self.architecture) {
            return Some(why);
        }
        sizes
            .iter()
            .find(|(_, own, other)| own != other)
            .map(|(what, own, other)| {
                format!("it was trained on a model whose {what} is {own}, but this model's is {other}")
            })
    }

    /// The row order of a linear.
    pub(super) fn row_order(&self, linear: LinearName) -> Result<RowOrder, AdapterProblem> {
        match linear {
            LinearName::AttnQ | LinearName::AttnK => Ok(known(&self.architecture)?.row_order()),
            _ => Ok(RowOrder::Same),
        }
    }
}

/// Upper limit for any size; the product of two does not overflow.
const MAX_SIZE: u32 = 1 << 24;

fn known(architecture: &str) -> Result<Architecture, AdapterProblem> {
    Architecture::named(architecture).ok_or_else(|| AdapterProblem::Architecture(architecture.to_owned()))
}

/// Maps row `row` of a head of `head_dim` rows in transformers to its row in the GGUF.
fn interleaved(row: usize, head_dim: usize) -> usize {
    let half = head_dim / 2;
    row % half * 2 + row / half
}

impl RowOrder {
    /// Reorders rows of `len` values from transformers order to GGUF order. The row count is a
    /// multiple of `head_dim`.
    pub(super) fn import(self, rows: Vec<f32>, len: usize, head_dim: usize) -> Vec<f32> {
        self.permute(rows, len, head_dim, |theirs, ours| (theirs, ours))
    }

    /// Inverse of `import`.
    pub(super) fn export(self, rows: Vec<f32>, len: usize, head_dim: usize) -> Vec<f32> {
        self.permute(rows, len, head_dim, |theirs, ours| (ours, theirs))
    }

    fn permute(
        self,
        rows: Vec<f32>,
        len: usize,
        head_dim: usize,
        from_to: fn(usize, usize) -> (usize, usize),
    ) -> Vec<f32> {
        if self == Self::Same {
            return rows;
        }
        let mut out = vec![0.0; rows.len()];
        let heads = rows
            .chunks_exact(head_dim * len)
            .zip(out.chunks_exact_mut(head_dim * len));
        for (head, out) in heads {
            for row in 0..head_dim {
                let (from, to) = from_to(row, interleaved(row, head_dim));
                out[to * len..][..len].copy_from_slice(&head[from * len..][..len]);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaving_round_trips() {
        // Two heads of four rows of one value.
        let theirs: Vec<f32> = (0..8u8).map(f32::from).collect();
        let ours = RowOrder::Interleaved.import(theirs.clone(), 1, 4);
        assert_eq!(ours, [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]);
        assert_eq!(RowOrder::Interleaved.export(ours, 1, 4), theirs);
        assert_eq!(RowOrder::Same.import(theirs.clone(), 1, 4), theirs);
    }
}
