//! Entries of PEFT's settings that match no module. PEFT ignores them without a warning, so
//! a typing error in an entry changes the adapter.

use crate::shortened::shortened;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// Maximum number of entries of a setting that a message names.
const MAX_NAMED: usize = 4;

/// Maximum characters of an entry in a message.
const MAX_CHARS: usize = 60;

/// The entries of a setting that match no module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnmatchedEntries {
    /// The setting: `alpha_pattern`, `rank_pattern`, `target_modules`, `exclude_modules` or
    /// `modules_to_save`.
    pub setting: String,
    /// The first entries, shortened.
    pub entries: Vec<String>,
    /// Number of further entries.
    pub more: usize,
}

impl UnmatchedEntries {
    /// Collects entries. `None` if there are none.
    pub(super) fn from_entries<'a>(setting: &str, entries: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut entries = entries.into_iter();
        let named: Vec<String> = entries.by_ref().take(MAX_NAMED).map(quoted).collect();
        let more = entries.count();
        (!named.is_empty()).then(|| Self {
            setting: setting.to_owned(),
            entries: named,
            more,
        })
    }
}

/// An entry, shortened for a message.
pub(super) fn quoted(entry: &str) -> String {
    shortened(entry, MAX_CHARS)
}

/// The suffixes of module paths that PEFT matches with the entries of its lists: the whole path, or
/// its last components.
pub(super) struct PathEnds<'a>(HashSet<&'a str>);

impl<'a> PathEnds<'a> {
    /// Collects the suffixes of these module paths.
    pub fn new(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let ends = |path: &'a str| {
            let dots = path.match_indices('.').map(|(dot, _)| &path[dot + 1..]);
            std::iter::once(path).chain(dots)
        };
        Self(paths.into_iter().flat_map(ends).collect())
    }

    pub fn contains(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

/// Modules of a layer other than its linears.
const OTHER_MODULES: [&str; 10] = [
    "self_attn",
    "self_attn.q_norm",
    "self_attn.k_norm",
    "self_attn.rotary_emb",
    "mlp",
    "mlp.act_fn",
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
];

/// The number of layers of the base model.
#[derive(Clone, Copy)]
pub(super) enum LayerCount {
    /// The exact number.
    Exact(usize),
    /// The number up to the adapter's last target; the model may have more.
    AtLeast(usize),
}

impl LayerCount {
    /// The number that is known.
    pub fn known(self) -> usize {
        let (Self::Exact(count) | Self::AtLeast(count)) = self;
        count
    }

    /// Drops the entries that may match a layer beyond the known number.
    pub fn retain_certain(self, unmatched: &mut Vec<&str>) {
        if let Self::AtLeast(_) = self {
            unmatched.retain(|entry| !entry.contains(|c: char| c.is_ascii_digit()) && !entry.contains(r"\d"));
        }
    }
}

/// Whether these targets belong to a text-only model, whose modules are all known, and not to the
/// text part of a multimodal model.
pub(super) fn is_language_model(targets: &[&str]) -> bool {
    targets.iter().all(|target| target.starts_with("model.layers."))
}

/// The module paths of a model with `layers` layers. They have the prefix of `target`, one of its
/// linears: `model.layers.0.self_attn.q_proj`.
pub(super) fn modules(target: &str, linears: &[&str], layers: usize) -> Vec<String> {
    let prefix = target.find("layers.").map_or("", |at| &target[..at]);
    let outside_layers = ["embed_tokens", "norm", "rotary_emb", "layers"].map(|name| format!("{prefix}{name}"));
    let mut all: Vec<String> = outside_layers.into_iter().chain(["lm_head".to_owned()]).collect();
    all.extend(prefix.strip_suffix('.').map(str::to_owned));
    for layer in 0..layers {
        let layer = format!("{prefix}layers.{layer}");
        all.extend(
            OTHER_MODULES
                .iter()
                .chain(linears)
                .map(|name| format!("{layer}.{name}")),
        );
        all.push(layer);
    }
    all
}
