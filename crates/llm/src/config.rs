//! A model's hyperparameters, read from a GGUF's metadata and checked.

use crate::error::LoadError;
use hearth_formats::gguf::Gguf;

/// What every architecture has. What only one has is read by its own file under `models/`.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `general.architecture`: `llama`, `qwen2` and so on.
    pub architecture: String,
    /// `general.name`, or the file's.
    pub name: String,
    /// Blocks that a token goes through.
    pub n_layers: usize,
    /// Blocks behind them that predict further tokens. They are counted as layers and not loaded.
    pub prediction_blocks: usize,
    /// Width of the residual stream.
    pub width: usize,
    /// Width inside the feed-forward layer.
    pub ffn_width: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// RMSNorm's epsilon.
    pub norm_eps: f32,
    /// The base of the rotation's frequencies.
    pub rope_base: f32,
    /// Positions are divided by this (linear scaling); 1 means as they are.
    pub rope_scale: f32,
    /// How many numbers of a head are rotated.
    pub rope_dims: usize,
    /// Tokens the model was trained for.
    pub context_trained: usize,
    /// Tokens of the vocabulary.
    pub vocab: usize,
}

impl Config {
    /// Layers as `--gpu-layers` counts them: every block, and the output layer.
    pub fn layers(&self) -> usize {
        self.n_layers + self.prediction_blocks + 1
    }
}

/// Sizes beyond these are no model but a damaged file.
const MOST_LAYERS: u32 = 4096;
const WIDEST: u32 = 1 << 20;

impl Config {
    /// Reads the keys that llama.cpp's format documents
    /// (<https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>).
    ///
    /// # Errors
    /// A key is missing, of another type, or makes no sense.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, LoadError> {
        let architecture = gguf.architecture()?.to_owned();
        let key = |suffix: &str| format!("{architecture}.{suffix}");
        let required = |suffix: &str, most: u32| -> Result<usize, LoadError> {
            let value = gguf.required_u32(&key(suffix))?;
            if value == 0 || value > most {
                return Err(LoadError::bad_value(gguf, &key(suffix), value));
            }
            Ok(value as usize)
        };
        let optional = |suffix: &str, default: usize, most: u32| -> Result<usize, LoadError> {
            match gguf.u32(&key(suffix))? {
                None => Ok(default),
                Some(value) if value == 0 || value > most => Err(LoadError::bad_value(gguf, &key(suffix), value)),
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

        let width = required("embedding_length", WIDEST)?;
        let heads = required("attention.head_count", WIDEST)?;
        let kv_heads = optional("attention.head_count_kv", heads, WIDEST)?;
        let head_dim = optional("attention.key_length", width / heads, WIDEST)?;
        if optional("attention.value_length", head_dim, WIDEST)? != head_dim {
            return Err(LoadError::unsupported(
                gguf,
                "its keys and values have different widths",
            ));
        }
        if head_dim == 0 || head_dim % 2 != 0 || heads % kv_heads != 0 {
            return Err(LoadError::bad_value(gguf, &key("attention.head_count"), heads));
        }
        let rope_dims = optional("rope.dimension_count", head_dim, WIDEST)?;
        if rope_dims > head_dim || rope_dims % 2 != 0 {
            return Err(LoadError::bad_value(gguf, &key("rope.dimension_count"), rope_dims));
        }
        let rope_scale = match gguf.str(&key("rope.scaling.type"))? {
            Some("none") => 1.0,
            // As llama.cpp reads it: a factor without a type is a linear one, 0 stands for none,
            // and files from before there were types have another key.
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
                    &format!("its rotation is scaled by the method '{other}'"),
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
                .map_or_else(|| architecture.clone(), |stem| stem.to_string_lossy().into_owned()),
        };
        let blocks = required("block_count", MOST_LAYERS)?;
        let prediction_blocks = gguf.u32(&key("nextn_predict_layers"))?.unwrap_or(0) as usize;
        if prediction_blocks >= blocks {
            return Err(LoadError::bad_value(
                gguf,
                &key("nextn_predict_layers"),
                prediction_blocks,
            ));
        }
        Ok(Self {
            n_layers: blocks - prediction_blocks,
            prediction_blocks,
            width,
            ffn_width: required("feed_forward_length", WIDEST)?,
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

    /// The rotation's scale of a model whose file has these keys besides the ones that it must
    /// have.
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
    fn rotations_are_scaled_as_llama_cpp_scales_them() {
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
            // The old key counts only without the new one, even where that says nothing.
            (None, &[(FACTOR, 4.0), (OLD, 2.0)], 4.0),
            (None, &[(FACTOR, 0.0), (OLD, 2.0)], 1.0),
        ] {
            let found = rope_scale(kind, factors).expect("a model");
            assert_eq!(found, expected, "{kind:?} {factors:?}");
        }
    }

    #[test]
    fn factors_that_make_no_sense_are_refused_by_name() {
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
