//! A model's hyperparameters, read from the metadata of a GGUF file and checked.

use crate::arch;
use crate::error::LoadError;
use hearth_formats::Architecture;
use hearth_formats::adapter::{BaseShape, LinearName};
use hearth_formats::gguf::{GgufHeader, Value};
use std::cmp::Ordering;
use std::fmt::Display;

/// Hyperparameters common to all architectures. The file of an architecture in `arch/` reads
/// further ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `general.architecture`.
    pub architecture: Architecture,
    /// `general.name`, or the file name without extension.
    pub name: String,
    /// Number of transformer layers.
    pub n_layers: usize,
    /// Number of further layers for multi-token prediction. They are counted, but not loaded.
    pub prediction_layers: usize,
    /// Width of the residual stream (hidden size).
    pub width: usize,
    /// Hidden width of the feed-forward.
    pub ffn_width: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of KV heads.
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
    /// The number of layers as `--gpu-layers` counts them: transformer layers, layers for
    /// multi-token prediction, and the output layer.
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

    /// The numbers of outputs and inputs of a linear layer.
    pub fn linear(&self, name: LinearName) -> [usize; 2] {
        self.base_shape().linear(name).into()
    }
}

/// Maximum layers. A higher number means a corrupt file.
const MAX_LAYERS: u32 = 4096;
/// Maximum widths and head counts. A higher number means a corrupt file.
const MAX_WIDTH: u32 = 1 << 20;

impl Config {
    /// Reads the keys documented by ggml
    /// (<https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>).
    ///
    /// # Errors
    /// If the architecture is unknown, or a key is missing, has another type, is out of range, or
    /// requires a computation that is not supported.
    pub fn from_gguf(gguf: &GgufHeader) -> Result<Self, LoadError> {
        let name = gguf.architecture()?;
        let architecture = Architecture::named(name).ok_or_else(|| {
            let supported = Architecture::list();
            let what = format!("Hearth does not support the architecture '{name}' yet, only {supported}");
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
        self.refuse_list(suffix)?;
        self.in_range(suffix, self.gguf.required_u32(&self.key(suffix))?, max)
    }

    /// Refuses a key with a list of values, one for each layer.
    fn refuse_list(&self, suffix: &str) -> Result<(), LoadError> {
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
        self.refuse_list(suffix)?;
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

    /// The number of layers for multi-token prediction among all `layers`.
    fn prediction_layers(&self, layers: usize) -> Result<usize, LoadError> {
        const KEY: &str = "nextn_predict_layers";
        let count = self.gguf.u32(&self.key(KEY))?.unwrap_or(0) as usize;
        match count.cmp(&layers) {
            Ordering::Less => Ok(count),
            Ordering::Equal => {
                let what = "it has only the layers that predict several tokens ahead for a whole model";
                Err(LoadError::unsupported(self.gguf, what))
            }
            Ordering::Greater => Err(self.bad(KEY, count)),
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
            // As in llama.cpp: a factor without a type is linear, a factor of 0 means no scaling,
            // and old files have the key `rope.scale_linear`.
            None | Some("linear") => {
                let suffix = match self.gguf.f32(&self.key("rope.scaling.factor"))? {
                    Some(_) => "rope.scaling.factor",
                    None => "rope.scale_linear",
                };
                match self.gguf.f32(&self.key(suffix))? {
                    Some(0.0) => Ok(1.0),
                    _ => self.positive(suffix, 1.0),
                }
            }
            Some(method) => {
                let what = format!("Hearth does not support its RoPE scaling method '{method}' yet");
                Err(LoadError::unsupported(self.gguf, &what))
            }
        }
    }
}

/// The vocabulary size, which is the number of rows of the embedding.
fn vocab(gguf: &GgufHeader) -> Result<usize, LoadError> {
    gguf.info("token_embd.weight")
        .and_then(|embedding| embedding.shape.get(1).copied())
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

    /// The RoPE scale of a model file with the required keys, this scaling method and these scaling
    /// keys.
    fn rope_scale(method: Option<&str>, factors: &[(&str, f32)]) -> Result<f32, LoadError> {
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
        if let Some(method) = method {
            metadata.insert("llama.rope.scaling.type", method);
        }
        for (key, factor) in factors {
            metadata.insert(format!("llama.rope.{key}"), *factor);
        }
        let embedding = TensorHeader {
            name: "token_embd.weight".to_owned(),
            shape: vec![32, 2],
            kind: TensorType::F32,
        };
        let mut writer = GgufWriter::begin(Vec::new(), &metadata, &[embedding]).expect("a header");
        writer.tensor(&[0; 256]).expect("a tensor");
        let gguf = Gguf::from_bytes(writer.finish().expect("a file")).expect("it opens");
        Config::from_gguf(&gguf).map(|config| config.rope_scale)
    }

    #[test]
    fn rope_scaling_is_that_of_llama_cpp() {
        const FACTOR: &str = "scaling.factor";
        const OLD_FACTOR: &str = "scale_linear";
        for (method, factors, expected) in [
            (None, &[][..], 1.0),
            (Some("none"), &[(FACTOR, 4.0)], 1.0),
            (Some("linear"), &[], 1.0),
            (Some("linear"), &[(FACTOR, 4.0)], 4.0),
            (Some("linear"), &[(FACTOR, 0.0)], 1.0),
            (None, &[(FACTOR, 4.0)], 4.0),
            (None, &[(FACTOR, 0.5)], 0.5),
            (None, &[(FACTOR, 0.0)], 1.0),
            (None, &[(OLD_FACTOR, 2.0)], 2.0),
            (Some("linear"), &[(OLD_FACTOR, 2.0)], 2.0),
            (None, &[(OLD_FACTOR, 0.0)], 1.0),
            // The old key is ignored if the new one is present, even if that is 0.
            (None, &[(FACTOR, 4.0), (OLD_FACTOR, 2.0)], 4.0),
            (None, &[(FACTOR, 0.0), (OLD_FACTOR, 2.0)], 1.0),
        ] {
            let actual = rope_scale(method, factors).expect("a model");
            assert_eq!(actual, expected, "{method:?} {factors:?}");
        }
    }

    #[test]
    fn invalid_rope_factors_are_refused_by_name() {
        for (method, factor, expected) in [
            (None, ("scaling.factor", -1.0), "rope.scaling.factor"),
            (None, ("scaling.factor", f32::NAN), "rope.scaling.factor"),
            (Some("linear"), ("scale_linear", f32::INFINITY), "rope.scale_linear"),
            (Some("yarn"), ("scaling.factor", 4.0), "yarn"),
        ] {
            let error = rope_scale(method, &[factor]).expect_err("it is refused").to_string();
            assert!(error.contains(expected), "{method:?} {factor:?}: {error}");
        }
    }
}
