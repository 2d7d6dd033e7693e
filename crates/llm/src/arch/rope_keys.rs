//! The metadata keys of RoPE's scaling, read as llama.cpp reads them.

use super::spec::{RopeFactors, RopeScaling, Yarn};
use crate::error::LoadError;
use crate::header_keys::HeaderKeys;
use hearth_formats::Architecture;

/// The keys of YaRN that llama.cpp reads in an architecture. In others it uses their defaults,
/// whatever the file says; `keys.rs` refuses other values there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct YarnKeys {
    /// `rope.scaling.yarn_beta_fast` and `rope.scaling.yarn_beta_slow`.
    reads_betas: bool,
    /// `rope.scaling.yarn_log_multiplier`.
    reads_log_multiplier: bool,
}

/// The keys of YaRN that an architecture reads.
const fn yarn_keys(architecture: Architecture) -> YarnKeys {
    match architecture {
        Architecture::Mistral3 => YarnKeys {
            reads_betas: true,
            reads_log_multiplier: true,
        },
        Architecture::Llama
        | Architecture::Qwen2
        | Architecture::Qwen3
        | Architecture::Gemma3
        | Architecture::Phi3
        | Architecture::Granite
        | Architecture::SmolLm3
        | Architecture::Gemma2
        | Architecture::Olmo2 => YarnKeys {
            reads_betas: false,
            reads_log_multiplier: false,
        },
    }
}

/// Whether an architecture has the tensors of LongRoPE in a file of the type `longrope`.
const fn has_long_factors(architecture: Architecture) -> bool {
    match architecture {
        Architecture::Llama | Architecture::Mistral3 | Architecture::Phi3 | Architecture::Granite => true,
        Architecture::Qwen2
        | Architecture::Qwen3
        | Architecture::Gemma3
        | Architecture::SmolLm3
        | Architecture::Gemma2
        | Architecture::Olmo2 => false,
    }
}

/// The settings of RoPE that the keys of its scaling determine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RopeKeys {
    /// The change of the frequencies.
    pub scaling: RopeScaling,
    /// The divisors, in an architecture that has them.
    pub factors: RopeFactors,
    /// Factor of sines and cosines, besides YaRN's.
    pub magnitude: f32,
}

impl HeaderKeys<'_> {
    /// Reads the keys of RoPE's scaling, for RoPE of this base and a training context in tokens.
    pub fn rope(&self, base: f32, context_trained: usize) -> Result<RopeKeys, LoadError> {
        let mut factors = RopeFactors::Optional;
        let scaling = match self.gguf.str(&self.key("rope.scaling.type"))? {
            Some("none") => RopeScaling::Linear(1.0),
            // As in llama.cpp, a factor without a type is linear.
            None | Some("linear") => RopeScaling::Linear(self.rope_factor()?),
            Some("yarn") => RopeScaling::Yarn(self.yarn(yarn_keys(self.architecture), base, context_trained)?),
            Some("longrope") if has_long_factors(self.architecture) => {
                factors = RopeFactors::Long {
                    original_context: self.original_context(context_trained)?,
                };
                RopeScaling::Linear(self.rope_factor()?)
            }
            Some(method) => {
                let what = format!("Hearth does not support its RoPE scaling method '{method}' yet");
                return Err(LoadError::unsupported(self.gguf, &what));
            }
        };
        Ok(RopeKeys {
            scaling,
            factors,
            magnitude: self.rope_magnitude(scaling)?,
        })
    }

    /// The factor of sines and cosines besides YaRN's. The product of both is finite and not 0.
    fn rope_magnitude(&self, scaling: RopeScaling) -> Result<f32, LoadError> {
        const KEY: &str = "rope.scaling.attn_factor";
        let magnitude = self.positive(KEY, 1.0)?;
        let product = match scaling {
            RopeScaling::Linear(_) => magnitude,
            RopeScaling::Yarn(yarn) => magnitude * yarn.magnitude,
        };
        if product.is_normal() {
            Ok(magnitude)
        } else {
            Err(self.bad(
                KEY,
                magnitude,
                "a number whose product with YaRN's factor is finite and not 0",
            ))
        }
    }

    /// The context length before the extension, in tokens. As in llama.cpp, the default is the
    /// training context.
    pub fn original_context(&self, context_trained: usize) -> Result<u32, LoadError> {
        const KEY: &str = "rope.scaling.original_context_length";
        let default = u32::try_from(context_trained).unwrap_or(u32::MAX);
        match self.gguf.u32(&self.key(KEY))?.unwrap_or(default) {
            0 => Err(self.bad(KEY, 0, "at least 1")),
            context => Ok(context),
        }
    }

    /// The factor of the context's extension. As in llama.cpp, 0 means none, and old files have the
    /// key `rope.scale_linear`.
    fn rope_factor(&self) -> Result<f32, LoadError> {
        let suffix = match self.gguf.f32(&self.key("rope.scaling.factor"))? {
            Some(_) => "rope.scaling.factor",
            None => "rope.scale_linear",
        };
        match self.gguf.f32(&self.key(suffix))? {
            Some(0.0) => Ok(1.0),
            _ => self.positive(suffix, 1.0),
        }
    }

    fn yarn(&self, keys: YarnKeys, base: f32, context_trained: usize) -> Result<Yarn, LoadError> {
        self.check_yarn_base("rope.freq_base", base)?;
        let (mut beta_fast, mut beta_slow, mut log_multiplier) = (32.0, 1.0, 0.0);
        if keys.reads_betas {
            beta_fast = self.positive("rope.scaling.yarn_beta_fast", beta_fast)?;
            beta_slow = self.positive("rope.scaling.yarn_beta_slow", beta_slow)?;
        }
        if keys.reads_log_multiplier {
            log_multiplier = self.yarn_log_multiplier()?;
        }
        let factor = self.rope_factor()?;
        Ok(Yarn {
            factor,
            original_context: self.original_context(context_trained)?,
            beta_fast,
            beta_slow,
            magnitude: yarn_magnitude(factor, log_multiplier),
        })
    }

    /// Refuses a base that YaRN cannot have: the rotations of a pair are a logarithm to this base.
    pub fn check_yarn_base(&self, suffix: &str, base: f32) -> Result<(), LoadError> {
        if base > 1.0 {
            Ok(())
        } else {
            Err(self.bad(suffix, base, "above 1 with YaRN"))
        }
    }

    /// The multiplier of the logarithm in the divisor of the magnitude (`mscale_all_dim` in
    /// transformers); 0 means that there is no divisor.
    fn yarn_log_multiplier(&self) -> Result<f32, LoadError> {
        const KEY: &str = "rope.scaling.yarn_log_multiplier";
        match self.gguf.f32(&self.key(KEY))? {
            None | Some(0.0) => Ok(0.0),
            Some(_) => self.positive(KEY, 1.0),
        }
    }
}

/// The factor of sines and cosines, so that scores have the entropy that they have in the original
/// context: `0.1 ln(factor) + 1`, which models with a log multiplier divide by
/// `0.1 log_multiplier ln(factor) + 1`.
fn yarn_magnitude(factor: f32, log_multiplier: f32) -> f32 {
    let logarithm = 0.1 * f64::from(factor).ln().max(0.0);
    let divisor = 1.0 + f64::from(log_multiplier) * logarithm;
    ((1.0 + logarithm) / divisor) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::synthetic;
    use hearth_formats::gguf::Value;

    /// The keys of YaRN in an architecture that reads all of them.
    const ALL: YarnKeys = YarnKeys {
        reads_betas: true,
        reads_log_multiplier: true,
    };
    const FACTOR: &str = "rope.scaling.factor";
    const OLD_FACTOR: &str = "rope.scale_linear";
    const CONTEXT: &str = "rope.scaling.original_context_length";
    const FAST: &str = "rope.scaling.yarn_beta_fast";
    const SLOW: &str = "rope.scaling.yarn_beta_slow";
    const LOG: &str = "rope.scaling.yarn_log_multiplier";
    const MAGNITUDE: &str = "rope.scaling.attn_factor";

    /// Runs `read` on a file of an architecture with this scaling method and these keys.
    fn read_from<T>(
        architecture: Architecture,
        method: Option<&str>,
        keys: &[(&str, Value)],
        read: impl FnOnce(&HeaderKeys) -> Result<T, LoadError>,
    ) -> Result<T, LoadError> {
        let mut keys = keys.to_vec();
        keys.extend(method.map(|method| ("rope.scaling.type", method.into())));
        let gguf = synthetic::gguf(architecture, &keys, &[]);
        read(&HeaderKeys {
            gguf: &gguf,
            architecture,
        })
    }

    /// The settings of a `llama` file with a base of 10,000 that was trained on 100 tokens.
    fn rope(method: Option<&str>, keys: &[(&str, Value)]) -> Result<RopeKeys, LoadError> {
        read_from(Architecture::Llama, method, keys, |keys| keys.rope(10_000.0, 100))
    }

    #[test]
    fn rope_scaling_is_that_of_llama_cpp() {
        let number = Value::F32;
        for (method, keys, expected) in [
            (None, vec![], 1.0),
            (Some("none"), vec![(FACTOR, number(4.0))], 1.0),
            (Some("linear"), vec![], 1.0),
            (Some("linear"), vec![(FACTOR, number(4.0))], 4.0),
            (Some("linear"), vec![(FACTOR, number(0.0))], 1.0),
            (None, vec![(FACTOR, number(4.0))], 4.0),
            (None, vec![(FACTOR, number(0.5))], 0.5),
            (None, vec![(FACTOR, number(0.0))], 1.0),
            (None, vec![(OLD_FACTOR, number(2.0))], 2.0),
            (Some("linear"), vec![(OLD_FACTOR, number(2.0))], 2.0),
            (None, vec![(OLD_FACTOR, number(0.0))], 1.0),
            // The old key is ignored if the new one is present, even if that is 0.
            (None, vec![(FACTOR, number(4.0)), (OLD_FACTOR, number(2.0))], 4.0),
            (None, vec![(FACTOR, number(0.0)), (OLD_FACTOR, number(2.0))], 1.0),
            // These keys are of other methods.
            (None, vec![(CONTEXT, Value::U32(0)), (FAST, number(f32::NAN))], 1.0),
        ] {
            let expected = RopeKeys {
                scaling: RopeScaling::Linear(expected),
                factors: RopeFactors::Optional,
                magnitude: 1.0,
            };
            let actual = rope(method, &keys).expect("a model");
            assert_eq!(actual, expected, "{method:?} {keys:?}");
        }
        for method in [None, Some("none"), Some("linear"), Some("yarn"), Some("longrope")] {
            let actual = rope(method, &[(MAGNITUDE, number(1.25))]).expect("a model");
            assert_eq!(actual.magnitude, 1.25, "{method:?}");
        }
    }

    #[test]
    fn yarn_keys_are_read_where_llama_cpp_reads_them() {
        let keys = [
            (FACTOR, Value::F32(16.0)),
            (CONTEXT, Value::U32(64)),
            (FAST, Value::F32(16.0)),
            (SLOW, Value::F32(2.0)),
            (LOG, Value::F32(1.0)),
        ];
        // 0.1 ln 16 + 1.
        let unread = Yarn {
            factor: 16.0,
            original_context: 64,
            beta_fast: 32.0,
            beta_slow: 1.0,
            magnitude: 1.277_258_9,
        };
        let actual = rope(Some("yarn"), &keys).expect("a model").scaling;
        assert_eq!(actual, RopeScaling::Yarn(unread));
        let yarn = |keys: &[(&str, Value)]| {
            let read = |keys: &HeaderKeys| keys.yarn(ALL, 10_000.0, 100);
            read_from(Architecture::Llama, Some("yarn"), keys, read).expect("a model")
        };
        let expected = Yarn {
            beta_fast: 16.0,
            beta_slow: 2.0,
            magnitude: 1.0,
            ..unread
        };
        assert_eq!(yarn(&keys), expected);
        let defaults = Yarn {
            factor: 1.0,
            original_context: 100,
            beta_fast: 32.0,
            beta_slow: 1.0,
            magnitude: 1.0,
        };
        assert_eq!(yarn(&[]), defaults);
    }

    /// The values are of `yarn_get_mscale` of transformers.
    #[test]
    fn yarn_magnitudes_are_those_of_transformers() {
        for (factor, log_multiplier, expected) in [
            (16.0, 0.0, 1.277_258_9),
            (4.0, 0.0, 1.138_629_4),
            (16.0, 1.0, 1.0),
            (16.0, 0.5, 1.121_751_2),
            (1.0, 0.0, 1.0),
            (0.5, 0.0, 1.0),
            (0.5, 0.7, 1.0),
        ] {
            let error = (yarn_magnitude(factor, log_multiplier) - expected).abs();
            assert!(error <= f32::EPSILON, "{factor} {log_multiplier}: off by {error}");
        }
    }

    #[test]
    fn longrope_is_for_architectures_with_its_tensors() {
        let keys = [(CONTEXT, Value::U32(64)), (FACTOR, Value::F32(2.0))];
        let expected = RopeKeys {
            scaling: RopeScaling::Linear(2.0),
            factors: RopeFactors::Long { original_context: 64 },
            magnitude: 1.0,
        };
        assert_eq!(rope(Some("longrope"), &keys).expect("a model"), expected);
        let read = |keys: &HeaderKeys| keys.rope(10_000.0, 100);
        let error = read_from(Architecture::Qwen2, Some("longrope"), &keys, read).expect_err("it is refused");
        assert!(error.to_string().contains("longrope"), "{error}");
    }

    #[test]
    fn invalid_values_are_refused_by_name() {
        for (method, key, value) in [
            (None, FACTOR, Value::F32(-1.0)),
            (None, FACTOR, Value::F32(f32::NAN)),
            (None, FACTOR, Value::from("4")),
            (None, MAGNITUDE, Value::F32(0.0)),
            (None, FACTOR, Value::F32(1e-40)),
            (None, FACTOR, vec![4.0_f32].into()),
            (Some("none"), MAGNITUDE, Value::F32(f32::NAN)),
            (Some("linear"), OLD_FACTOR, Value::F32(f32::INFINITY)),
            (Some("yarn"), FACTOR, Value::F32(-4.0)),
            (Some("yarn"), FACTOR, Value::F32(f32::INFINITY)),
            (Some("yarn"), CONTEXT, Value::U32(0)),
            (Some("yarn"), CONTEXT, Value::I32(-1)),
            (Some("longrope"), CONTEXT, Value::U32(0)),
            (Some("dynamic"), "dynamic", Value::U32(0)),
        ] {
            let error = rope(method, &[(key, value.clone())])
                .expect_err("it is refused")
                .to_string();
            assert!(error.contains(key), "{method:?} {key} {value:?}: {error}");
        }
        for (key, value) in [FAST, SLOW, LOG]
            .into_iter()
            .flat_map(|key| [-1.0, f32::NAN, f32::INFINITY].map(|value| (key, value)))
            .chain([(FAST, 0.0), (SLOW, 0.0)])
        {
            let read = |keys: &HeaderKeys| keys.yarn(ALL, 10_000.0, 100);
            let keys = [(key, Value::F32(value))];
            let error = read_from(Architecture::Llama, None, &keys, read).expect_err("it is refused");
            assert!(error.to_string().contains(key), "{key} {value}: {error}");
        }
        // Each of two factors is valid, but their product is infinite, or 0.
        for (log_multiplier, magnitude) in [(0.0, f32::MAX), (f32::MAX, 1e-10)] {
            let keys = [
                (FACTOR, Value::F32(16.0)),
                (LOG, Value::F32(log_multiplier)),
                (MAGNITUDE, Value::F32(magnitude)),
            ];
            let read = |keys: &HeaderKeys| keys.rope(10_000.0, 100);
            let error = read_from(Architecture::Mistral3, Some("yarn"), &keys, read).expect_err("it is refused");
            assert!(error.to_string().contains(MAGNITUDE), "{error}");
        }
        for base in [1.0, 0.5] {
            let read = |keys: &HeaderKeys| keys.rope(base, 100);
            let error = read_from(Architecture::Llama, Some("yarn"), &[], read).expect_err("it is refused");
            assert!(error.to_string().contains("rope.freq_base"), "{error}");
        }
    }
}
