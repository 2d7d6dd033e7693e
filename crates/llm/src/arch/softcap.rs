//! The softcaps of a file: of attention scores, and of logits.

use crate::error::LoadError;
use crate::header_keys::POSITIVE;
use hearth_formats::gguf::GgufHeader;

/// The softcap of a key, or `default` if the file has no such key. 0 means that there is none.
///
/// Subnormal numbers are refused too: some GPUs would divide by 0 instead.
///
/// # Errors
/// If the value is no float, or neither 0 nor a positive and finite number.
pub(super) fn softcap(gguf: &GgufHeader, key: &str, default: Option<f32>) -> Result<Option<f32>, LoadError> {
    match gguf.f32(key)? {
        None => Ok(default),
        Some(0.0) => Ok(None),
        Some(cap) if cap.is_normal() && cap > 0.0 => Ok(Some(cap)),
        Some(cap) => Err(LoadError::bad_value(gguf, key, cap, POSITIVE)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::synthetic;
    use hearth_formats::Architecture;
    use hearth_formats::gguf::Value;

    const NAME: &str = "final_logit_softcapping";

    fn softcap_of(value: Option<Value>, default: Option<f32>) -> Result<Option<f32>, LoadError> {
        let keys: Vec<_> = value.into_iter().map(|value| (NAME, value)).collect();
        let gguf = synthetic::gguf(Architecture::Gemma3, &keys, &[]);
        softcap(&gguf, "gemma3.final_logit_softcapping", default)
    }

    #[test]
    fn a_softcap_is_positive_and_0_means_none() {
        for (value, default, expected) in [
            (None, None, None),
            (None, Some(50.0), Some(50.0)),
            (Some(Value::F32(0.0)), Some(50.0), None),
            (Some(Value::F32(-0.0)), None, None),
            (Some(Value::F32(30.0)), None, Some(30.0)),
            (Some(Value::F64(30.0)), Some(50.0), Some(30.0)),
        ] {
            let actual = softcap_of(value.clone(), default).expect("a softcap");
            assert_eq!(actual, expected, "{value:?}, {default:?}");
        }
        for value in [-30.0, 1e-40, f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let error = softcap_of(Some(Value::F32(value)), None)
                .expect_err("it is refused")
                .to_string();
            assert!(error.contains(NAME), "{value}: {error}");
        }
        let error = softcap_of(Some(Value::from("30")), None)
            .expect_err("it is refused")
            .to_string();
        assert!(error.contains(NAME), "{error}");
    }
}
