//! PEFT's `adapter_config.json`: the supported settings, and those that are refused.

use super::error::quotable;
use super::modules::Modules;
use super::python_pattern::{PatternProblem, trailing, whole};
use super::unmatched::{LayerCount, PathEnds, UnmatchedEntries, is_language_model, modules, quoted};
use super::{AdapterFile, AdapterProblem, BaseShape, ModuleName};
use crate::interrupt;
use crate::shape::{FusedLinear, LayerShape, Module};
use regex::Regex;
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

/// Maximum number of comparisons of a pattern with a module. One pattern for each linear of a large
/// model makes a million.
const MAX_COMPARISONS: usize = 4 << 20;

/// The cost of a comparison for [`interrupt::step`]: a pattern near its limit takes a millisecond.
const COMPARISON_COST: u64 = 1 << 10;

/// The value of `target_modules` for all linears, in upper or lower case.
const ALL_LINEAR: &str = "all-linear";

/// Unsupported settings that change what an adapter computes, with the sentence to show. They are
/// ignored if absent, null, false, empty or "none".
const REFUSED: [(&str, &str); 12] = [
    (
        "use_dora",
        "This adapter is a DoRA: it also changes the magnitude of a weight's columns.",
    ),
    ("bias", "This adapter also trains biases."),
    ("lora_bias", "This adapter has biases of its own."),
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
    modules_to_save: Value,
    #[serde(default)]
    layers_to_transform: Value,
    #[serde(skip)]
    ranks: Vec<Entry<usize>>,
    #[serde(skip)]
    alphas: Vec<Entry<f32>>,
}

/// An entry of `rank_pattern` or `alpha_pattern`.
struct Entry<T> {
    pattern: String,
    regex: Regex,
    value: T,
}

impl Config {
    /// Parses and validates a configuration.
    pub fn parse(bytes: &[u8]) -> Result<Self, AdapterProblem> {
        let corrupt = |reason: String| AdapterProblem::corrupt(CONFIG, reason);
        let map: Map<String, Value> = serde_json::from_slice(bytes).map_err(|error| corrupt(error.to_string()))?;
        match map.get("peft_type").and_then(Value::as_str) {
            Some("LORA") => {}
            Some(peft_type) => {
                return Err(AdapterProblem::Unsupported(format!(
                    "This adapter has the PEFT type '{}'.",
                    quotable(peft_type)
                )));
            }
            None => {
                return Err(corrupt(
                    "it does not give the type of the adapter (peft_type)".to_owned(),
                ));
            }
        }
        if let Some((_, sentence)) = REFUSED.iter().find(|(key, _)| map.get(*key).is_some_and(is_set)) {
            return Err(AdapterProblem::Unsupported((*sentence).to_owned()));
        }
        let mut config: Self = serde_json::from_slice(bytes).map_err(|error| corrupt(error.to_string()))?;
        config.ranks = compile("rank_pattern", config.rank_pattern.take())?;
        config.alphas = compile("alpha_pattern", config.alpha_pattern.take())?;
        Ok(config)
    }

    /// Refuses patterns that are too many to compare with this number of modules.
    pub fn check_comparisons(&self, modules: usize) -> Result<(), AdapterProblem> {
        let patterns = self.ranks.len() + self.alphas.len();
        if patterns.saturating_mul(modules) > MAX_COMPARISONS {
            Err(AdapterProblem::Settings(format!(
                "it has {patterns} patterns in rank_pattern and alpha_pattern for {modules} target modules, which are \
                 too many to compare"
            )))
        } else {
            Ok(())
        }
    }

    /// The configured rank of a module.
    pub fn rank(&self, module: &str) -> usize {
        find(&self.ranks, module).unwrap_or(self.r)
    }

    /// The alpha of a module.
    pub fn alpha(&self, module: &str) -> f32 {
        find(&self.alphas, module).unwrap_or(self.lora_alpha)
    }

    /// Returns a configured target that exists in the model but has no tensors. Checked only if
    /// `target_modules` is a list of names that applies to all layers.
    pub fn missing(
        &self,
        tensors: &BTreeSet<ModuleName>,
        layers: usize,
        exists: impl Fn(ModuleName) -> bool,
    ) -> Option<ModuleName> {
        if is_set(&self.exclude_modules) || is_set(&self.layers_to_transform) {
            return None;
        }
        let names: Vec<&str> = self
            .target_modules
            .as_array()?
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let is_named = |module: &Module| names.contains(&module.peft_module()) || names.contains(&module.peft());
        let modules: Vec<Module> = Module::all().filter(is_named).collect();
        (0..layers)
            .flat_map(|layer| modules.iter().map(move |&module| ModuleName { layer, module }))
            .find(|&target| exists(target) && !tensors.contains(&target))
    }

    /// The entries that match no module. `targets` are the module paths of the file's tensors, and
    /// `fused` are the linears that the model fuses.
    ///
    /// # Errors
    /// `modules_to_save` names a module of the model: its weights would have to be replaced.
    pub fn unmatched(
        &self,
        targets: &[&str],
        fused: &[FusedLinear],
        layers: LayerCount,
    ) -> Result<Vec<UnmatchedEntries>, AdapterProblem> {
        let is_any_set = [&self.target_modules, &self.exclude_modules, &self.modules_to_save].map(is_set);
        let paths = if is_any_set.contains(&true) {
            let in_layer = Module::all().filter(|module| module.is_with(fused));
            let in_layer: Vec<&str> = in_layer.map(Module::peft).collect();
            modules(targets.first().copied().unwrap_or_default(), &in_layer, layers.known())
        } else {
            Vec::new()
        };
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let unmatched = [
            UnmatchedEntries::from_entries("rank_pattern", unused(&self.ranks, targets)),
            UnmatchedEntries::from_entries("alpha_pattern", unused(&self.alphas, targets)),
            self.unmatched_targets(targets, &paths, layers),
            self.unmatched_exclusions(targets, &paths, layers),
            self.unsaved(targets, &paths)?,
        ];
        Ok(unmatched.into_iter().flatten().collect())
    }

    fn unmatched_targets(&self, targets: &[&str], paths: &[&str], layers: LayerCount) -> Option<UnmatchedEntries> {
        let text = self.target_modules.as_str();
        if text.is_some_and(|text| text.eq_ignore_ascii_case(ALL_LINEAR)) {
            return None;
        }
        // An entry may name modules of the vision part that are excluded.
        if is_set(&self.exclude_modules) && !is_language_model(targets) {
            return None;
        }
        let mut unmatched = no_names(&self.target_modules, targets);
        // An entry may match a module without tensors: `lm_head`, or an excluded module.
        if !unmatched.is_empty() {
            let not_in_model: BTreeSet<&str> = no_names(&self.target_modules, paths).into_iter().collect();
            unmatched.retain(|entry| not_in_model.contains(entry));
        }
        layers.retain_certain(&mut unmatched);
        UnmatchedEntries::from_entries("target_modules", unmatched)
    }

    fn unmatched_exclusions(&self, targets: &[&str], paths: &[&str], layers: LayerCount) -> Option<UnmatchedEntries> {
        // The modules of a vision part are not known.
        if !is_language_model(targets) {
            return None;
        }
        let mut unmatched = no_names(&self.exclude_modules, paths);
        layers.retain_certain(&mut unmatched);
        UnmatchedEntries::from_entries("exclude_modules", unmatched)
    }

    /// The entries of `modules_to_save` that match no module, by the end of its path.
    fn unsaved(&self, targets: &[&str], paths: &[&str]) -> Result<Option<UnmatchedEntries>, AdapterProblem> {
        if !is_set(&self.modules_to_save) {
            return Ok(None);
        }
        let names = names(&self.modules_to_save);
        let is_module = |name: &&&str| targets.iter().chain(paths).any(|path| path.ends_with(**name));
        match names.iter().take(MAX_PATTERNS).find(is_module) {
            Some(name) => Err(replaces(Some(name))),
            None if names.is_empty() || names.len() > MAX_PATTERNS => Err(replaces(None)),
            None => Ok(UnmatchedEntries::from_entries("modules_to_save", names)),
        }
    }

    /// The error for a tensor that belongs to no LoRA but to a module of `modules_to_save`.
    pub fn saved(&self, tensor: &str) -> Option<AdapterProblem> {
        let names = names(&self.modules_to_save);
        let (module, _) = tensor.rsplit_once('.')?;
        let name = names.into_iter().find(|name| module.ends_with(name));
        name.map(|name| replaces(Some(name)))
    }

    /// Whether the adapter is restricted to some layers.
    pub fn names_layers(&self) -> bool {
        is_set(&self.layers_to_transform)
    }

    /// The configuration for an adapter with these modules of a model of this shape.
    pub fn describe(adapter: &AdapterFile, modules: &Modules, base: &BaseShape) -> Value {
        let rank = most_common(modules.values().map(|lora| lora.rank)).unwrap_or_default();
        let alpha = most_common(modules.values().map(|lora| lora.alpha.to_bits())).map_or(0.0, f32::from_bits);
        let ranks: Map<_, _> = modules
            .iter()
            .filter(|(_, lora)| lora.rank != rank)
            .map(|(name, lora)| (name.path(), json!(lora.rank)))
            .collect();
        let alphas: Map<_, _> = modules
            .iter()
            .filter(|(_, lora)| lora.alpha.to_bits() != alpha.to_bits())
            .map(|(name, lora)| (name.path(), json!(lora.alpha)))
            .collect();
        json!({
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": adapter.base_name,
            "r": rank,
            "lora_alpha": alpha,
            "lora_dropout": 0.0,
            "target_modules": target_modules(modules, base),
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

/// The short names of the modules if each is a target in all layers that have it, else the path of
/// each target.
fn target_modules(targets: &Modules, base: &BaseShape) -> Vec<String> {
    let modules: BTreeSet<Module> = targets.keys().map(|name| name.module).collect();
    let in_layer = |layer: &LayerShape| modules.iter().filter(|module| module.shape(layer).is_some()).count();
    if base.layers.iter().map(in_layer).sum::<usize>() == targets.len() {
        modules.iter().map(|module| module.peft_module().to_owned()).collect()
    } else {
        targets.keys().map(|name| name.path()).collect()
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

/// The error for an adapter that replaces modules.
fn replaces(name: Option<&str>) -> AdapterProblem {
    let suffix = name.map_or(String::new(), |name| format!(": '{}'", quoted(name)));
    AdapterProblem::Unsupported(format!(
        "This adapter replaces whole modules (modules_to_save){suffix}."
    ))
}

/// Compiles patterns. In PEFT a pattern is a regular expression that matches complete trailing
/// components of a module path.
fn compile<T>(setting: &'static str, patterns: Option<OrderedMap<T>>) -> Result<Vec<Entry<T>>, AdapterProblem> {
    let entries = patterns.map_or(Vec::new(), |patterns| patterns.0);
    if entries.len() > MAX_PATTERNS {
        return Err(AdapterProblem::Settings(format!(
            "it has {} patterns in {setting}; Hearth reads at most {MAX_PATTERNS}",
            entries.len()
        )));
    }
    let compiled = entries.into_iter().map(|(pattern, value)| match trailing(&pattern) {
        Ok(regex) => Ok(Entry { pattern, regex, value }),
        Err(problem) => Err(refused(setting, &pattern, problem)),
    });
    compiled.collect()
}

/// The error for a pattern that is not supported or invalid.
fn refused(setting: &str, pattern: &str, problem: PatternProblem) -> AdapterProblem {
    let shown = quoted(pattern);
    AdapterProblem::Settings(match problem {
        PatternProblem::Unsupported(feature) => {
            format!("the pattern '{shown}' in {setting} has {feature}, which is not supported in patterns")
        }
        PatternProblem::Invalid(reason) => {
            format!("the pattern '{shown}' in {setting} is no valid regular expression ({reason})")
        }
    })
}

/// The value of the first pattern that matches.
fn find<T: Copy>(entries: &[Entry<T>], module: &str) -> Option<T> {
    let first = entries.iter().find(|entry| is_match(&entry.regex, module));
    first.map(|entry| entry.value)
}

/// Whether a pattern matches a module. `true` once the work is interrupted, which ends a search.
fn is_match(regex: &Regex, module: &str) -> bool {
    interrupt::step(COMPARISON_COST) || regex.is_match(module)
}

/// The patterns that match no module.
fn unused<'a, T>(entries: &'a [Entry<T>], modules: &[&str]) -> Vec<&'a str> {
    let is_unused = |entry: &&Entry<T>| !modules.iter().any(|module| is_match(&entry.regex, module));
    entries
        .iter()
        .filter(is_unused)
        .map(|entry| entry.pattern.as_str())
        .collect()
}

/// The names of a list, or a single one.
fn names(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(values) => values.iter().filter_map(Value::as_str).collect(),
        value => Vec::from_iter(value.as_str()),
    }
}

/// The entries of a setting that match none of these modules. A list has names. A string is a
/// pattern; one that cannot be compiled counts as matching, since the file's tensors decide.
fn no_names<'a>(setting: &'a Value, modules: &[&str]) -> Vec<&'a str> {
    match setting {
        Value::Array(_) => {
            let ends = PathEnds::new(modules.iter().copied());
            names(setting).into_iter().filter(|name| !ends.contains(name)).collect()
        }
        Value::String(pattern) if is_set(setting) => {
            let is_unmatched = whole(pattern).is_ok_and(|regex| !modules.iter().any(|path| is_match(&regex, path)));
            Vec::from_iter(is_unmatched.then_some(pattern.as_str()))
        }
        _ => Vec::new(),
    }
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
