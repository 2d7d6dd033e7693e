//! PEFT's `adapter_config.json`: the supported settings, and those that are refused.

use super::error::quotable;
use super::{AdapterFile, AdapterProblem, LinearName, TargetName};
use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

/// File name of the configuration.
pub const CONFIG: &str = "adapter_config.json";

/// The largest configuration that is read, in bytes. One that lists each linear of a large model
/// has 100 KB.
pub const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Maximum number of patterns of one kind; one for each linear of the largest known models makes
/// 1,000.
const MAX_PATTERNS: usize = 2048;

/// Maximum memory of one compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 128 << 10;

/// Unsupported settings that change what an adapter computes, with the sentence to show. They are
/// ignored if absent, null, false, empty or "none".
const REFUSED: [(&str, &str); 13] = [
    (
        "use_dora",
        "This adapter is a DoRA: it also changes the magnitude of a weight's columns.",
    ),
    ("bias", "This adapter also trains biases."),
    ("lora_bias", "This adapter has biases of its own."),
    (
        "modules_to_save",
        "This adapter replaces whole modules (modules_to_save), such as the embeddings.",
    ),
    (
        "fan_in_fan_out",
        "This adapter is for weights that are stored transposed (fan_in_fan_out).",
    ),
    (
        "trainable_token_indices",
        "This adapter trains the embeddings of single tokens (trainable_token_indices).",
    ),
    (
        "target_parameters",
        "This adapter targets parameters that are not linear layers (target_parameters).",
    ),
    (
        "layer_replication",
        "This adapter replicates layers (layer_replication).",
    ),
    (
        "alora_invocation_tokens",
        "This adapter is an activated LoRA (aLoRA), which applies only after its invocation tokens.",
    ),
    ("arrow_config", "This adapter mixes several adapters (Arrow)."),
    ("kasa_config", "This adapter scales each rank separately (KaSA)."),
    ("use_bdlora", "This adapter is block-diagonal (BD-LoRA)."),
    (
        "use_qalora",
        "This adapter is a QALoRA: its inputs are pooled in groups.",
    ),
];

/// The supported settings.
#[derive(Deserialize)]
pub(super) struct Config {
    #[serde(default)]
    pub base_model_name_or_path: Option<String>,
    r: usize,
    lora_alpha: f32,
    #[serde(default)]
    pub use_rslora: bool,
    #[serde(default)]
    rank_pattern: Option<OrderedMap<usize>>,
    #[serde(default)]
    alpha_pattern: Option<OrderedMap<f32>>,
    #[serde(default)]
    target_modules: Value,
    #[serde(default)]
    exclude_modules: Value,
    #[serde(default)]
    layers_to_transform: Value,
    #[serde(skip)]
    ranks: Vec<(Regex, usize)>,
    #[serde(skip)]
    alphas: Vec<(Regex, f32)>,
}

impl Config {
    /// Parses and validates a configuration.
    pub fn parse(bytes: &[u8]) -> Result<Self, AdapterProblem> {
        let corrupt = |why: String| AdapterProblem::corrupt(CONFIG, why);
        let map: Map<String, Value> = serde_json::from_slice(bytes).map_err(|error| corrupt(error.to_string()))?;
        match map.get("peft_type").and_then(Value::as_str) {
            Some("LORA") => {}
            Some(other) => {
                return Err(AdapterProblem::Unsupported(format!(
                    "This adapter has the PEFT type '{}'.",
                    quotable(other)
                )));
            }
            None => {
                return Err(corrupt(
                    "it does not give the type of the adapter (peft_type)".to_owned(),
                ));
            }
        }
        if let Some((_, why)) = REFUSED.iter().find(|(key, _)| map.get(*key).is_some_and(is_set)) {
            return Err(AdapterProblem::Unsupported((*why).to_owned()));
        }
        let mut config: Self = serde_json::from_slice(bytes).map_err(|error| corrupt(error.to_string()))?;
        config.ranks = compile(config.rank_pattern.take()).map_err(corrupt)?;
        config.alphas = compile(config.alpha_pattern.take()).map_err(corrupt)?;
        Ok(config)
    }

    /// The configured rank of a module.
    pub fn rank(&self, module: &str) -> usize {
        find(&self.ranks, module).unwrap_or(self.r)
    }

    /// The alpha of a module.
    pub fn alpha(&self, module: &str) -> f32 {
        find(&self.alphas, module).unwrap_or(self.lora_alpha)
    }

    /// Returns a configured target without tensors. Checked only if `target_modules` is a list of
    /// names that applies to all layers.
    pub fn missing(&self, tensors: &BTreeSet<TargetName>, layers: usize) -> Option<TargetName> {
        if is_set(&self.exclude_modules) || is_set(&self.layers_to_transform) {
            return None;
        }
        let names: Vec<&str> = self
            .target_modules
            .as_array()?
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let named = |linear: &&LinearName| names.contains(&linear.peft_module()) || names.contains(&linear.peft());
        let linears: Vec<_> = LinearName::ALL.iter().filter(named).collect();
        (0..layers)
            .flat_map(|layer| linears.iter().map(move |&&linear| TargetName { layer, linear }))
            .find(|target| !tensors.contains(target))
    }

    /// Whether it is for some layers only.
    pub fn names_layers(&self) -> bool {
        is_set(&self.layers_to_transform)
    }

    /// The configuration for an adapter of a model with `layers` layers.
    pub fn describe(adapter: &AdapterFile, layers: usize) -> Value {
        let tensors = &adapter.tensors;
        let rank = most_common(tensors.values().map(|lora| lora.rank)).unwrap_or_default();
        let alpha = most_common(tensors.values().map(|lora| lora.alpha.to_bits())).map_or(0.0, f32::from_bits);
        let ranks: Map<_, _> = tensors
            .iter()
            .filter(|(_, lora)| lora.rank != rank)
            .map(|(target, lora)| (target.module(), json!(lora.rank)))
            .collect();
        let alphas: Map<_, _> = tensors
            .iter()
            .filter(|(_, lora)| lora.alpha.to_bits() != alpha.to_bits())
            .map(|(target, lora)| (target.module(), json!(lora.alpha)))
            .collect();
        json!({
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": adapter.base_name,
            "r": rank,
            "lora_alpha": alpha,
            "lora_dropout": 0.0,
            "target_modules": target_modules(adapter, layers),
            "bias": "none",
            "fan_in_fan_out": false,
            "use_rslora": adapter.rslora,
            "use_dora": false,
            "rank_pattern": ranks,
            "alpha_pattern": alphas,
            "modules_to_save": null,
            "inference_mode": true,
        })
    }
}

/// The short names of the linears if every layer has the same targets, else the full name of each
/// target.
fn target_modules(adapter: &AdapterFile, layers: usize) -> Vec<String> {
    let linears: BTreeSet<LinearName> = adapter.tensors.keys().map(|target| target.linear).collect();
    if linears.len() * layers == adapter.tensors.len() {
        linears.iter().map(|linear| linear.peft_module().to_owned()).collect()
    } else {
        adapter.tensors.keys().map(|target| target.module()).collect()
    }
}

/// The most common value; the smallest one on a tie.
fn most_common<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    // `max_by_key` returns the last maximum, so iterate from the largest value.
    counts
        .into_iter()
        .rev()
        .max_by_key(|&(_, count)| count)
        .map(|(value, _)| value)
}

/// Whether a setting is active.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty() && text != "none",
        Value::Array(values) => !values.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    }
}

/// Compiles patterns. In PEFT a pattern is a regular expression that matches complete trailing
/// components of a module path.
fn compile<T>(patterns: Option<OrderedMap<T>>) -> Result<Vec<(Regex, T)>, String> {
    let entries = patterns.map_or(Vec::new(), |patterns| patterns.0);
    if entries.len() > MAX_PATTERNS {
        return Err(format!(
            "it has {} patterns for ranks or alphas; Hearth reads at most {MAX_PATTERNS}",
            entries.len()
        ));
    }
    entries
        .into_iter()
        .map(|(pattern, value)| {
            let whole = RegexBuilder::new(&format!(r"^(?:.*\.)?(?:{pattern})$"))
                .size_limit(MAX_PATTERN_BYTES)
                .dfa_size_limit(MAX_PATTERN_BYTES)
                .build();
            let shown: String = pattern.chars().take(60).collect();
            let regex = whole.map_err(|_| format!("the pattern '{shown}' is invalid"))?;
            Ok((regex, value))
        })
        .collect()
}

/// The value of the first pattern that matches.
fn find<T: Copy>(patterns: &[(Regex, T)], module: &str) -> Option<T> {
    let first = patterns.iter().find(|(regex, _)| regex.is_match(module));
    first.map(|&(_, value)| value)
}

/// The entries of a JSON object in file order, in which PEFT tries them.
struct OrderedMap<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrderedMap<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for Visitor<T> {
            type Value = OrderedMap<T>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object of patterns")
            }

            fn visit_map<M: serde::de::MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(OrderedMap(entries))
            }
        }
        deserializer.deserialize_map(Visitor(PhantomData))
    }
}
