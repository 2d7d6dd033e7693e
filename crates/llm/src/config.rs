//! A model's hyperparameters, read from a GGUF's metadata and checked.

use crate::error::LoadError;
use hearth_formats::Architecture;
use hearth_formats::adapter::{BaseShape, LinearName};
use hearth_formats::gguf::Gguf;

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
    /// If the architecture is unknown, or a key is missing, has another type or is out of range.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, LoadError> {
        let name = gguf.architecture()?;
        let architecture = Architecture::named(name).ok_or_else(|| {
            let all = Architecture::list();
            let what = format!("Hearth does not support the architecture '{name}' yet, only {all}");
            LoadError::unsupported(gguf, &what)
        })?;
        let key = |suffix: &str| format!("{architecture}.{suffix}");
        let required = |suffix: &str, max: u32| -> Result<usize, LoadError> {
            let value = gguf.required_u32(&key(suffix))?;
            if value == 0 || value > max {
                return Err(LoadError::bad_value(gguf, &key(suffix), value));
            }
            Ok(value as usize)
        };
        let optional = |suffix: &str, default: usize, max: u32| -> Result<usize, LoadError> {
            match gguf.u32(&key(suffix))? {
                None => Ok(default),
                Some(value) if value == 0 || value > max => Err(LoadError::bad_value(gguf, &key(suffix), value)),
                Some(value) => Ok(value as usize),
            }
        };
        let positive = |suffix: &str, default: f32| -> Result<f32, LoadError> {
            let value = gguf.f32(&key(suffix))?.unwrap_or(default);
            if !value.is_finite() || value <= 0.0 {
                return Err(LoadError::bad_value(gguf, &key(suffix), value));
            }
            Ok(value)
        };

        let width = required("embedding_length", MAX_WIDTH)?;
        let heads = required("attention.head_count", MAX_WIDTH)?;
        let kv_heads = optional("attention.head_count_kv", heads, MAX_WIDTH)?;
        let head_dim = optional("attention.key_length", width / heads, MAX_WIDTH)?;
        if optional("attention.value_length", head_dim, MAX_WIDTH)? != head_dim {
            return Err(LoadError::unsupported(gguf, "keys and values have different widths"));
        }
        if head_dim == 0 || head_dim % 2 != 0 || heads % kv_heads != 0 {
            return Err(LoadError::bad_value(gguf, &key("attention.head_count"), heads));
        }
        let rope_dims = optional("rope.dimension_count", head_dim, MAX_WIDTH)?;
        if rope_dims > head_dim || rope_dims % 2 != 0 {
            return Err(LoadError::bad_value(gguf, &key("rope.dimension_count"), rope_dims));
        }
        let rope_scale = match gguf.str(&key("rope.scaling.type"))? {
            Some("none") => 1.0,
            // As in llama.cpp: a factor without a type is linear, 0 means none, and files older
            // than the types have another key.
            None | Some("linear") => {
                let factor = match gguf.f32(&key("rope.scaling.factor"))? {
                    Some(_) => "rope.scaling.factor",
                    None => "rope.scale_linear",
                };
                match gguf.f32(&key(factor))? {
                    Some(0.0) => 1.0,
                    _ => positive(factor, 1.0)?,
                }
            }
            Some(other) => {
                return Err(LoadError::unsupported(
                    gguf,
                    &format!("Hearth does not support its RoPE scaling method '{other}' yet"),
                ));
            }
        };
        let vocab = gguf
            .tensor("token_embd.weight")
            .and_then(|table| table.info.shape.get(1).copied())
            .and_then(|rows| usize::try_from(rows).ok())
            .filter(|rows| *rows > 0)
            .ok_or_else(|| LoadError::missing(gguf, "token_embd.weight"))?;
        let name = match gguf.str("general.name")? {
            Some(name) => name.to_owned(),
            None => gguf
                .path()
                .file_stem()
                .map_or_else(|| architecture.to_string(), |stem| stem.to_string_lossy().into_owned()),
        };
        let layers = required("block_count", MAX_LAYERS)?;
        let prediction_layers = gguf.u32(&key("nextn_predict_layers"))?.unwrap_or(0) as usize;
        if prediction_layers >= layers {
            return Err(LoadError::bad_value(
                gguf,
                &key("nextn_predict_layers"),
                prediction_layers,
            ));
        }
        Ok(Self {
            n_layers: layers - prediction_layers,
            prediction_layers,
            width,
            ffn_width: required("feed_forward_length", MAX_WIDTH)?,
            heads,
            kv_heads,
            head_dim,
            norm_eps: positive("attention.layer_norm_rms_epsilon", 1e-5)?,
            rope_base: positive("rope.freq_base", 10_000.0)?,
            rope_scale,
            rope_dims,
            context_trained: required("context_length", u32::MAX)?,
            vocab,
            name,
            architecture,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_formats::gguf::{GgufWriter, Metadata, TensorHeader, TensorType};

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
            let found = rope_scale(kind, factors).expect("a model");
            assert_eq!(found, expected, "{kind:?} {factors:?}");
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
