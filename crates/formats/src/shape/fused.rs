//! Linears of a layer that are one tensor in a file, or one module in transformers.

use super::{LayerShape, LinearName};
use crate::Architecture;
use crate::gguf::GgufHeader;
use std::ops::Range;

/// Linears with the same input whose rows are in one weight, linear after linear. An adapter of
/// this weight has one A for all of them, and the rows of its B are theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FusedLinear {
    /// Queries, keys and values.
    AttnQkv,
    /// The gate and up projections of a feed-forward.
    FfnGateUp,
}

impl FusedLinear {
    /// All fused linears.
    pub const ALL: &'static [Self] = &[Self::AttnQkv, Self::FfnGateUp];

    /// The linears in the order of their rows.
    pub const fn parts(self) -> &'static [LinearName] {
        match self {
            Self::AttnQkv => &[LinearName::AttnQ, LinearName::AttnK, LinearName::AttnV],
            Self::FfnGateUp => &[LinearName::FfnGate, LinearName::FfnUp],
        }
    }

    /// A name that no linear has: `attn_qkv`, `ffn_gate_up`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AttnQkv => "attn_qkv",
            Self::FfnGateUp => "ffn_gate_up",
        }
    }

    /// The name in a GGUF: `attn_qkv`. Gate and up together have the name of up: `ffn_up`.
    pub const fn gguf(self) -> &'static str {
        match self {
            Self::AttnQkv => self.name(),
            Self::FfnGateUp => LinearName::FfnUp.gguf(),
        }
    }

    /// The module path within a layer in transformers: `self_attn.qkv_proj`.
    pub const fn peft(self) -> &'static str {
        match self {
            Self::AttnQkv => "self_attn.qkv_proj",
            Self::FfnGateUp => "mlp.gate_up_proj",
        }
    }

    /// The fused linear that may have a linear as a part; `None` if there is none.
    pub fn with_part(linear: LinearName) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|fused| fused.parts().contains(&linear))
    }

    /// The rows of a part in a layer of this shape; `None` if the layer does not have it.
    pub fn rows(self, shape: &LayerShape, part: LinearName) -> Option<Range<usize>> {
        let mut start = 0;
        for linear in self.parts() {
            let [outputs, _] = shape.linear(*linear)?;
            if *linear == part {
                return Some(start..start + outputs);
            }
            start += outputs;
        }
        None
    }

    /// The numbers of outputs and inputs in a layer of this shape; `None` if the layer does not
    /// have all parts.
    pub fn shape(self, shape: &LayerShape) -> Option<[usize; 2]> {
        let mut outputs = 0;
        for linear in self.parts() {
            outputs += shape.linear(*linear)?[0];
        }
        Some([outputs, shape.width])
    }
}

impl Architecture {
    /// The fused linears of its modules in transformers, whose names PEFT uses.
    pub const fn fused_linears(self) -> &'static [FusedLinear] {
        match self {
            Self::Phi3 => FusedLinear::ALL,
            Self::Llama
            | Self::Qwen2
            | Self::Qwen3
            | Self::Gemma3
            | Self::Mistral3
            | Self::Granite
            | Self::SmolLm3
            | Self::Gemma2
            | Self::Olmo2 => &[],
        }
    }

    /// The fused linear that a file has in place of a linear of a layer; `None` if it has the
    /// linear alone. As in llama.cpp, queries, keys and values may be fused in any architecture.
    pub fn fused_in(self, gguf: &GgufHeader, layer: usize, linear: LinearName) -> Option<FusedLinear> {
        let fused = FusedLinear::with_part(linear)?;
        let is_fused = match fused {
            FusedLinear::AttnQkv => gguf.info(&format!("blk.{layer}.{}.weight", fused.gguf())).is_some(),
            FusedLinear::FfnGateUp => self.fused_linears().contains(&fused),
        };
        is_fused.then_some(fused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{AttentionShape, FeedForwardShape, MixerShape};

    #[test]
    fn rows_of_parts_are_consecutive_and_complete() {
        let shape = LayerShape {
            width: 60,
            mixer: Some(MixerShape::Attention(AttentionShape {
                heads: 3,
                kv_heads: 1,
                head_dim: 20,
            })),
            feed_forward: Some(FeedForwardShape::Gated { width: 76 }),
        };
        let rows = |fused: FusedLinear| {
            let parts = fused.parts().iter();
            parts.map(|part| fused.rows(&shape, *part)).collect::<Vec<_>>()
        };
        assert_eq!(rows(FusedLinear::AttnQkv), [Some(0..60), Some(60..80), Some(80..100)]);
        assert_eq!(rows(FusedLinear::FfnGateUp), [Some(0..76), Some(76..152)]);
        assert_eq!(FusedLinear::AttnQkv.shape(&shape), Some([100, 60]));
        assert_eq!(FusedLinear::FfnGateUp.shape(&shape), Some([152, 60]));
        assert_eq!(FusedLinear::AttnQkv.rows(&shape, LinearName::FfnUp), None);
        let without_attention = LayerShape { mixer: None, ..shape };
        assert_eq!(FusedLinear::AttnQkv.shape(&without_attention), None);
        assert_eq!(FusedLinear::AttnQkv.rows(&without_attention, LinearName::AttnQ), None);
    }

    #[test]
    fn a_linear_is_a_part_of_at_most_one() {
        for linear in LinearName::ALL {
            let count = FusedLinear::ALL.iter().filter(|fused| fused.parts().contains(linear));
            assert_eq!(
                count.count(),
                usize::from(FusedLinear::with_part(*linear).is_some()),
                "{linear}"
            );
        }
        assert_eq!(FusedLinear::with_part(LinearName::FfnDown), None);
    }
}
