//! The weights that an adapter may change, by the names that GGUF and PEFT give them.

use std::fmt;

/// Declares [`LinearName`] from one table, so that the two names of a linear stand in one place.
macro_rules! linears {
    ($($variant:ident $gguf:literal $peft:literal, $doc:literal;)*) => {
        /// A linear of a layer.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum LinearName {
            $(#[doc = $doc] $variant,)*
        }

        impl LinearName {
            /// All, in the order in which a layer uses them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name in a GGUF: `attn_q`.
            pub const fn gguf(self) -> &'static str {
                match self { $(Self::$variant => $gguf,)* }
            }

            /// Its path within a layer of transformers: `self_attn.q_proj`.
            pub const fn peft(self) -> &'static str {
                match self { $(Self::$variant => $peft,)* }
            }
        }
    };
}

linears! {
    AttnQ "attn_q" "self_attn.q_proj", "Queries.";
    AttnK "attn_k" "self_attn.k_proj", "Keys.";
    AttnV "attn_v" "self_attn.v_proj", "Values.";
    AttnOutput "attn_output" "self_attn.o_proj", "From the heads back to the model's width.";
    FfnGate "ffn_gate" "mlp.gate_proj", "The gate of the feed-forward layer.";
    FfnUp "ffn_up" "mlp.up_proj", "Into the feed-forward layer.";
    FfnDown "ffn_down" "mlp.down_proj", "Out of the feed-forward layer.";
}

impl LinearName {
    /// The last part of its path in transformers: `q_proj`.
    pub fn peft_module(self) -> &'static str {
        self.peft().rsplit('.').next().unwrap_or_default()
    }
}

/// One linear of one layer. Its text is the GGUF's: `blk.3.attn_q`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetName {
    /// The layer, counted from 0.
    pub layer: usize,
    /// Which of its linears.
    pub linear: LinearName,
}

/// What may stand before `layers.` in transformers; the longer ones are of models that also see.
const PEFT_PREFIXES: [&str; 3] = ["model.", "model.language_model.", "language_model.model."];

impl TargetName {
    /// The name of its weight in a GGUF: `blk.3.attn_q.weight`.
    pub fn weight(self) -> String {
        format!("{self}.weight")
    }

    /// The target of a GGUF's weight, given as [`TargetName::weight`] gives it.
    pub fn from_weight(name: &str) -> Option<Self> {
        let (layer, part) = name.strip_prefix("blk.")?.split_once('.')?;
        let part = part.strip_suffix(".weight")?;
        Self::find(layer, |linear| linear.gguf() == part)
    }

    /// Its module in transformers: `model.layers.3.self_attn.q_proj`.
    pub fn module(self) -> String {
        format!("model.layers.{}.{}", self.layer, self.linear.peft())
    }

    /// The target of a module of transformers.
    pub fn from_module(path: &str) -> Option<Self> {
        let in_layers = |prefix: &&str| path.strip_prefix(*prefix)?.strip_prefix("layers.");
        let (layer, module) = PEFT_PREFIXES.iter().find_map(in_layers)?.split_once('.')?;
        Self::find(layer, |linear| linear.peft() == module)
    }

    fn find(layer: &str, is: impl Fn(LinearName) -> bool) -> Option<Self> {
        // A sign or zeros before a number would make two names of one target.
        let layer = layer.parse().ok().filter(|n: &usize| n.to_string() == layer)?;
        let linear = LinearName::ALL.iter().copied().find(|&linear| is(linear))?;
        Some(Self { layer, linear })
    }
}

impl fmt::Display for TargetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blk.{}.{}", self.layer, self.linear.gguf())
    }
}
