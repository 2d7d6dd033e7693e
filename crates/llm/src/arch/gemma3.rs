//! Gemma 3: norms before and after attention and feed-forward, head norms, GeGLU, scaled
//! embeddings, and five sliding-window layers per full-attention layer.
//! <https://arxiv.org/abs/2503.19786>
//!
//! The norm weights in the file already include the "1 +" of the reference code.

use super::spec::{DecoderSpec, LayerSpec, NormName, RopeSpec};
use crate::config::Config;
use crate::error::LoadError;
use hearth_formats::gguf::GgufHeader;
use hearth_kernels::attention::Heads;
use hearth_kernels::glu::Activation;
use hearth_kernels::rope::Pairing;

/// Every sixth layer has full attention.
const PATTERN: usize = 6;
/// RoPE base of sliding-window layers.
const LOCAL_ROPE_BASE: f32 = 10_000.0;
/// The number of layers that identifies the 27B model; it alone scales scores by width / heads.
const LAYERS_OF_27B: usize = 62;

pub(super) fn describe(gguf: &GgufHeader, config: &Config) -> Result<DecoderSpec, LoadError> {
    let plain = LayerSpec::plain(config, Pairing::Halves);
    let per_head = match config.n_layers {
        LAYERS_OF_27B => config.width / config.heads,
        _ => config.head_dim,
    };
    if per_head == 0 {
        return Err(LoadError::bad_value(gguf, "gemma3.attention.head_count", config.heads));
    }
    let full = LayerSpec {
        heads: Heads {
            scale: (per_head as f32).sqrt().recip(),
            ..plain.heads
        },
        norms: &NormName::ALL,
        activation: Activation::GeluTanh,
        ..plain
    };
    let window = gguf
        .u32("gemma3.attention.sliding_window")?
        .filter(|window| *window > 0);
    let local = match window {
        None => full.clone(),
        Some(window) => LayerSpec {
            heads: Heads {
                window: Some(window as usize),
                ..full.heads
            },
            rope: RopeSpec {
                base: local_rope_base(gguf)?,
                scale: 1.0,
                ..full.rope
            },
            ..full.clone()
        },
    };
    let layer = |layer: usize| match (layer + 1).is_multiple_of(PATTERN) {
        true => full.clone(),
        false => local.clone(),
    };
    Ok(DecoderSpec {
        embedding_scale: (config.width as f32).sqrt(),
        layers: (0..config.n_layers).map(layer).collect(),
    })
}

fn local_rope_base(gguf: &GgufHeader) -> Result<f32, LoadError> {
    let key = "gemma3.rope.freq_base_swa";
    match gguf.f32(key)? {
        None => Ok(LOCAL_ROPE_BASE),
        Some(base) if base.is_finite() && base > 0.0 => Ok(base),
        Some(base) => Err(LoadError::bad_value(gguf, key, base)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_formats::gguf::{Gguf, GgufWriter, Metadata, TensorHeader, TensorType};

    /// The scale of scores of a model of this many layers and query heads, and a width of 32.
    fn scale(layers: usize, heads: u32) -> Result<f32, LoadError> {
        let mut metadata = Metadata::new();
        metadata.insert("general.architecture", "gemma3");
        for (key, value) in [
            ("block_count", layers as u32),
            ("context_length", 8),
            ("embedding_length", 32),
            ("feed_forward_length", 8),
            ("attention.head_count", heads),
            ("attention.key_length", 4),
            ("attention.value_length", 4),
        ] {
            metadata.insert(format!("gemma3.{key}"), value);
        }
        let table = TensorHeader {
            name: "token_embd.weight".to_owned(),
            shape: vec![32, 2],
            kind: TensorType::F32,
        };
        let mut writer = GgufWriter::begin(Vec::new(), &metadata, &[table]).expect("a header");
        writer.tensor(&[0; 256]).expect("a tensor");
        let gguf = Gguf::from_bytes(writer.finish().expect("a file")).expect("it opens");
        let spec = describe(&gguf, &Config::from_gguf(&gguf)?)?;
        Ok(spec.layers[0].heads.scale)
    }

    #[test]
    fn scores_have_a_finite_scale() {
        assert_eq!(scale(1, 64).expect("a model"), 0.5);
        assert_eq!(scale(LAYERS_OF_27B, 2).expect("a model"), 0.25);
        for (layers, heads) in [(1, 0), (LAYERS_OF_27B, 0), (LAYERS_OF_27B, 33)] {
            let error = scale(layers, heads).expect_err("it is refused").to_string();
            assert!(error.contains("head_count"), "{error}");
        }
    }
}
