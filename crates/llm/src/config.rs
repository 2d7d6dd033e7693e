//! A model's hyperparameters, read from a GGUF's metadata and checked.

use crate::arch;
use crate::error::LoadError;
use hearth_formats::Architecture;
use hearth_formats::adapter::{BaseShape, LinearName};
use hearth_formats::gguf::{GgufHeader, Value};
use std::fmt::Display;

/// Hyperparameters common to all architectures. Each architecture's own are read by its file in
/// `arch/`.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `general.architecture`.
    pub architecture: Architecture,
    /// `general.name`, or the file name without extension.
    pub name: String,
    /// Transformer layers.
    pub n_layers: usize,
    /// Layers after them for multi-token prediction: counted as layers, but not loaded.
    pub prediction_layers: usize,
    /// Width of the residual stream (hidden size).
    pub width: usize,
    /// Hidden width of the feed-forward.
    pub ffn_width: usize,
    /// Query heads.
    pub heads: usize,
    /// KV heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// RMSNorm's epsilon.
    pub norm_eps: f32,
    /// RoPE base frequency (theta).
    pub rope_base: f32,
    /// Linear RoPE scaling: positions are divided by this; 1 means no scaling.
    pub rope_scale: f32,
    /// Elements of a head that RoPE rotates.
    pub rope_dims: usize,
    /// Context length in training, in tokens.
    pub context_trained: usize,
    /// Vocabulary size.
    pub vocab: usize,
}

impl Config {
    /// Layers as `--gpu-layers` counts them: transformer layers, those for multi-token prediction
    /// included, and the output layer.
    pub fn layers(&self) -> usize {
        self.n_layers + self.prediction_layers + 1
    }

    /// The shape of the model as the base of an adapter.
    fn base_shape(&self) -> BaseShape {
        BaseShape {
            architecture: self.architecture.name().to_owned(),
            layers: self.n_layers + self.prediction_layers,
            width: self.width,
            ffn_width: self.ffn_width,
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            vocab: self.vocab,
        }
    }

    /// Outputs and inputs of a linear of a layer.
    pub fn linear(&self, name: LinearName) -> [usize; 2] {
        self.base_shape().linear(name).into()
    }
}

/// Larger sizes mean a corrupt file.
const MAX_LAYERS: u32 = 4096;
const MAX_WIDTH: u32 = 1 << 20;

impl Config {
    /// Reads the keys documented by ggml
    /// (<https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>).
    ///
    /// # Errors
    /// If the architecture is unknown, or a key is missing, has another type or is out of range, or
    /// changes what the model computes in a way that is not supported.
    pub fn from_gguf(gguf: &GgufHeader) -> Result<Self, LoadError> {
        let name = gguf.architecture()?;
        let architecture = Architecture::named(name).ok_or_else(|| {
            let all = Architecture::list();
            let what = format!("Hearth does not support the architecture '{name}' yet, only {all}");
            LoadError::unsupported(gguf, &what)
        })?;
        let keys = Keys { gguf, architecture };
        let width = keys.required("embedding_length", MAX_WIDTH)?;
        let heads = keys.required("attention.head_count", MAX_WIDTH)?;
        let kv_heads = keys.optional("attention.head_count_kv", heads, MAX_WIDTH)?;
        let head_dim = keys.optional("attention.key_length", width / heads, MAX_WIDTH)?;
        if keys.optional("attention.value_length", head_dim, MAX_WIDTH)? != head_dim {
            return Err(LoadError::unsupported(gguf, "keys and values have different widths"));
        }
        if head_dim == 0 || head_dim % 2 != 0 || heads % kv_heads != 0 {
            return Err(keys.bad("attention.head_count", heads));
        }
        let rope_dims = keys.optional("rope.dimension_count", head_dim, MAX_WIDTH)?;
        if rope_dims > head_dim || rope_dims % 2 != 0 {
            return Err(keys.bad("rope.dimension_count", rope_dims));
        }
        let layers = keys.required("block_count", MAX_LAYERS)?;
        let prediction_layers = keys.prediction_layers(layers)?;
        let config = Self {
            n_layers: layers - prediction_layers,
            prediction_layers,
            width,
            ffn_width: keys.required("feed_forward_length", MAX_WIDTH)?,
            heads,
            kv_heads,
            head_dim,
            norm_eps: keys.positive("attention.layer_norm_rms_epsilon", 1e-5)?,
            rope_base: keys.positive("rope.freq_base", 10_000.0)?,
            rope_scale: keys.rope_scale()?,
            rope_dims,
            context_trained: keys.required("context_length", u32::MAX)?,
            vocab: vocab(gguf)?,
            name: model_name(gguf, architecture)?,
            architecture,
        };
        arch::check_keys(gguf, &config)?;
        Ok(config)
    }
}

/// The keys of an architecture in a file; `suffix` is a key without `ARCHITECTURE.`.
struct Keys<'a> {
    gguf: &'a GgufHeader,
    architecture: Architecture,
}

impl Keys<'_> {
    fn key(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.architecture)
    }

    fn bad(&self, suffix: &str, value: impl Display) -> LoadError {
        LoadError::bad_value(self.gguf, &self.key(suffix), value)
    }

    /// A number from 1 to `max`.
    fn required(&self, suffix: &str, max: u32) -> Result<usize, LoadError> {
        self.one_for_all_layers(suffix)?;
        self.in_range(suffix, self.gguf.required_u32(&self.key(suffix))?, max)
    }

    /// Refuses a list of values, one for each layer.
    fn one_for_all_layers(&self, suffix: &str) -> Result<(), LoadError> {
        let key = self.key(suffix);
        match self.gguf.metadata().get(&key) {
            Some(Value::Array(_)) => {
                let what = format!("Hearth does not support layers of different sizes yet, which it has in '{key}'");
                Err(LoadError::unsupported(self.gguf, &what))
            }
            _ => Ok(()),
        }
    }

    /// A number from 1 to `max`, or the default if the file has no such key.
    fn optional(&self, suffix: &str, default: usize, max: u32) -> Result<usize, LoadError> {
        self.one_for_all_layers(suffix)?;
        match self.gguf.u32(&self.key(suffix))? {
            None => Ok(default),
            Some(value) => self.in_range(suffix, value, max),
        }
    }

    fn in_range(&self, suffix: &str, value: u32, max: u32) -> Result<usize, LoadError> {
        if value == 0 || value > max {
            Err(self.bad(suffix, value))
        } else {
            Ok(value as usize)
        }
    }

    /// Layers for multi-token prediction, of `layers` in all.
    fn prediction_layers(&self, layers: usize) -> Result<usize, LoadError> {
        const KEY: &str = "nextn_predict_layers";
        match self.gguf.u32(&self.key(KEY))?.unwrap_or(0) as usize {
            fewer if fewer < layers => Ok(fewer),
            all if all == layers => {
                let what = "it has only the layers that predict several tokens ahead for a whole model";
                Err(LoadError::unsupported(self.gguf, what))
            }
            more => Err(self.bad(KEY, more)),
        }
    }

    /// A finite number above 0, or the default if the file has no such key.
    fn positive(&self, suffix: &str, default: f32) -> Result<f32, LoadError> {
        let value = self.gguf.f32(&self.key(suffix))?.unwrap_or(default);
        if value.is_finite() && value > 0.0 {
            Ok(value)
        } else {
            Err(self.bad(suffix, value))
        }
    }

    /// The divisor of positions in RoPE.
    fn rope_scale(&self) -> Result<f32, LoadError> {
        match self.gguf.str(&self.key("rope.scaling.type"))? {
            Some("none") => Ok(1.0),
            // As in llama.cpp: a factor without a type is linear, 0 means none, and files older
            // than the types have another key.
            None | Some("linear") => {
                let factor = match self.gguf.f32(&self.key("rope.scaling.factor"))? {
                    Some(_) => "rope.scaling.factor",
                    None => "rope.scale_linear",
                };
                match self.gguf.f32(&self.key(factor))? {
                    Some(0.0) => Ok(1.0),
                    _ => self.positive(factor, 1.0),
                }
            }
            Some(other) => {
                let what = format!("Hearth does not support its RoPE scaling method '{other}' yet");
                Err(LoadError::unsupported(self.gguf, &what))
            }
        }
    }
}

/// The vocabulary size: the rows of the embedding.
fn vocab(gguf: &GgufHeader) -> Result<usize, LoadError> {
    gguf.info("token_embd.weight")
        .and_then(|table| table.shape.get(1).copied())
        .and_then(|rows| usize::try_from(rows).ok())
        .filter(|rows| *rows > 0)
        .ok_or_else(|| LoadError::missing(gguf, "token_embd.weight"))
}

/// `general.name`, or the file name without extension.
fn model_name(gguf: &GgufHeader, architecture: Architecture) -> Result<String, LoadError> {
    let stem = || gguf.path().file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = gguf.str("general.name")?.map(str::to_owned);
    Ok(name.or_else(stem).unwrap_or_else(|| architecture.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_formats::gguf::{Gguf, GgufWriter, Metadata, TensorHeader, TensorType};

    /// The RoPE scale of a model file with these keys besides the required ones.
    fn rope_scale(kind: Option<&str>, factors: &[(&str, f32)]) -> Result<f32, LoadError> {
        let mut metadata = Metadata::new();
        metadata.insert("general.architecture", "llama");
        for key in [
            "block_count",
            "context_length",
            "feed_forward_length",
            "attention.head_count",
        ] {
            metadata.insert(format!("llama.{key}"), 4u32);
        }
        metadata.insert("llama.embedding_length", 32u32);
        if let Some(kind) = kind {
            metadata.insert("llama.rope.scaling.type", kind);
        }
        for (key, factor) in factors {
            metadata.insert(format!("llama.rope.{key}"), *factor);
        }
        let table = TensorHeader {
            name: "token_embd.weight".to_owned(),
            shape: vec![32, 2],
            kind: TensorType::F32,
        };
        let mut writer = GgufWriter::begin(Vec::new(), &metadata, &[table]).expect("a header");
        writer.tensor(&[0; 256]).expect("a tensor");
        let gguf = Gguf::from_bytes(writer.finish().expect("a file")).expect("it opens");
        Config::from_gguf(&gguf).map(|config| config.rope_scale)
    }

    #[test]
    fn rope_scaling_is_that_of_llama_cpp() {
        const FACTOR: &str = "scaling.factor";
        const OLD: &str = "scale_linear";
        for (kind, factors, expected) in [
            (None, &[][..], 1.0),
            (Some("none"), &[(FACTOR, 4.0)], 1.0),
            (Some("linear"), &[], 1.0),
            (Some("linear"), &[(FACTOR, 4.0)], 4.0),
            (Some("linear"), &[(FACTOR, 0.0)], 1.0),
            (None, &[(FACTOR, 4.0)], 4.0),
            (None, &[(FACTOR, 0.5)], 0.5),
            (None, &[(FACTOR, 0.0)], 1.0),
            (None, &[(OLD, 2.0)], 2.0),
            (Some("linear"), &[(OLD, 2.0)], 2.0),
            (None, &[(OLD, 0.0)], 1.0),
            // The old key is ignored if the new one is present, even if that is 0.
            (None, &[(FACTOR, 4.0), (OLD, 2.0)], 4.0),
            (None, &[(FACTOR, 0.0), (OLD, 2.0)], 1.0),
        ] {
            let actual = rope_scale(kind, factors).expect("a model");
            assert_eq!(actual, expected, "{kind:?} {factors:?}");
        }
    }

    #[test]
    fn invalid_rope_factors_are_refused_by_name() {
        for (kind, factors, says) in [
            (None, ("scaling.factor", -1.0), "rope.scaling.factor"),
            (None, ("scaling.factor", f32::NAN), "rope.scaling.factor"),
            (Some("linear"), ("scale_linear", f32::INFINITY), "rope.scale_linear"),
            (Some("yarn"), ("scaling.factor", 4.0), "yarn"),
        ] {
            let error = rope_scale(kind, &[factors]).expect_err("it is refused").to_string();
            assert!(error.contains(says), "{kind:?} {factors:?}: {error}");
        }
    }
}
