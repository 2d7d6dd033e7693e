//! What an adapter has to know of the model it changes: sizes, and the order of the rows of Q and K.

use super::{AdapterError, AdapterProblem, LinearName, TargetName};
use crate::gguf::{GgufError, GgufHeader, GgufProblem};
use serde::{Deserialize, Serialize};

/// The architecture and sizes of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseShape {
    /// `llama`, `qwen2` and so on.
    pub architecture: String,
    /// Layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub width: usize,
    /// Width inside the feed-forward layer.
    pub ffn_width: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Tokens of the vocabulary.
    pub vocab: usize,
}

/// How transformers' rows of Q and K become the GGUF's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowOrder {
    /// They are the same.
    Same,
    /// In each head the two halves are interleaved, since the GGUF's rope turns neighbours where transformers turns halves.
    Interleaved,
}

impl BaseShape {
    /// Reads a model's sizes.
    ///
    /// # Errors
    /// Where a key is missing or makes no sense, or Hearth knows no adapters for the architecture.
    pub fn from_gguf(gguf: &GgufHeader) -> Result<Self, AdapterError> {
        let of_gguf = |error: GgufError| AdapterError::new(gguf.path(), error);
        let architecture = gguf.architecture().map_err(of_gguf)?.to_owned();
        row_order(&architecture).map_err(|problem| AdapterError::new(gguf.path(), problem))?;
        let bad = |key: String| {
            of_gguf(gguf.error(GgufProblem::Metadata {
                key,
                why: "no model has such a size".to_owned(),
            }))
        };
        let optional = |suffix: &str| -> Result<Option<usize>, AdapterError> {
            let key = format!("{architecture}.{suffix}");
            match gguf.u32(&key).map_err(of_gguf)? {
                Some(n) if n == 0 || n > MOST => Err(bad(key)),
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

    /// Outputs and inputs of a linear of this model.
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

    /// Refuses an adapter's part that cannot be one of this model's, by its layer and sizes.
    pub(super) fn check_linear(&self, target: TargetName, inputs: usize, outputs: usize) -> Result<(), AdapterProblem> {
        if target.layer >= self.layers {
            return Err(AdapterProblem::OtherModel(format!(
                "it changes {target}, and this model has {} layers",
                self.layers
            )));
        }
        let (own_outputs, own_inputs) = self.linear(target.linear);
        if (outputs, inputs) != (own_outputs, own_inputs) {
            return Err(AdapterProblem::OtherModel(format!(
                "its part for {target} is {inputs} x {outputs}, and this model's weight is {own_inputs} x {own_outputs}"
            )));
        }
        Ok(())
    }

    /// Why an adapter for another architecture does not belong to this model.
    pub(super) fn other_architecture(&self, architecture: &str) -> Option<String> {
        (architecture != self.architecture).then(|| {
            format!(
                "it was made for the architecture '{architecture}', and this model's is '{}'",
                self.architecture
            )
        })
    }

    /// What sets this model apart from `other`, if anything: the end of a sentence.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        let sizes = [
            ("layers", self.layers, other.layers),
            ("numbers a token in its residual stream", self.width, other.width),
            ("numbers in its feed-forward layer", self.ffn_width, other.ffn_width),
            ("query heads", self.heads, other.heads),
            ("key heads", self.kv_heads, other.kv_heads),
            ("numbers in a head", self.head_dim, other.head_dim),
            ("tokens in its vocabulary", self.vocab, other.vocab),
        ];
        if let Some(why) = other.other_architecture(&self.architecture) {
            return Some(why);
        }
        sizes
            .iter()
            .find(|(_, own, other)| own != other)
            .map(|(what, own, other)| format!("it was made for a model with {own} {what}, and this one has {other}"))
    }

    /// The order of the rows of a linear, with the number of rows of a head.
    pub(super) fn row_order(&self, linear: LinearName) -> Result<RowOrder, AdapterProblem> {
        match linear {
            LinearName::AttnQ | LinearName::AttnK => row_order(&self.architecture),
            _ => Ok(RowOrder::Same),
        }
    }
}

/// The largest size that is a model's and no damaged file's; two of them can be multiplied.
const MOST: u32 = 1 << 24;

/// How an architecture's Q and K lie in a GGUF. llama.cpp's converter decides, so an architecture is named here once it was
/// looked up there.
fn row_order(architecture: &str) -> Result<RowOrder, AdapterProblem> {
    match architecture {
        "llama" => Ok(RowOrder::Interleaved),
        "qwen2" | "qwen3" | "gemma3" => Ok(RowOrder::Same),
        other => Err(AdapterProblem::Architecture(other.to_owned())),
    }
}

/// Row `row` of a head of `head_dim` rows in transformers is this row of it in the GGUF.
fn interleaved(row: usize, head_dim: usize) -> usize {
    let half = head_dim / 2;
    row % half * 2 + row / half
}

impl RowOrder {
    /// Brings rows of `len` numbers from transformers' order into the GGUF's. There are whole heads of `head_dim` rows.
    pub fn import(self, rows: Vec<f32>, len: usize, head_dim: usize) -> Vec<f32> {
        self.moved(rows, len, head_dim, |theirs, ours| (theirs, ours))
    }

    /// Undoes [`RowOrder::import`].
    pub fn export(self, rows: Vec<f32>, len: usize, head_dim: usize) -> Vec<f32> {
        self.moved(rows, len, head_dim, |theirs, ours| (ours, theirs))
    }

    fn moved(self, rows: Vec<f32>, len: usize, head_dim: usize, way: fn(usize, usize) -> (usize, usize)) -> Vec<f32> {
        if self == Self::Same {
            return rows;
        }
        let mut out = vec![0.0; rows.len()];
        let heads = rows
            .chunks_exact(head_dim * len)
            .zip(out.chunks_exact_mut(head_dim * len));
        for (head, out) in heads {
            for row in 0..head_dim {
                let (from, to) = way(row, interleaved(row, head_dim));
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
    fn halves_of_each_head_are_interleaved_and_back() {
        // Two heads of four rows of one number.
        let theirs: Vec<f32> = (0..8u8).map(f32::from).collect();
        let ours = RowOrder::Interleaved.import(theirs.clone(), 1, 4);
        assert_eq!(ours, [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]);
        assert_eq!(RowOrder::Interleaved.export(ours, 1, 4), theirs);
        assert_eq!(RowOrder::Same.import(theirs.clone(), 1, 4), theirs);
    }
}
