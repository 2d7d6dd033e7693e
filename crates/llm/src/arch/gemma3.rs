//! Gemma 3: norms before and after attention and feed-forward, head norms, GeGLU, scaled
//! embeddings, and five sliding-window layers per full-attention layer.
//! <https://arxiv.org/abs/2503.19786>
//!
//! The norm weights in the file already include the "1 +" of the reference code.

use super::spec::{DecoderSpec, LayerSpec, NormName, RopeSpec};
use crate::config::Config;
use crate::error::LoadError;
use hearth_formats::gguf::{GgufHeader, Value};
use hearth_kernels::attention::Heads;
use hearth_kernels::glu::Activation;
use hearth_kernels::rope::Pairing;

/// The norms of a layer.
pub(super) const NORMS: &[NormName] = &NormName::ALL;

/// Every sixth layer has full attention, if the file does not say otherwise.
const PATTERN: u32 = 6;
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
        norms: NORMS,
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
    let layer = |is_local| if is_local { local.clone() } else { full.clone() };
    let is_local = match window {
        None => vec![false; config.n_layers],
        Some(_) => local_layers(gguf, config.n_layers)?,
    };
    Ok(DecoderSpec {
        embedding_scale: (config.width as f32).sqrt(),
        layers: is_local.into_iter().map(layer).collect(),
    })
}

/// Whether each layer has a window. The file says so for each layer, or has the number of layers
/// of which the last has full attention, where 0 means that none has.
fn local_layers(gguf: &GgufHeader, layers: usize) -> Result<Vec<bool>, LoadError> {
    let key = "gemma3.attention.sliding_window_pattern";
    let listed = match gguf.metadata().get(key) {
        Some(value @ Value::Array(_)) => value.numbers(),
        _ => None,
    };
    let Some(listed) = listed else {
        let pattern = gguf.u32(key)?.unwrap_or(PATTERN) as usize;
        let is_local = |layer: usize| pattern == 0 || layer % pattern + 1 < pattern;
        return Ok((0..layers).map(is_local).collect());
    };
    let listed: Vec<bool> = listed.take(layers).map(|is_local| is_local != 0.0).collect();
    match listed.len() {
        count if count == layers => Ok(listed),
        count => {
            let what = format!("'{key}' has {count} values for {layers} layers");
            Err(LoadError::unsupported(gguf, &what))
        }
    }
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
    use crate::arch::synthetic;
    use hearth_formats::Architecture;

    /// The scale of scores of a model of this many layers and query heads, and a width of 32.
    fn scale(layers: usize, heads: u32) -> Result<f32, LoadError> {
        let keys = [
            ("block_count", Value::U32(layers as u32)),
            ("embedding_length", Value::U32(32)),
            ("attention.head_count", Value::U32(heads)),
        ];
        let gguf = synthetic::gguf(Architecture::Gemma3, &keys, &[]);
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

    /// Whether each layer of a model of eight with this pattern has a window.
    fn windows(pattern: Option<Value>) -> Result<String, LoadError> {
        let mut keys = vec![
            ("block_count", Value::U32(8)),
            ("attention.sliding_window", Value::U32(4)),
        ];
        keys.extend(pattern.map(|pattern| ("attention.sliding_window_pattern", pattern)));
        let gguf = synthetic::gguf(Architecture::Gemma3, &keys, &[]);
        let spec = describe(&gguf, &Config::from_gguf(&gguf)?)?;
        let shown = |layer: &LayerSpec| if layer.heads.window.is_some() { 'w' } else { '-' };
        Ok(spec.layers.iter().map(shown).collect())
    }

    #[test]
    fn the_pattern_of_windows_is_that_of_llama_cpp() {
        let listed = |length| vec![true; length];
        for (pattern, expected) in [
            (None, "wwwww-ww"),
            (Some(Value::U32(6)), "wwwww-ww"),
            (Some(Value::U32(2)), "w-w-w-w-"),
            (Some(Value::U32(1)), "--------"),
            (Some(Value::U32(0)), "wwwwwwww"),
            (Some([false, true].repeat(4).into()), "-w-w-w-w"),
            (Some(listed(9).into()), "wwwwwwww"),
            (Some([1u32, 0].repeat(4).into()), "w-w-w-w-"),
        ] {
            assert_eq!(windows(pattern.clone()).expect("a model"), expected, "{pattern:?}");
        }
        for bad in [Value::from(listed(7)), Value::from("6"), Value::I32(-1)] {
            let error = windows(Some(bad)).expect_err("it is refused").to_string();
            assert!(error.contains("sliding_window_pattern"), "{error}");
        }
    }
}
