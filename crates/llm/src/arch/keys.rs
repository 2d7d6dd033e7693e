//! The metadata keys of an architecture: those that Hearth reads, those that change nothing, and
//! those that are refused, since a model that needs them would silently compute something else.
//!
//! The names are from llama.cpp's `llama-arch.cpp`; `keys.txt` lists them.

use super::config::Config;
use super::neutral::{self, Neutral};
use crate::error::LoadError;
use Neutral::{HeadDim, Number, RopeBase, RopeDims, ScoreScale, Text, WholeContext, Width, WithoutYarn};
use Rule::{Harmless, Only, Read};
use hearth_formats::gguf::{GgufHeader, Value};
use hearth_formats::{Architecture, shortened};

/// The effect of a key on an architecture.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rule {
    /// Hearth reads it.
    Read,
    /// It does not change what the layers compute.
    Harmless,
    /// It changes what the layers compute, in a way that Hearth does not support; with one of these
    /// values it changes nothing.
    Only(&'static [Neutral]),
}

/// A count or a switch of a feature that is absent if it is 0.
const ZERO: Rule = Only(&[Number(0.0)]);
/// A factor. As in llama.cpp, 0 means that it is not set.
const FACTOR: Rule = Only(&[Number(1.0), Number(0.0)]);
/// A repeat count or an interval. 0 means that it is not set, which has the effect of 1.
const ONCE: Rule = Only(&[Number(1.0), Number(0.0)]);
/// An empty list.
const EMPTY: Rule = Only(&[]);
/// A softcap that llama.cpp does not apply in these architectures. `llama-finetune` writes its
/// default into every file.
const UNUSED_SOFTCAP: Rule = Only(&[Number(0.0), Number(30.0), Number(50.0)]);

/// The rules of all architectures by the key without `ARCHITECTURE.`, sorted. A file that llama.cpp
/// wrote has a default for each feature, also for features that its architecture does not have
/// (`llama-model-saver.cpp`): these defaults are accepted too.
const RULES: &[(&str, Rule)] = &[
    ("activation.situ_beta", FACTOR),
    ("activation.situ_linear_beta", ZERO),
    ("adapters.count", ZERO),
    // Details of adapters inside the file: there are none if their count is 0.
    ("adapters.lora_rank", Harmless),
    ("adapters.router_gain", Harmless),
    ("adapters.token_ids_activate", Harmless),
    ("adapters.token_ids_substitute", Harmless),
    ("attention.causal", Only(&[Number(1.0)])),
    ("attention.clamp_kqv", ZERO),
    ("attention.compress_ratios", ZERO),
    ("attention.compress_rope_freq_base", ZERO),
    ("attention.decay_lora_rank", ZERO),
    ("attention.gate_lora_rank", ZERO),
    // No layer has a group norm.
    ("attention.group_norm_epsilon", Harmless),
    ("attention.group_norm_groups", Harmless),
    ("attention.head_count", Read),
    ("attention.head_count_kv", Read),
    ("attention.iclr_lora_rank", ZERO),
    ("attention.indexer.block_size", ZERO),
    ("attention.indexer.head_count", ZERO),
    ("attention.indexer.key_length", ZERO),
    ("attention.indexer.kpool", ZERO),
    ("attention.indexer.kpool_select_tail", ONCE),
    ("attention.indexer.local_blocks", ZERO),
    ("attention.indexer.top_k", ZERO),
    ("attention.indexer.types", ZERO),
    ("attention.key_length", Read),
    ("attention.key_length_mla", ZERO),
    ("attention.key_length_mla_swa", ZERO),
    // No layer has a window; architectures with windows have their own rules.
    ("attention.key_length_swa", Harmless),
    ("attention.kv_lora_rank", ZERO),
    ("attention.kv_lora_rank_swa", ZERO),
    // The norms are RMS norms.
    ("attention.layer_norm_epsilon", Harmless),
    ("attention.layer_norm_rms_epsilon", Read),
    ("attention.max_alibi_bias", ZERO),
    ("attention.output_group_count", ZERO),
    ("attention.output_lora_rank", ZERO),
    ("attention.output_scale", FACTOR),
    ("attention.q_lora_rank", ZERO),
    ("attention.recurrent_layers", ZERO),
    ("attention.relative_buckets_count", ZERO),
    // 1 for each layer with RoPE.
    ("attention.rope_pattern", Only(&[Number(1.0)])),
    ("attention.scale", Only(&[ScoreScale, Number(0.0)])),
    ("attention.shared_kv_layers", ZERO),
    ("attention.sliding_window", Only(&[Number(0.0), WholeContext])),
    // Meaningless without a window.
    ("attention.sliding_window_pattern", Harmless),
    ("attention.temperature_length", ZERO),
    ("attention.temperature_scale", ZERO),
    ("attention.value_length", Read),
    ("attention.value_length_mla", ZERO),
    ("attention.value_length_mla_swa", ZERO),
    ("attention.value_length_swa", Harmless),
    ("attention.value_residual_mix_lora_rank", ZERO),
    ("attention.value_scale", FACTOR),
    ("attn_logit_softcapping", UNUSED_SOFTCAP),
    ("attn_res.block_size", ZERO),
    ("block_count", Read),
    ("block_size", ZERO),
    // Heads for ranking are not run.
    ("classifier.output_labels", Harmless),
    ("classifier.pooling_type", Harmless),
    ("context_length", Read),
    ("conv_group_size", ZERO),
    ("conv_kernel_size", ZERO),
    ("convnext.block_count", ZERO),
    ("convnext.embedding_length", ZERO),
    ("decoder_block_count", ZERO),
    ("decoder_start_token_id", Harmless),
    ("deepstack_mapping", Only(&[Number(-1.0)])),
    // Layers of embedding models after the last one, which generation does not run.
    ("dense_2_feat_in", Harmless),
    ("dense_2_feat_out", Harmless),
    ("dense_3_feat_in", Harmless),
    ("dense_3_feat_out", Harmless),
    ("embedding_length", Read),
    ("embedding_length_out", Only(&[Width, Number(0.0)])),
    ("embedding_length_per_layer_input", ZERO),
    ("embedding_scale", FACTOR),
    // Experts are refused by their count. Without experts, the other keys have no effect.
    ("expert_chunk_feed_forward_length", Harmless),
    ("expert_count", ZERO),
    ("expert_feed_forward_length", Harmless),
    ("expert_gating_func", Harmless),
    ("expert_group_count", Harmless),
    ("expert_group_scale", Harmless),
    ("expert_group_used_count", Harmless),
    ("expert_latent_length", Harmless),
    ("expert_shared_count", ZERO),
    ("expert_shared_feed_forward_length", ZERO),
    ("expert_used_count", ZERO),
    ("expert_weights_norm", Harmless),
    ("expert_weights_scale", Harmless),
    ("experts_per_group", Harmless),
    ("features_length", ZERO),
    ("feed_forward_length", Read),
    ("final_logit_softcapping", UNUSED_SOFTCAP),
    ("full_attention_interval", ONCE),
    ("hash_layer_count", ZERO),
    ("hidden_activation", Only(&[Text("silu"), Text("swish")])),
    ("hrm.h_cycles", ZERO),
    ("hrm.l_cycles", ZERO),
    ("hrm.layers_per_stack", ZERO),
    ("hrm.prefix_lm", ZERO),
    ("hyper_connection.count", ONCE),
    // Details of hyper-connections: there are none if their count is 0.
    ("hyper_connection.epsilon", Harmless),
    ("hyper_connection.low_rank", Harmless),
    ("hyper_connection.magnitude", Harmless),
    ("hyper_connection.sinkhorn_iterations", Harmless),
    ("interleave_moe_layer_step", Harmless),
    ("kda.gate_lower_bound", Only(&[Number(0.0), Number(f64::NEG_INFINITY)])),
    ("kda.head_dim", ZERO),
    ("kda.safe_gate", ZERO),
    ("leading_dense_block_count", Harmless),
    ("logit_scale", FACTOR),
    ("moe_every_n_layers", Harmless),
    ("moe_latent_size", Harmless),
    ("n_deepstack_layers", ZERO),
    ("nextn_predict_layers", Read),
    ("norm_before_fc", ZERO),
    ("norm_before_residual", ZERO),
    ("num_loops", ONCE),
    ("ple.conv_kernel", Harmless),
    ("ple.eos_token_id", Harmless),
    ("ple.head_offsets", Harmless),
    ("ple.head_vocab_sizes", Harmless),
    ("ple.heads_per_ngram", Harmless),
    ("ple.image_token_id", Harmless),
    ("ple.layer_multipliers", Harmless),
    // Per-layer embeddings: none of the details above matter if no layer has one.
    ("ple.layers", EMPTY),
    ("ple.ngram_size", Harmless),
    // Embeddings of texts are not computed.
    ("pooling_type", Harmless),
    ("posnet.block_count", ZERO),
    ("posnet.embedding_length", ZERO),
    ("rescale_every_n_layers", ZERO),
    ("residual_scale", FACTOR),
    ("rope.dimension_count", Read),
    ("rope.dimension_count_swa", Harmless),
    // The positions of text are the same in each section.
    ("rope.dimension_sections", Harmless),
    ("rope.freq_base", Read),
    ("rope.freq_base_swa", Harmless),
    ("rope.scale_linear", Read),
    ("rope.scaling.alpha", FACTOR),
    ("rope.scaling.attn_factor", Read),
    ("rope.scaling.factor", Read),
    ("rope.scaling.finetuned", Harmless),
    ("rope.scaling.original_context_length", Read),
    ("rope.scaling.type", Read),
    // Factors of YaRN that llama.cpp does not read.
    ("rope.scaling.yarn_attn_factor", Harmless),
    // In these architectures, transformers reads them and llama.cpp does not.
    ("rope.scaling.yarn_beta_fast", Only(&[Number(32.0), WithoutYarn])),
    ("rope.scaling.yarn_beta_slow", Only(&[Number(1.0), WithoutYarn])),
    ("rope.scaling.yarn_ext_factor", Harmless),
    ("rope.scaling.yarn_log_multiplier", Only(&[Number(0.0), WithoutYarn])),
    ("router_logit_softcapping", Harmless),
    ("selector_rank", ZERO),
    ("selector_top_k", ZERO),
    ("shortconv.l_cache", ZERO),
    ("skip_loop_final_norm", Harmless),
    ("ssm.conv_kernel", ZERO),
    ("ssm.dt_b_c_rms", ZERO),
    ("ssm.group_count", ZERO),
    ("ssm.inner_size", ZERO),
    ("ssm.state_size", ZERO),
    ("ssm.time_step_rank", ZERO),
    ("swiglu_clamp_exp", Harmless),
    ("swiglu_clamp_shexp", Harmless),
    ("swin_norm", ZERO),
    ("target_hidden_size", ZERO),
    ("target_layers", EMPTY),
    // The layout of the original weights, as text.
    ("tensor_data_layout", Harmless),
    ("time_decay_extra_dim", ZERO),
    ("time_mix_extra_dim", ZERO),
    ("token_shift_count", Only(&[Number(0.0), Number(2.0)])),
    ("use_parallel_residual", ZERO),
    // The vocabulary size is the number of rows of the embedding.
    ("vocab_size", Harmless),
    ("wkv.head_size", ZERO),
];

/// Gemma 3's own rules: five of six layers have a sliding window.
const GEMMA3: &[(&str, Rule)] = &[
    ("attention.key_length_swa", Only(&[HeadDim])),
    ("attention.sliding_window", Read),
    ("attention.sliding_window_pattern", Read),
    ("attention.value_length_swa", Only(&[HeadDim])),
    ("final_logit_softcapping", Read),
    ("hidden_activation", Only(&[Text("gelu_pytorch_tanh")])),
    ("rope.dimension_count_swa", Only(&[RopeDims])),
    ("rope.freq_base_swa", Read),
];

/// Mistral 3's own rules: the temperature of attention, and all keys of YaRN.
const MISTRAL3: &[(&str, Rule)] = &[
    ("attention.temperature_scale", Read),
    ("rope.scaling.yarn_beta_fast", Read),
    ("rope.scaling.yarn_beta_slow", Read),
    ("rope.scaling.yarn_log_multiplier", Read),
];

/// Phi 3's own rules: all layers may have a sliding window.
const PHI3: &[(&str, Rule)] = &[("attention.sliding_window", Read)];

/// Granite's own rules: four scales, and a switch of RoPE. Granite 4 has keys of its layers with
/// Mamba-2 and experts also in files without such layers, which have no such tensors.
const GRANITE: &[(&str, Rule)] = &[
    // Follows from the switch.
    ("attention.rope_pattern", Harmless),
    ("attention.scale", Read),
    ("embedding_scale", Read),
    // The width of the feed-forward, if there are no experts.
    ("expert_shared_feed_forward_length", Harmless),
    ("logit_scale", Read),
    ("residual_scale", Read),
    ("rope.scaling.finetuned", Read),
    ("ssm.conv_kernel", Harmless),
    ("ssm.group_count", Harmless),
    ("ssm.inner_size", Harmless),
    ("ssm.state_size", Harmless),
    ("ssm.time_step_rank", Harmless),
];

/// Gemma 2's own rules: softcaps, and every second layer has a sliding window.
const GEMMA2: &[(&str, Rule)] = &[
    ("attention.key_length_swa", Only(&[HeadDim])),
    ("attention.sliding_window", Read),
    ("attention.sliding_window_pattern", Read),
    ("attention.value_length_swa", Only(&[HeadDim])),
    ("attn_logit_softcapping", Read),
    ("final_logit_softcapping", Read),
    ("hidden_activation", Only(&[Text("gelu_pytorch_tanh")])),
    ("rope.dimension_count_swa", Only(&[RopeDims])),
    ("rope.freq_base_swa", Read),
];

/// OLMo 2's own rules: three of four layers may have a sliding window.
const OLMO2: &[(&str, Rule)] = &[
    ("attention.key_length_swa", Only(&[HeadDim])),
    ("attention.sliding_window", Read),
    ("attention.sliding_window_pattern", Read),
    ("attention.value_length_swa", Only(&[HeadDim])),
    ("rope.dimension_count_swa", Only(&[RopeDims])),
    // Neither llama.cpp nor transformers has another base in layers with a window.
    ("rope.freq_base_swa", Only(&[RopeBase])),
];

/// Keys of other programs, which llama.cpp does not know.
const FOREIGN: &[(&str, Rule)] = &[
    // Ollama's converters. Gemma 3 has these bases in place of `rope.freq_base`.
    ("attention.head_dim", Only(&[HeadDim])),
    ("rope.global.freq_base", EMPTY),
    ("rope.local.freq_base", EMPTY),
];

/// The rules of an architecture that differ from [`RULES`].
const fn overrides(architecture: Architecture) -> &'static [(&'static str, Rule)] {
    match architecture {
        Architecture::Llama | Architecture::Qwen2 | Architecture::Qwen3 | Architecture::SmolLm3 => &[],
        Architecture::Gemma3 => GEMMA3,
        Architecture::Mistral3 => MISTRAL3,
        Architecture::Phi3 => PHI3,
        Architecture::Granite => GRANITE,
        Architecture::Gemma2 => GEMMA2,
        Architecture::Olmo2 => OLMO2,
    }
}

/// The rule of a key; `None` if the key is unknown.
fn rule(architecture: Architecture, key: &str) -> Option<Rule> {
    let lookup = |rules: &[(&str, Rule)]| {
        let index = rules.binary_search_by_key(&key, |(name, _)| name).ok()?;
        Some(rules[index].1)
    };
    lookup(overrides(architecture))
        .or_else(|| lookup(RULES))
        .or_else(|| lookup(FOREIGN))
}

/// The keys of the architecture in a file, without `ARCHITECTURE.`, and their values.
fn keys(gguf: &GgufHeader, architecture: Architecture) -> impl Iterator<Item = (&str, &Value)> {
    let pairs = gguf.metadata().iter();
    pairs.filter_map(move |(key, value)| Some((key.strip_prefix(architecture.name())?.strip_prefix('.')?, value)))
}

/// Refuses a file with a key that changes what the layers compute in a way that Hearth does not
/// support.
pub(crate) fn check(gguf: &GgufHeader, config: &Config) -> Result<(), LoadError> {
    let architecture = config.architecture;
    for (key, value) in keys(gguf, architecture) {
        let Some(Only(neutral)) = rule(architecture, key) else {
            continue;
        };
        if !neutral::is_neutral(value, neutral, config) {
            let value = neutral::describe_value(value);
            let what = format!("Hearth does not support its setting '{architecture}.{key}' of {value} yet");
            return Err(LoadError::unsupported(gguf, &what));
        }
    }
    Ok(())
}

/// Maximum unknown keys in a notice.
const MAX_NAMES: usize = 3;
/// Maximum characters of a key in a notice.
const MAX_NAME_CHARACTERS: usize = 60;

/// Keys of a file's architecture that are unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownKeys {
    /// The first of them, shortened.
    pub names: Vec<String>,
    /// The number of further keys.
    pub more: usize,
}

/// The keys of the file's architecture that neither Hearth nor llama.cpp knows; `None` if there are
/// none.
pub fn unknown_keys(gguf: &GgufHeader, architecture: Architecture) -> Option<UnknownKeys> {
    let keys = keys(gguf, architecture).map(|(key, _)| key);
    let mut unknown = keys.filter(|key| rule(architecture, key).is_none());
    let name = |key: &str| format!("{architecture}.{}", shortened(key, MAX_NAME_CHARACTERS));
    let names: Vec<String> = unknown.by_ref().take(MAX_NAMES).map(name).collect();
    if names.is_empty() {
        return None;
    }
    let more = unknown.count();
    Some(UnknownKeys { names, more })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::synthetic;
    use hearth_formats::gguf::Strings;

    /// The keys with an architecture's prefix that llama.cpp knows, from `LLM_KV_NAMES` of
    /// `src/llama-arch.cpp` in llama-cpp-python 0.3.36.
    const LLAMA_CPP: &str = include_str!("keys.txt");

    #[test]
    fn every_key_of_llama_cpp_has_a_rule() {
        let llama_cpp_keys: Vec<&str> = LLAMA_CPP.lines().collect();
        let rule_keys: Vec<&str> = RULES.iter().map(|(key, _)| *key).collect();
        assert_eq!(rule_keys, llama_cpp_keys);
        for &architecture in Architecture::ALL {
            let overridden: Vec<&str> = overrides(architecture).iter().map(|(key, _)| *key).collect();
            assert!(overridden.is_sorted(), "{architecture}: {overridden:?}");
            for key in overridden {
                assert!(llama_cpp_keys.contains(&key), "{architecture}.{key}");
            }
        }
    }

    /// The error of a model with this key; `None` if the model is supported.
    fn refusal(architecture: Architecture, key: &str, value: Value) -> Option<String> {
        let gguf = synthetic::gguf(architecture, &[(key, value)], &[]);
        Config::from_gguf(&gguf).err().map(|error| error.to_string())
    }

    #[test]
    fn keys_that_change_the_arithmetic_are_refused() {
        use Architecture::{Gemma2, Gemma3, Granite, Llama, Mistral3, Olmo2, Qwen2, Qwen3, SmolLm3};
        for (architecture, key, refused, accepted) in [
            (Gemma3, "attn_logit_softcapping", Value::F32(20.0), Value::F32(50.0)),
            (
                Gemma3,
                "rope.global.freq_base",
                Value::F32(1e6),
                Vec::<f32>::new().into(),
            ),
            (Llama, "attn_logit_softcapping", Value::F64(20.0), Value::F64(0.0)),
            (Llama, "final_logit_softcapping", Value::F32(20.0), Value::F32(30.0)),
            (
                Llama,
                "kda.gate_lower_bound",
                Value::F32(-5.0),
                Value::F32(f32::NEG_INFINITY),
            ),
            (Llama, "attention.head_dim", Value::U32(8), Value::U32(4)),
            (Llama, "residual_scale", Value::F32(0.5), Value::F32(1.0)),
            (Llama, "logit_scale", Value::F32(f32::NAN), Value::F32(0.0)),
            (Llama, "attention.scale", Value::F32(0.1), Value::F32(0.5)),
            (Llama, "expert_count", Value::U32(8), Value::U32(0)),
            (Qwen2, "use_parallel_residual", Value::Bool(true), Value::Bool(false)),
            (Qwen2, "attention.sliding_window", Value::U32(7), Value::U32(8)),
            (Qwen3, "attention.causal", Value::Bool(false), Value::Bool(true)),
            (Qwen3, "embedding_length_out", Value::U32(4), Value::U32(8)),
            (Gemma3, "attention.key_length_swa", Value::U32(8), Value::U32(4)),
            (Gemma3, "rope.dimension_count_swa", Value::U32(2), Value::U32(4)),
            (Gemma3, "hidden_activation", "silu".into(), "gelu_pytorch_tanh".into()),
            (Llama, "hidden_activation", "gelu".into(), "silu".into()),
            (Llama, "deepstack_mapping", vec![-1, 0].into(), vec![-1, -1].into()),
            // No list is longer than a model can have layers: some numbers are compared with each.
            (
                Llama,
                "attention.scale",
                vec![0.5_f32; 4097].into(),
                vec![0.5_f32; 4096].into(),
            ),
            (Llama, "target_layers", vec![1u32].into(), Vec::<u32>::new().into()),
            (Granite, "expert_count", Value::U32(8), Value::U32(0)),
            (Granite, "deepstack_mapping", vec![3, -1].into(), vec![-1, -1].into()),
            (SmolLm3, "attention.rope_pattern", vec![1, 0].into(), vec![1, 1].into()),
            (SmolLm3, "attention.sliding_window", Value::U32(4), Value::U32(0)),
            (Mistral3, "attention.scale", Value::F32(0.1), Value::F32(0.5)),
            (Mistral3, "attention.temperature_length", Value::U32(8), Value::U32(0)),
            (Gemma2, "attention.key_length_swa", Value::U32(8), Value::U32(4)),
            (Olmo2, "rope.freq_base_swa", Value::F32(5e5), Value::F32(1e4)),
            (Llama, "ssm.state_size", "16".into(), Value::U8(0)),
            (Llama, "ssm.state_size", Strings::from_iter(["0"]).into(), Value::I64(0)),
        ] {
            let error = refusal(architecture, key, refused).unwrap_or_default();
            assert!(
                error.contains(key) && error.contains("does not support"),
                "{key}: {error}"
            );
            assert_eq!(refusal(architecture, key, accepted), None, "{key}");
        }
    }

    /// The keys of a dense Granite 4, whose architecture also has Mamba-2 and experts.
    #[test]
    fn keys_of_parts_that_the_model_does_not_have_are_accepted() {
        let keys = [
            ("attention.head_count_kv", vec![2_i32, 2].into()),
            ("expert_count", Value::U32(0)),
            ("expert_used_count", Value::U32(0)),
            ("expert_shared_feed_forward_length", Value::U32(8)),
            ("ssm.conv_kernel", Value::U32(4)),
            ("ssm.state_size", Value::U32(256)),
            ("ssm.group_count", Value::U32(1)),
            ("ssm.inner_size", Value::U32(16)),
            ("ssm.time_step_rank", Value::U32(2)),
            ("rope.scaling.finetuned", Value::Bool(true)),
        ];
        let gguf = synthetic::gguf(Architecture::Granite, &keys, &[]);
        assert!(Config::from_gguf(&gguf).is_ok());
    }

    #[test]
    fn keys_of_yarn_that_are_not_read_have_their_defaults() {
        use Architecture::{Llama, Mistral3, Olmo2};
        let refusal = |architecture: Architecture, method: &str, key: &str, value: f32| {
            let keys = [
                ("rope.scaling.type", method.into()),
                ("rope.scaling.factor", Value::F32(4.0)),
                (key, Value::F32(value)),
            ];
            let gguf = synthetic::gguf(architecture, &keys, &[]);
            Config::from_gguf(&gguf).err().map(|error| error.to_string())
        };
        for (key, default, other) in [
            ("rope.scaling.yarn_beta_fast", 32.0, 16.0),
            ("rope.scaling.yarn_beta_slow", 1.0, 2.0),
            ("rope.scaling.yarn_log_multiplier", 0.0, 1.0),
        ] {
            for architecture in [Llama, Olmo2] {
                assert_eq!(
                    refusal(architecture, "yarn", key, default),
                    None,
                    "{architecture} {key}"
                );
                assert_eq!(
                    refusal(architecture, "linear", key, other),
                    None,
                    "{architecture} {key}"
                );
                let error = refusal(architecture, "yarn", key, other).unwrap_or_default();
                assert!(
                    error.contains(key) && error.contains("does not support"),
                    "{key}: {error}"
                );
            }
            assert_eq!(refusal(Mistral3, "yarn", key, other), None, "{key}");
        }
    }

    #[test]
    fn unknown_keys_are_named() {
        let unknown_of_llama = |keys: &[(&str, Value)]| {
            let gguf = synthetic::gguf(Architecture::Llama, keys, &[]);
            unknown_keys(&gguf, Architecture::Llama)
        };
        assert_eq!(unknown_of_llama(&[("vocab_size", Value::U32(2))]), None);
        let single = unknown_of_llama(&[("new\u{1b}thing", Value::U32(2))]).expect("an unknown key");
        assert_eq!((&*single.names, single.more), (&["llama.newthing".to_owned()][..], 0));
        let long_key = "x".repeat(1000);
        let keys: Vec<_> = [&*long_key, "b", "c", "d", "e"].map(|key| (key, Value::U8(0))).into();
        let several = unknown_of_llama(&keys).expect("unknown keys");
        assert_eq!(
            (&several.names[1..], several.more),
            (&["llama.b".to_owned(), "llama.c".to_owned()][..], 2)
        );
        assert!(several.names[0].len() < 100, "{several:?}");
    }
}
