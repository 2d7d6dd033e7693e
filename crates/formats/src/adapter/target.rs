//! Targets of an adapter, with their names in GGUF and PEFT.

use crate::Architecture;
use crate::shape::{LinearName, Module};
use std::fmt;

/// One linear of one layer, displayed by its GGUF name: `blk.3.attn_q`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetName {
    /// Layer index.
    pub layer: usize,
    /// The linear of the layer.
    pub linear: LinearName,
}

/// One module of one layer, displayed by its name: `blk.3.attn_q`, `blk.3.attn_qkv`. Files of
/// adapters have matrices for modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleName {
    /// Layer index.
    pub layer: usize,
    /// The module of the layer.
    pub module: Module,
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
        let (layer, name) = in_gguf(name)?;
        let linear = LinearName::ALL.iter().find(|linear| linear.gguf() == name)?;
        Some(Self { layer, linear: *linear })
    }

    /// The module path in transformers, if the linear is not fused there:
    /// `model.layers.3.self_attn.q_proj`.
    pub fn module(self) -> String {
        ModuleName::from(self).path()
    }

    /// Parses a module path of transformers.
    pub fn from_module(path: &str) -> Option<Self> {
        match ModuleName::from_path(path)? {
            ModuleName {
                layer,
                module: Module::Linear(linear),
            } => Some(Self { layer, linear }),
            _ => None,
        }
    }
}

impl ModuleName {
    /// The tensor name of its weight in a GGUF: `blk.3.attn_qkv.weight`.
    pub fn weight(self) -> String {
        format!("blk.{}.{}.weight", self.layer, self.module.gguf())
    }

    /// Parses the name of a weight in a GGUF of this architecture; `None` means another one.
    pub fn from_weight(name: &str, architecture: Option<Architecture>) -> Option<Self> {
        let (layer, name) = in_gguf(name)?;
        let module = Module::from_gguf(name, architecture)?;
        Some(Self { layer, module })
    }

    /// The module path in transformers: `model.layers.3.self_attn.qkv_proj`.
    pub fn path(self) -> String {
        format!("model.layers.{}.{}", self.layer, self.module.peft())
    }

    /// Parses a module path of transformers.
    pub fn from_path(path: &str) -> Option<Self> {
        let in_layers = |prefix: &&str| path.strip_prefix(*prefix)?.strip_prefix("layers.");
        let (layer, name) = PEFT_PREFIXES.iter().find_map(in_layers)?.split_once('.')?;
        let module = Module::all().find(|module| module.peft() == name)?;
        Some(Self {
            layer: layer_index(layer)?,
            module,
        })
    }

    /// Its linears in the order of their rows.
    pub fn targets(self) -> impl Iterator<Item = TargetName> {
        let layer = self.layer;
        let parts = self.module.parts().iter();
        parts.map(move |linear| TargetName { layer, linear: *linear })
    }
}

impl From<TargetName> for ModuleName {
    fn from(target: TargetName) -> Self {
        Self {
            layer: target.layer,
            module: Module::Linear(target.linear),
        }
    }
}

/// The layer and the module's name in the name of a weight of a GGUF.
fn in_gguf(name: &str) -> Option<(usize, &str)> {
    let (layer, name) = name.strip_prefix("blk.")?.split_once('.')?;
    Some((layer_index(layer)?, name.strip_suffix(".weight")?))
}

/// Parses a layer's index. A sign or leading zeros would give one target two names.
fn layer_index(text: &str) -> Option<usize> {
    text.parse().ok().filter(|index: &usize| index.to_string() == text)
}

impl fmt::Display for TargetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blk.{}.{}", self.layer, self.linear)
    }
}

impl fmt::Display for ModuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blk.{}.{}", self.layer, self.module)
    }
}
