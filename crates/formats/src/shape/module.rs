//! The modules of a layer that adapters target.

use super::{FusedLinear, LayerShape, LinearName};
use crate::Architecture;
use std::fmt;
use std::ops::Range;

/// A linear of a layer, or fused ones. An adapter has one A and one B for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Module {
    /// A linear.
    Linear(LinearName),
    /// Fused linears.
    Fused(FusedLinear),
}

impl Module {
    /// The modules of all architectures.
    pub fn all() -> impl Iterator<Item = Self> {
        let linears = LinearName::ALL.iter().copied().map(Self::Linear);
        linears.chain(FusedLinear::ALL.iter().copied().map(Self::Fused))
    }

    /// The module of this name: `attn_q`, `attn_qkv` or `ffn_gate_up`, or as in transformers
    /// `q_proj`, `qkv_proj` or `gate_up_proj`.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|module| name == module.name() || name == module.peft_module())
    }

    /// The module of this name in a GGUF of an architecture: `ffn_up` is gate and up if the
    /// architecture fuses them. `None` means another architecture.
    pub fn from_gguf(name: &str, architecture: Option<Architecture>) -> Option<Self> {
        let fused = architecture.map(Architecture::fused_linears).unwrap_or_default();
        let is_possible = |module: &Self| match module {
            Self::Linear(_) | Self::Fused(FusedLinear::AttnQkv) => true,
            Self::Fused(other) => fused.contains(other),
        };
        // Fused ones are the last, and win.
        let named = Self::all().filter(|module| module.gguf() == name);
        named.filter(is_possible).last()
    }

    /// The unique name: `attn_q`, `attn_qkv`, `ffn_gate_up`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linear(linear) => linear.gguf(),
            Self::Fused(fused) => fused.name(),
        }
    }

    /// The name in a GGUF: `attn_q`, `attn_qkv`, `ffn_up`.
    pub const fn gguf(self) -> &'static str {
        match self {
            Self::Linear(linear) => linear.gguf(),
            Self::Fused(fused) => fused.gguf(),
        }
    }

    /// The module path within a layer in transformers: `self_attn.q_proj`.
    pub const fn peft(self) -> &'static str {
        match self {
            Self::Linear(linear) => linear.peft(),
            Self::Fused(fused) => fused.peft(),
        }
    }

    /// The module name in transformers: `q_proj`.
    pub fn peft_module(self) -> &'static str {
        self.peft().rsplit('.').next().unwrap_or_default()
    }

    /// Its linears in the order of their rows; at least one.
    pub fn parts(self) -> &'static [LinearName] {
        match self {
            Self::Linear(linear) => linear.as_slice(),
            Self::Fused(fused) => fused.parts(),
        }
    }

    /// Whether a model has it in transformers, if these linears are fused there.
    pub fn is_with(self, fused: &[FusedLinear]) -> bool {
        match self {
            Self::Linear(linear) => !fused.iter().any(|fused| fused.parts().contains(&linear)),
            Self::Fused(own) => fused.contains(&own),
        }
    }

    /// The numbers of outputs and inputs; `None` if a layer of this shape does not have it.
    pub fn shape(self, shape: &LayerShape) -> Option<[usize; 2]> {
        match self {
            Self::Linear(linear) => shape.linear(linear),
            Self::Fused(fused) => fused.shape(shape),
        }
    }

    /// The rows of a part; `None` if it is no part, or a layer of this shape does not have it.
    pub fn rows(self, shape: &LayerShape, part: LinearName) -> Option<Range<usize>> {
        match self {
            Self::Linear(linear) if linear == part => Some(0..shape.linear(linear)?[0]),
            Self::Linear(_) => None,
            Self::Fused(fused) => fused.rows(shape, part),
        }
    }
}

impl Architecture {
    /// The module of transformers with a linear: the fused one, or the linear alone.
    pub fn module_with(self, linear: LinearName) -> Module {
        let mut fused = self.fused_linears().iter();
        match fused.find(|fused| fused.parts().contains(&linear)) {
            Some(fused) => Module::Fused(*fused),
            None => Module::Linear(linear),
        }
    }

    /// The modules of a layer in transformers with their numbers of outputs and inputs, in the
    /// order the layer applies them.
    pub fn modules(self, shape: &LayerShape) -> impl Iterator<Item = (Module, [usize; 2])> {
        let shape = *shape;
        let module_at = move |linear: &LinearName| {
            let module = self.module_with(*linear);
            // Fused linears are one module, at the place of their first.
            let is_first = module.parts().first() == Some(linear);
            Some((module, module.shape(&shape).filter(|_| is_first)?))
        };
        LinearName::ALL.iter().filter_map(module_at)
    }
}

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{AttentionShape, FeedForwardShape, MixerShape};

    #[test]
    fn names_are_unique_and_parsed() {
        for module in Module::all() {
            assert_eq!(Module::named(module.name()), Some(module));
            assert_eq!(Module::named(module.peft_module()), Some(module));
        }
        let ffn_up = |architecture| Module::from_gguf("ffn_up", architecture);
        let up = Some(Module::Linear(LinearName::FfnUp));
        assert_eq!((ffn_up(None), ffn_up(Some(Architecture::Llama))), (up, up));
        assert_eq!(
            ffn_up(Some(Architecture::Phi3)),
            Some(Module::Fused(FusedLinear::FfnGateUp))
        );
        let qkv = Some(Module::Fused(FusedLinear::AttnQkv));
        assert_eq!(Module::from_gguf("attn_qkv", Some(Architecture::Qwen3)), qkv);
        assert_eq!(Module::from_gguf("ffn_gate_up", Some(Architecture::Phi3)), None);
    }

    #[test]
    fn each_linear_of_a_layer_is_in_one_of_its_modules() {
        let shape = LayerShape {
            width: 8,
            mixer: Some(MixerShape::Attention(AttentionShape {
                heads: 2,
                kv_heads: 1,
                head_dim: 4,
            })),
            feed_forward: Some(FeedForwardShape::Gated { width: 6 }),
        };
        for architecture in Architecture::ALL {
            let modules: Vec<_> = architecture.modules(&shape).collect();
            let parts: Vec<_> = modules.iter().flat_map(|(module, _)| module.parts()).collect();
            assert!(parts.into_iter().eq(LinearName::ALL), "{architecture}");
            for (module, size) in modules {
                assert!(module.is_with(architecture.fused_linears()), "{architecture} {module}");
                assert_eq!(module.shape(&shape), Some(size));
            }
        }
        let names = Architecture::Phi3.modules(&shape).map(|(module, _)| module.name());
        assert!(names.eq(["attn_qkv", "attn_output", "ffn_gate_up", "ffn_down"]));
    }
}
