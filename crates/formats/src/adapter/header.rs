//! The headers of an adapter: its targets and its base model. No matrix is read.

use super::{
    AdapterError, AdapterManifest, AdapterProblem, BaseId, BaseShape, ModuleName, UnmatchedEntries, gguf_lora, peft,
};
use crate::gguf::GgufFile;
use crate::shape::{LayerShape, MAX_LAYERS, Module};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Maximum bytes of an architecture's name or a fingerprint.
const MAX_ARCHITECTURE_BYTES: usize = 64;

/// Maximum characters of a base model's name.
const MAX_NAME_CHARS: usize = 200;

/// Maximum characters of the owner or the name of a repository.
const MAX_REPOSITORY_CHARS: usize = 96;

/// Prefix of a repository's address on the Hugging Face hub.
const HUB: &str = "https://huggingface.co/";

/// Sizes of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TargetShape {
    /// Rank.
    pub rank: usize,
    /// Input features.
    pub inputs: usize,
    /// Output features.
    pub outputs: usize,
}

/// The headers of an adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterHeader {
    /// Architecture of its base model. `None` if it is not recorded, as in PEFT.
    pub architecture: Option<String>,
    /// Name of its base model: `OWNER/NAME`, a name, or a path.
    pub base_name: Option<String>,
    /// Whether [`AdapterHeader::base_name`] is a repository of the hub.
    pub is_repository: bool,
    /// Its base model, as an adapter trained by Hearth records it.
    pub base: Option<BaseId>,
    /// [`AdapterManifest::id`] of an adapter trained by Hearth.
    pub id: Option<String>,
    /// Number of layers up to the last target.
    pub layers: usize,
    /// Whether each of its linears is a target in each of these layers.
    pub is_whole: bool,
    /// Its linears, or fused ones; each has the same sizes in all layers.
    pub linears: Vec<LinearShape>,
    /// Entries of its PEFT configuration that match no module, so that they have no effect.
    pub unmatched: Vec<UnmatchedEntries>,
}

/// The sizes of a linear that an adapter targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinearShape {
    /// [`Module::name`]: `attn_q`, `attn_qkv`.
    pub name: String,
    /// Greatest rank.
    pub rank: usize,
    /// Input features.
    pub inputs: usize,
    /// Output features.
    pub outputs: usize,
}

/// The reason that an adapter does not fit a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mismatch {
    /// It is for another architecture.
    Architecture {
        /// The adapter's.
        adapter: String,
    },
    /// Its base model has another number of layers.
    Layers {
        /// The adapter's.
        adapter: usize,
        /// The model's.
        model: usize,
    },
    /// A linear of its base model has other sizes.
    Linear {
        /// [`LinearShape::name`]: `attn_q`.
        name: String,
        /// Input and output features of the adapter's.
        adapter: (usize, usize),
        /// Input and output features of the model's.
        model: (usize, usize),
    },
    /// Its base model, which it records, has other sizes outside its targets.
    Base,
}

impl AdapterHeader {
    /// Reads the headers of a PEFT folder or a GGUF file, within the readers' limits.
    ///
    /// # Errors
    /// It cannot be read, is corrupt, or is of an unsupported kind.
    pub fn open(path: &Path) -> Result<Self, AdapterError> {
        if path.is_dir() {
            return peft::read_header(path);
        }
        let gguf = GgufFile::open(path).map_err(|error| AdapterError::new(path, error))?;
        gguf_lora::read_header(&gguf).map_err(|problem| AdapterError::new(path, problem))
    }

    /// Collects targets. `names` are the base model's names, of which the first repository wins.
    pub(super) fn new(
        architecture: Option<String>,
        names: Vec<String>,
        manifest: Option<AdapterManifest>,
        targets: &[(ModuleName, TargetShape)],
    ) -> Result<Self, AdapterProblem> {
        let mut linears: BTreeMap<Module, TargetShape> = BTreeMap::new();
        let mut covered = BTreeSet::new();
        for &(target, shape) in targets {
            covered.insert(target.layer);
            let first = linears.entry(target.module).or_insert(shape);
            if (first.inputs, first.outputs) != (shape.inputs, shape.outputs) {
                return Err(AdapterProblem::Unsupported(format!(
                    "This adapter's target {target} has another size than the same target of other layers."
                )));
            }
            first.rank = first.rank.max(shape.rank);
        }
        let Some(&last) = covered.last() else {
            return Err(AdapterProblem::NotAnAdapter("it targets no weight".to_owned()));
        };
        let id = manifest.as_ref().map(AdapterManifest::id);
        let base = manifest.map(|manifest| bounded(manifest.base)).transpose()?;
        if architecture
            .as_ref()
            .is_some_and(|name| name.len() > MAX_ARCHITECTURE_BYTES)
        {
            return Err(AdapterProblem::Architecture("(its name is too long)".to_owned()));
        }
        let layers = last.saturating_add(1);
        if layers > MAX_LAYERS {
            return Err(AdapterProblem::Unsupported(format!(
                "This adapter targets layer {last}; a model has at most {MAX_LAYERS} layers."
            )));
        }
        let names: Vec<String> = names.iter().filter_map(|name| shown(name)).collect();
        let repository = names.iter().find_map(|name| repository(name));
        Ok(Self {
            architecture,
            is_repository: repository.is_some(),
            base_name: repository.or_else(|| names.into_iter().next()),
            base,
            id,
            layers,
            is_whole: linears.len().checked_mul(layers) == Some(targets.len()),
            linears: linears
                .into_iter()
                .map(|(module, shape)| LinearShape {
                    name: module.name().to_owned(),
                    rank: shape.rank,
                    inputs: shape.inputs,
                    outputs: shape.outputs,
                })
                .collect(),
            unmatched: Vec::new(),
        })
    }

    /// Checks that the adapter fits a model of this shape: its architecture, its layers, and the
    /// sizes of its targets. Names are not compared.
    ///
    /// # Errors
    /// The first mismatch.
    pub fn fits(&self, model: &BaseShape) -> Result<(), Mismatch> {
        if let Some(architecture) = self.architecture.as_ref().filter(|name| **name != model.architecture) {
            let adapter = architecture.clone();
            return Err(Mismatch::Architecture { adapter });
        }
        let layers = model.layers.len();
        // If all layers have the same targets, the model must have exactly that many layers.
        if self.layers > layers || self.is_whole && self.layers != layers {
            return Err(Mismatch::Layers {
                adapter: self.layers,
                model: layers,
            });
        }
        for target in &self.linears {
            let Some(module) = Module::named(&target.name) else {
                continue;
            };
            // Without an architecture, the names are from transformers.
            let exists = self.architecture.is_some() || module.is_with(model.fused_linears());
            let sizes = |layer: &LayerShape| {
                let [outputs, inputs] = module.shape(layer).filter(|_| exists)?;
                Some((inputs, outputs))
            };
            let mut model_sizes = model.layers[..self.layers].iter().filter_map(sizes);
            let adapter_sizes = (target.inputs, target.outputs);
            // The targeted layers are not recorded, so one of the same sizes is enough.
            let first = model_sizes.next();
            if first != Some(adapter_sizes) && !model_sizes.any(|sizes| sizes == adapter_sizes) {
                return Err(Mismatch::Linear {
                    name: target.name.clone(),
                    adapter: adapter_sizes,
                    model: first.unwrap_or_default(),
                });
            }
        }
        match &self.base {
            Some(base) if base.shape.mismatch(model).is_some() => Err(Mismatch::Base),
            _ => Ok(()),
        }
    }
}

/// Checks that the strings of a recorded base are short, as Hearth writes them.
fn bounded(base: BaseId) -> Result<BaseId, AdapterProblem> {
    let hashes = [&base.fingerprint.model, &base.fingerprint.file];
    let is_short = |text: &&String| text.len() <= MAX_ARCHITECTURE_BYTES;
    if !hashes
        .into_iter()
        .chain([&base.shape.architecture])
        .all(|text| is_short(&text))
    {
        return Err(AdapterProblem::corrupt(
            "manifest",
            "its base model's fingerprint is malformed",
        ));
    }
    let file = shown(&base.file).unwrap_or_default();
    Ok(BaseId { file, ..base })
}

/// A name without control characters, truncated to [`MAX_NAME_CHARS`]; `None` if it is empty.
fn shown(name: &str) -> Option<String> {
    let plain = name.trim().chars().filter(|c| !c.is_control());
    let plain: String = plain.take(MAX_NAME_CHARS).collect();
    (!plain.is_empty()).then_some(plain)
}

/// `OWNER/NAME`, if the name is a repository of the hub, with or without the address [`HUB`].
fn repository(name: &str) -> Option<String> {
    let path = name.strip_prefix(HUB).unwrap_or(name).trim_end_matches('/');
    let is_part = |part: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !part.is_empty() && part.len() <= MAX_REPOSITORY_CHARS && !part.starts_with('.') && part.chars().all(is_plain)
    };
    let (owner, repository) = path.split_once('/')?;
    (is_part(owner) && is_part(repository)).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::LinearName;

    #[test]
    fn repositories_are_distinguished_from_paths() {
        for (name, expected) in [
            ("meta-llama/Llama-3.2-1B", Some("meta-llama/Llama-3.2-1B")),
            ("https://huggingface.co/o/n/", Some("o/n")),
            ("./local/model", None),
            ("/home/me/model", None),
            ("model", None),
            ("o/n/m", None),
            ("https://evil.example/o/n", None),
            ("../n", None),
            ("o/", None),
        ] {
            assert_eq!(repository(name).as_deref(), expected, "{name}");
        }
        assert_eq!(shown(" a\u{0}b\n "), Some("ab".to_owned()));
        assert_eq!(shown("\n"), None);
        assert_eq!(shown(&"x".repeat(1000)).map(|name| name.len()), Some(MAX_NAME_CHARS));
    }

    #[test]
    fn sizes_that_differ_between_layers_are_refused() {
        let target = |layer| ModuleName {
            layer,
            module: Module::Linear(LinearName::AttnQ),
        };
        let shape = |inputs| TargetShape {
            rank: 1,
            inputs,
            outputs: 4,
        };
        let header = |targets: &[(ModuleName, TargetShape)]| AdapterHeader::new(None, Vec::new(), None, targets);
        assert!(header(&[]).is_err());
        assert!(header(&[(target(0), shape(4)), (target(1), shape(8))]).is_err());
        let all_layers = header(&[(target(0), shape(4)), (target(1), shape(4))]).expect("a header");
        assert!(all_layers.is_whole && all_layers.layers == 2);
        assert!(header(&[(target(usize::MAX), shape(4))]).is_err());
        let last_layer = header(&[(target(7), shape(4))]).expect("a header");
        assert!(!last_layer.is_whole && last_layer.layers == 8);
    }
}
