//! A model's hyperparameters, read from the metadata of a GGUF file and checked.

use super::keys;
use super::{RopeFactors, RopeKeys, RopeScaling};
use crate::error::LoadError;
use crate::header_keys::HeaderKeys;
use hearth_formats::Architecture;
use hearth_formats::gguf::GgufHeader;
use hearth_formats::shape::{LayerShape, ModelShape};

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
    /// The change of RoPE's frequencies for a longer context.
    pub rope_scaling: RopeScaling,
    /// The tensors with the divisors of RoPE's frequencies, in an architecture that has them.
    pub rope_factors: RopeFactors,
    /// Factor of RoPE's sines and cosines, besides the factor in [`Config::rope_scaling`].
    pub rope_magnitude: f32,
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
        let architecture =
            Architecture::named(name).ok_or_else(|| LoadError::unsupported(gguf, &Architecture::unsupported(name)))?;
        let keys = HeaderKeys { gguf, architecture };
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
        let context_trained = keys.context_trained()?;
        let rope_base = keys.positive("rope.freq_base", 10_000.0)?;
        let RopeKeys {
            scaling: rope_scaling,
            factors: rope_factors,
            magnitude: rope_magnitude,
        } = keys.rope(rope_base, context_trained)?;
        let config = Self {
            prediction_layers,
            width,
            norm_eps: keys.positive("attention.layer_norm_rms_epsilon", 1e-5)?,
            rope_base,
            rope_scaling,
            rope_factors,
            rope_magnitude,
            rope_dims: keys.rope_dims(head_dim)?,
            context_trained,
            vocab,
            name: model_name(gguf, architecture)?,
            architecture,
            layer_shapes,
        };
        keys::check(gguf, &config)?;
        Ok(config)
    }
}

impl HeaderKeys<'_> {
    /// The context length in training.
    fn context_trained(&self) -> Result<usize, LoadError> {
        const KEY: &str = "context_length";
        match self.gguf.required_u32(&self.key(KEY))? {
            0 => Err(self.bad(KEY, 0, "at least 1")),
            context => Ok(context as usize),
        }
    }

    /// Refuses values of another width than keys.
    fn check_value_width(&self, head_dim: usize) -> Result<(), LoadError> {
        let key = self.key("attention.value_length");
        match self.gguf.u32(&key)? {
            Some(width) if width as usize != head_dim => {
                let what = format!(
                    "keys and values have different widths: its '{key}' is {width}, and its keys have a width of \
                     {head_dim}"
                );
                Err(LoadError::unsupported(self.gguf, &what))
            }
            _ => Ok(()),
        }
    }

    /// The elements of a head that RoPE rotates.
    fn rope_dims(&self, head_dim: usize) -> Result<usize, LoadError> {
        const KEY: &str = "rope.dimension_count";
        match self.gguf.u32(&self.key(KEY))? {
            None => Ok(head_dim),
            Some(dims) if dims == 0 || dims as usize > head_dim || dims % 2 != 0 => Err(self.bad(
                KEY,
                dims,
                &format!("even and from 2 to {head_dim}, the width of a head"),
            )),
            Some(dims) => Ok(dims as usize),
        }
    }
}

/// `general.name`, or the file name without extension.
fn model_name(gguf: &GgufHeader, architecture: Architecture) -> Result<String, LoadError> {
    let stem = || gguf.path().file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = gguf.str("general.name")?.map(str::to_owned);
    Ok(name.or_else(stem).unwrap_or_else(|| architecture.to_string()))
}
