//! Checks the tensors of a file: some are used, some are skipped, and all others are refused, since
//! a model that has them computes something else.

use super::config::Config;
use super::spec::{DecoderSpec, LayerSpec};
use crate::error::LoadError;
use hearth_formats::gguf::GgufHeader;
use hearth_formats::shape::{FusedLinear, LinearName};
use hearth_formats::shortened;

/// Tensors outside of layers that are used if the file has them.
const MODEL_TENSORS: [&str; 5] = [
    "token_embd.weight",
    "output_norm.weight",
    "output.weight",
    "output.bias",
    "output.scale",
];
/// The last parts of the names of a linear layer's tensors. `input_scale` is for activations in
/// NVFP4. It is skipped, since Hearth does not quantize activations to NVFP4.
const LINEAR_TENSORS: [&str; 4] = ["weight", "bias", "scale", "input_scale"];
/// Heads for ranking and text embedding, which generation does not run.
const SKIPPED_HEADS: [&str; 5] = ["cls", "cls.output", "cls.norm", "dense_2", "dense_3"];
/// Precomputed RoPE frequencies of old files. They follow from the metadata.
const ROPE_FREQUENCIES: &str = "attn_rot_embd.weight";

/// Refuses a file with a tensor that is neither used nor skipped.
pub(super) fn check(gguf: &GgufHeader, config: &Config, spec: &DecoderSpec) -> Result<(), LoadError> {
    for tensor in gguf.tensors() {
        if !is_known(gguf, &tensor.name, config, spec) {
            return Err(refusal(gguf, config, &tensor.name));
        }
    }
    Ok(())
}

fn is_known(gguf: &GgufHeader, name: &str, config: &Config, spec: &DecoderSpec) -> bool {
    match layer_and_suffix(name) {
        None => is_known_model_tensor(name, spec),
        Some((layer, suffix)) if layer < config.n_layers() => is_known_layer_tensor(gguf, suffix, layer, config, spec),
        // Layers for multi-token prediction are not loaded.
        Some((layer, _)) => layer < config.n_layers() + config.prediction_layers,
    }
}

/// Splits `blk.LAYER.SUFFIX`.
fn layer_and_suffix(name: &str) -> Option<(usize, &str)> {
    let (number, suffix) = name.strip_prefix("blk.")?.split_once('.')?;
    let layer: usize = number.parse().ok()?;
    // Rust also parses `+1` and `01`, but no layer reads such names.
    (layer.to_string() == number).then_some((layer, suffix))
}

fn is_known_model_tensor(name: &str, spec: &DecoderSpec) -> bool {
    let base = name.strip_suffix(".weight").or_else(|| name.strip_suffix(".bias"));
    MODEL_TENSORS.contains(&name)
        || base.is_some_and(|base| SKIPPED_HEADS.contains(&base))
        || name == "output.input_scale"
        || spec.ropes().iter().any(|rope| rope.factors.tensors().contains(&name))
}

fn is_known_layer_tensor(gguf: &GgufHeader, suffix: &str, layer: usize, config: &Config, spec: &DecoderSpec) -> bool {
    if suffix == ROPE_FREQUENCIES {
        return true;
    }
    let Some((name, part)) = suffix.rsplit_once('.') else {
        return false;
    };
    let LayerSpec { shape, norms, .. } = &spec.layers[layer];
    let is_norm = norms.lengths(shape).iter().any(|(norm, _)| *norm == name);
    let is_of = |linear| {
        let fused = config.architecture.fused_in(gguf, layer, linear);
        is_of_linear(name, part, linear, fused) || is_separate_bias(gguf, layer, name, part, linear, fused)
    };
    is_norm && part == "weight" || shape.linears().any(|(linear, _)| is_of(linear))
}

/// Whether `NAME.PART` is a tensor of a linear, or of the fused linear that the file has in its
/// place.
fn is_of_linear(name: &str, part: &str, linear: LinearName, fused: Option<FusedLinear>) -> bool {
    name == fused.map_or(linear.gguf(), FusedLinear::gguf) && LINEAR_TENSORS.contains(&part)
}

/// Whether `NAME.PART` is the separate bias of queries, keys or values with a fused weight, which
/// has no bias. llama.cpp reads such files.
fn is_separate_bias(
    gguf: &GgufHeader,
    layer: usize,
    name: &str,
    part: &str,
    linear: LinearName,
    fused: Option<FusedLinear>,
) -> bool {
    let is_bias = part == "bias" && name == linear.gguf() && fused == Some(FusedLinear::AttnQkv);
    is_bias && gguf.info(&format!("blk.{layer}.attn_qkv.bias")).is_none()
}

/// Prefixes of the tensors of an image encoder and its projector.
const VISION_PREFIXES: [&str; 2] = ["v.", "mm."];

/// Maximum characters of a name in a message.
const MAX_NAME_CHARACTERS: usize = 80;

fn refusal(gguf: &GgufHeader, config: &Config, name: &str) -> LoadError {
    let architecture = config.architecture;
    let layers = config.n_layers() + config.prediction_layers;
    let is_beyond = layer_and_suffix(name).is_some_and(|(layer, _)| layer >= layers);
    let is_vision = VISION_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let name = shortened(name, MAX_NAME_CHARACTERS);
    let what = if is_vision {
        format!(
            "it has a part for images ('{name}') in the same file, as files of Ollama have, and Hearth needs the model \
             alone"
        )
    } else if is_beyond {
        format!("it has the tensor '{name}', but only {layers} layers by its '{architecture}.block_count'")
    } else {
        format!("Hearth does not know what its tensor '{name}' does in the architecture '{architecture}'")
    };
    LoadError::unsupported(gguf, &what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::{describe, synthetic};
    use hearth_formats::Architecture::{self, Gemma2, Gemma3, Llama, Mistral3, Olmo2, Phi3, Qwen2, Qwen3, SmolLm3};
    use hearth_formats::gguf::Value;

    /// The error of a two-layer model with this tensor; `None` if it is supported. The last
    /// `prediction_layers` of the two are for multi-token prediction.
    fn refusal(architecture: Architecture, prediction_layers: u32, tensor: &str) -> Option<String> {
        let keys = [("nextn_predict_layers", Value::U32(prediction_layers))];
        let gguf = synthetic::gguf(architecture, &keys, &[tensor]);
        let config = Config::from_gguf(&gguf).expect("a model");
        describe(&gguf, &config).err().map(|error| error.to_string())
    }

    #[test]
    fn tensors_that_are_used_or_needless_are_accepted() {
        for (architecture, tensor) in [
            (Llama, "rope_freqs.weight"),
            (Llama, "blk.0.attn_rot_embd.weight"),
            (Llama, "blk.1.ffn_down.input_scale"),
            (Llama, "blk.1.ffn_down.scale"),
            (Llama, "output.input_scale"),
            (Qwen2, "blk.0.attn_q.bias"),
            (Qwen2, "output.bias"),
            (Qwen3, "blk.0.attn_q_norm.weight"),
            (Qwen3, "cls.output.weight"),
            (Gemma3, "blk.1.post_ffw_norm.weight"),
            (Gemma3, "dense_2.weight"),
            (Llama, "blk.0.attn_qkv.weight"),
            (Phi3, "blk.0.attn_qkv.weight"),
            (Phi3, "blk.0.ffn_up.weight"),
            (Phi3, "rope_factors_long.weight"),
            (Mistral3, "rope_freqs.weight"),
            (Olmo2, "blk.0.attn_q_norm.weight"),
            (Gemma2, "blk.0.post_attention_norm.weight"),
        ] {
            assert_eq!(refusal(architecture, 0, tensor), None, "{architecture} {tensor}");
        }
        assert_eq!(refusal(Qwen3, 1, "blk.1.nextn.eh_proj.weight"), None);
    }

    #[test]
    fn longrope_replaces_the_divisors_of_llama_3() {
        let refusal = |tensor: &str| {
            let keys = [("rope.scaling.type", Value::from("longrope"))];
            let gguf = synthetic::gguf(Llama, &keys, &[tensor]);
            let config = Config::from_gguf(&gguf).expect("a model");
            describe(&gguf, &config).err().map(|error| error.to_string())
        };
        for tensor in ["rope_factors_long.weight", "rope_factors_short.weight"] {
            assert_eq!(refusal(tensor), None, "{tensor}");
        }
        let error = refusal("rope_freqs.weight").unwrap_or_default();
        assert!(error.contains("rope_freqs.weight"), "{error}");
    }

    #[test]
    fn other_tensors_are_refused_by_name() {
        for (architecture, tensor) in [
            (Llama, "blk.0.attn_q_norm.weight"),
            (Llama, "blk.0.attn_qkv.bias"),
            (Llama, "blk.0.attn_sinks.weight"),
            (Llama, "blk.0.ffn_gate_exps.weight"),
            (Llama, "blk.0.attn_norm.bias"),
            (Llama, "blk.0.attn_q.other"),
            (Llama, "blk.01.attn_q.weight"),
            (Llama, "blk.+1.attn_q.weight"),
            (Llama, "blk.0"),
            (Llama, "rope_factors_long.weight"),
            (Llama, "token_embd_norm.weight"),
            (Llama, "token_embd.scale"),
            // llama.cpp divides by these in the architecture llama only.
            (Qwen2, "rope_freqs.weight"),
            (Gemma3, "rope_freqs.weight"),
            (Gemma3, "per_layer_token_embd.weight"),
            (Phi3, "blk.0.ffn_gate.weight"),
            (Phi3, "rope_freqs.weight"),
            (SmolLm3, "rope_freqs.weight"),
            (Gemma2, "blk.0.attn_q_norm.weight"),
            (Olmo2, "blk.0.attn_norm.weight"),
            (Olmo2, "blk.0.ffn_norm.weight"),
        ] {
            let error = refusal(architecture, 0, tensor).unwrap_or_default();
            assert!(
                error.contains(tensor) && error.contains("does not know"),
                "{tensor}: {error}"
            );
        }
        let vision = refusal(Gemma3, 0, "v.blk.0.attn_k.weight").unwrap_or_default();
        assert!(vision.contains("files of Ollama"), "{vision}");
        let beyond = refusal(Llama, 0, "blk.2.attn_q.weight").unwrap_or_default();
        assert!(beyond.contains("only 2 layers by its 'llama.block_count'"), "{beyond}");
    }

    /// The error of a model whose first layer has these tensors.
    fn refusal_of(architecture: Architecture, tensors: &[&str]) -> Option<String> {
        let tensors: Vec<String> = tensors.iter().map(|name| format!("blk.0.{name}")).collect();
        let names: Vec<&str> = tensors.iter().map(String::as_str).collect();
        let gguf = synthetic::gguf(architecture, &[], &names);
        let config = Config::from_gguf(&gguf).expect("a model");
        describe(&gguf, &config).err().map(|error| error.to_string())
    }

    #[test]
    fn a_linear_is_fused_or_separate() {
        for (architecture, tensors, refused) in [
            (Qwen2, &["attn_qkv.weight", "attn_q.bias", "attn_v.bias"][..], None),
            (Qwen2, &["attn_qkv.weight", "attn_qkv.bias", "attn_qkv.scale"], None),
            (
                Qwen2,
                &["attn_qkv.weight", "attn_qkv.bias", "attn_q.bias"],
                Some("attn_q.bias"),
            ),
            (Llama, &["attn_qkv.weight", "attn_q.weight"], Some("attn_q.weight")),
            (Phi3, &["attn_qkv.weight", "attn_k.weight"], Some("attn_k.weight")),
            (Phi3, &["attn_q.weight", "attn_k.weight", "attn_v.weight"], None),
            (Llama, &["attn_qkv.weight", "ffn_gate.weight", "ffn_up.bias"], None),
            (Phi3, &["ffn_up.bias", "ffn_gate.bias"], Some("ffn_gate.bias")),
        ] {
            let error = refusal_of(architecture, tensors);
            match refused {
                None => assert_eq!(error, None, "{architecture} {tensors:?}"),
                Some(name) => assert!(error.is_some_and(|error| error.contains(name)), "{tensors:?}"),
            }
        }
    }
}
