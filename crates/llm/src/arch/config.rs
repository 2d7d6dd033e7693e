//! A model's hyperparameters, read from the metadata of a GGUF file and checked.

use super::keys;
use crate::error::LoadError;
use hearth_formats::Architecture;
use hearth_formats::gguf::GgufHeader;
use hearth_formats::shape::{LayerShape, ModelShape};
use std::fmt::Display;

/// Hyperparameters common to all architectures. The file of an architecture reads further
/// ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `general.architecture`.
    pub architecture: Architecture,
    /// `general.name`, or the file name without extension.
    pub name: String,
    /// The shapes of the transformer layers.
    pub layer_shapes: Vec<LayerShape>,
    /// Number of further layers for multi-token prediction. They are counted, but not loaded.
    pub prediction_layers: usize,
    /// Width of the residual stream (hidden size).
    pub width: usize,
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
    /// The number of transformer layers.
    pub fn n_layers(&self) -> usize {
        self.layer_shapes.len()
    }

    /// The number of layers as `--gpu-layers` counts them: transformer layers, layers for
    /// multi-token prediction, and the output layer.
    pub fn layers(&self) -> usize {
        self.n_layers() + self.prediction_layers + 1
    }

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
        let ModelShape {
            width,
            vocab,
            layers: mut layer_shapes,
            prediction_layers,
        } = ModelShape::from_gguf(gguf, architecture)?;
        if vocab == 0 {
            return Err(LoadError::missing(gguf, "token_embd.weight"));
        }
        if prediction_layers == layer_shapes.len() {
            let what = "it has only the layers that predict several tokens ahead for a whole model";
            return Err(LoadError::unsupported(gguf, what));
        }
        layer_shapes.truncate(layer_shapes.len() - prediction_layers);
        let attention = layer_shapes.iter().filter_map(LayerShape::attention);
        let head_dim = attention.map(|attention| attention.head_dim).min().unwrap_or(0);
        keys.check_value_width(head_dim)?;
        let config = Self {
            prediction_layers,
            width,
            norm_eps: keys.positive("attention.layer_norm_rms_epsilon", 1e-5)?,
            rope_base: keys.positive("rope.freq_base", 10_000.0)?,
            rope_scale: keys.rope_scale()?,
            rope_dims: keys.rope_dims(head_dim)?,
            context_trained: keys.context_trained()?,
            vocab,
            name: model_name(gguf, architecture)?,
            architecture,
            layer_shapes,
        };
        keys::check(gguf, &config)?;
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

    /// The context length in training.
    fn context_trained(&self) -> Result<usize, LoadError> {
        const KEY: &str = "context_length";
        match self.gguf.required_u32(&self.key(KEY))? {
            0 => Err(self.bad(KEY, 0)),
            context => Ok(context as usize),
        }
    }

    /// Refuses values of another width than keys.
    fn check_value_width(&self, head_dim: usize) -> Result<(), LoadError> {
        match self.gguf.u32(&self.key("attention.value_length"))? {
            Some(width) if width as usize != head_dim => Err(LoadError::unsupported(
                self.gguf,
                "keys and values have different widths",
            )),
            _ => Ok(()),
        }
    }

    /// The elements of a head that RoPE rotates.
    fn rope_dims(&self, head_dim: usize) -> Result<usize, LoadError> {
        const KEY: &str = "rope.dimension_count";
        match self.gguf.u32(&self.key(KEY))? {
            None => Ok(head_dim),
            Some(dims) if dims == 0 || dims as usize > head_dim || dims % 2 != 0 => Err(self.bad(KEY, dims)),
            Some(dims) => Ok(dims as usize),
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
