//! The linears of a layer, with their names in GGUF and PEFT.

use std::fmt;

/// The part of a layer that has a linear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerPart {
    /// The mixer, such as attention.
    Mixer,
    /// The feed-forward.
    FeedForward,
}

/// Declares [`LinearName`] from one table.
macro_rules! linears {
    ($($variant:ident $gguf:literal $peft:literal $part:ident, $doc:literal;)*) => {
        /// A linear of a layer.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum LinearName {
            $(#[doc = $doc] $variant,)*
        }

        impl LinearName {
            /// All linears, in the order a layer applies them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name in a GGUF: `attn_q`.
            pub const fn gguf(self) -> &'static str {
                match self { $(Self::$variant => $gguf,)* }
            }

            /// The module path within a layer in transformers: `self_attn.q_proj`.
            pub const fn peft(self) -> &'static str {
                match self { $(Self::$variant => $peft,)* }
            }

            /// The part of a layer that has it.
            pub const fn part(self) -> LayerPart {
                match self { $(Self::$variant => LayerPart::$part,)* }
            }
        }
    };
}

linears! {
    AttnQ "attn_q" "self_attn.q_proj" Mixer, "Queries.";
    AttnK "attn_k" "self_attn.k_proj" Mixer, "Keys.";
    AttnV "attn_v" "self_attn.v_proj" Mixer, "Values.";
    AttnOutput "attn_output" "self_attn.o_proj" Mixer, "The attention output projection.";
    FfnGate "ffn_gate" "mlp.gate_proj" FeedForward, "The feed-forward gate projection.";
    FfnUp "ffn_up" "mlp.up_proj" FeedForward, "The feed-forward up projection.";
    FfnDown "ffn_down" "mlp.down_proj" FeedForward, "The feed-forward down projection.";
}

impl LinearName {
    /// The linear of this name in a GGUF (`attn_q`) or in transformers (`q_proj`).
    pub fn named(name: &str) -> Option<Self> {
        let mut linears = Self::ALL.iter().copied();
        linears.find(|linear| name == linear.gguf() || name == linear.peft_module())
    }

    /// A list of this linear alone.
    pub fn as_slice(self) -> &'static [Self] {
        // The table is in the order of the variants.
        let index = self as usize;
        &Self::ALL[index..=index]
    }

    /// The module name in transformers: `q_proj`.
    pub fn peft_module(self) -> &'static str {
        self.peft().rsplit('.').next().unwrap_or_default()
    }
}

impl fmt::Display for LinearName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.gguf())
    }
}
