//! Factors of activations.

use crate::error::LoadError;
use crate::header_keys::HeaderKeys;

impl HeaderKeys<'_> {
    /// A finite factor above 0. As in llama.cpp, 0 means that it is not set.
    pub(super) fn factor(&self, suffix: &str) -> Result<Option<f32>, LoadError> {
        match self.gguf.f32(&self.key(suffix))? {
            None | Some(0.0) => Ok(None),
            Some(_) => self.positive(suffix, 1.0).map(Some),
        }
    }

    /// The factor for a divisor above 0; 1 if the file has no such key. Neither is infinite or
    /// subnormal.
    pub(super) fn divisor(&self, suffix: &str) -> Result<f32, LoadError> {
        let divisor = self.positive(suffix, 1.0)?;
        let factor = divisor.recip();
        if factor.is_normal() {
            Ok(factor)
        } else {
            Err(self.bad(suffix, divisor, "a number whose reciprocal is not 0"))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::arch::{Config, DecoderSpec, describe, synthetic};
    use crate::error::LoadError;
    use hearth_formats::Architecture::{self, Gemma2, Granite, Mistral3, Olmo2, Phi3};
    use hearth_formats::gguf::Value;

    fn spec(architecture: Architecture, key: &str, value: Value) -> Result<DecoderSpec, LoadError> {
        let gguf = synthetic::gguf(architecture, &[(key, value)], &[]);
        describe(&gguf, &Config::from_gguf(&gguf)?)
    }

    #[test]
    fn values_that_would_make_activations_invalid_are_refused_by_name() {
        for (architecture, key, values) in [
            (Granite, "attention.scale", vec![f32::NAN, f32::INFINITY, -1.0]),
            (Granite, "embedding_scale", vec![f32::NAN, f32::NEG_INFINITY, -12.0]),
            (Granite, "residual_scale", vec![f32::NAN, f32::INFINITY, -0.2]),
            // The reciprocals of the last ones are infinite, and subnormal.
            (
                Granite,
                "logit_scale",
                vec![f32::NAN, f32::INFINITY, -8.0, 0.0, 1e-40, f32::MAX],
            ),
            (
                Mistral3,
                "attention.temperature_scale",
                vec![f32::NAN, f32::INFINITY, -0.1, 1e-40],
            ),
            (
                Phi3,
                "rope.scaling.attn_factor",
                vec![f32::NAN, f32::INFINITY, 0.0, -1.0],
            ),
            (Gemma2, "attn_logit_softcapping", vec![f32::NAN, f32::INFINITY, -50.0]),
            (Gemma2, "final_logit_softcapping", vec![f32::NAN, f32::INFINITY, -30.0]),
            (Gemma2, "rope.freq_base_swa", vec![f32::NAN, 0.0, -1.0]),
        ] {
            for value in values {
                let error = spec(architecture, key, Value::F32(value)).expect_err("it is refused");
                let message = error.to_string();
                assert!(
                    message.contains(key) && message.contains("but must be"),
                    "{architecture} {value}: {message}"
                );
            }
            let error = spec(architecture, key, "1".into()).expect_err("it is refused");
            assert!(error.to_string().contains(key), "{architecture}: {error}");
        }
        for (architecture, key, value) in [
            (Granite, "rope.scaling.finetuned", Value::U32(1)),
            (Phi3, "attention.sliding_window", Value::I32(-1)),
            (Phi3, "rope.scaling.original_context_length", Value::U32(0)),
            (Phi3, "rope.dimension_count", Value::U32(3)),
            (Phi3, "rope.dimension_count", Value::U32(6)),
            (Phi3, "attention.value_length", Value::U32(6)),
            (Mistral3, "attention.temperature_scale", vec![0.1_f32; 2].into()),
            (Mistral3, "context_length", Value::U32(0)),
            (Olmo2, "attention.sliding_window", Value::F32(4.0)),
        ] {
            let error = spec(architecture, key, value).expect_err("it is refused");
            assert!(error.to_string().contains(key), "{architecture}: {error}");
        }
    }
}
