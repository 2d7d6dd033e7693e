//! Target modules of an adapter, with their names in GGUF and PEFT.

use crate::shape::LinearName;
use std::fmt;

/// One linear of one layer, displayed by its GGUF name: `blk.3.attn_q`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetName {
    /// Layer index.
    pub layer: usize,
    /// The linear of the layer.
    pub linear: LinearName,
}

/// Prefixes of `layers.` in transformers; the longer ones occur in vision-language models.
const PEFT_PREFIXES: [&str; 3] = ["model.", "model.language_model.", "language_model.model."];

impl TargetName {
    /// The tensor name of its weight in a GGUF: `blk.3.attn_q.weight`.
    pub fn weight(self) -> String {
        format!("{self}.weight")
    }

    /// Parses a name in the format of [`TargetName::weight`].
    pub fn from_weight(name: &str) -> Option<Self> {
        let (layer, name) = name.strip_prefix("blk.")?.split_once('.')?;
        let name = name.strip_suffix(".weight")?;
        Self::find(layer, |linear| linear.gguf() == name)
    }

    /// The module path in transformers: `model.layers.3.self_attn.q_proj`.
    pub fn module(self) -> String {
        format!("model.layers.{}.{}", self.layer, self.linear.peft())
    }

    /// Parses a module path of transformers.
    pub fn from_module(path: &str) -> Option<Self> {
        let in_layers = |prefix: &&str| path.strip_prefix(*prefix)?.strip_prefix("layers.");
        let (layer, module) = PEFT_PREFIXES.iter().find_map(in_layers)?.split_once('.')?;
        Self::find(layer, |linear| linear.peft() == module)
    }

    fn find(layer: &str, is_match: impl Fn(LinearName) -> bool) -> Option<Self> {
        // A sign or leading zeros would give one target two names.
        let layer = layer.parse().ok().filter(|index: &usize| index.to_string() == layer)?;
        let linear = LinearName::ALL.iter().copied().find(|&linear| is_match(linear))?;
        Some(Self { layer, linear })
    }
}

impl fmt::Display for TargetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blk.{}.{}", self.layer, self.linear)
    }
}
