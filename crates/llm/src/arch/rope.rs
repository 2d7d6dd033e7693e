//! The frequencies of RoPE, and the tensors with their divisors.

use super::spec::{DecoderSpec, RopeFactors, RopeScaling, RopeSpec, Yarn};
use std::f64::consts::PI;

/// The divisors of Llama 3.1.
const FACTORS: &str = "rope_freqs.weight";
/// The divisors of LongRoPE for a context up to the original one.
const SHORT_FACTORS: &str = "rope_factors_short.weight";
/// The divisors of LongRoPE for a longer context.
const LONG_FACTORS: &str = "rope_factors_long.weight";

/// The choice among a file's sets of divisors, which the planned context determines. KV cells that
/// were computed with one set are useless with another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RopeIdentity {
    /// There is no choice.
    #[default]
    Fixed,
    /// LongRoPE's divisors for a context up to the original one.
    Short,
    /// LongRoPE's divisors for a longer context.
    Long,
}

impl RopeIdentity {
    /// A name for hashes and snapshots, which is empty if there is no choice.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fixed => "",
            Self::Short => "short",
            Self::Long => "long",
        }
    }
}

impl RopeFactors {
    /// The tensors that a file may have.
    pub(super) fn tensors(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Optional => &[FACTORS],
            Self::Long { .. } => &[SHORT_FACTORS, LONG_FACTORS],
        }
    }

    /// The choice for a context of this number of tokens.
    fn identity(self, context: usize) -> RopeIdentity {
        match self {
            Self::None | Self::Optional => RopeIdentity::Fixed,
            Self::Long { original_context } if context > original_context as usize => RopeIdentity::Long,
            Self::Long { .. } => RopeIdentity::Short,
        }
    }

    /// The tensor for a context of this number of tokens, if the file has it.
    pub(crate) fn tensor(self, context: usize) -> Option<&'static str> {
        match self.identity(context) {
            RopeIdentity::Fixed => self.tensors().first().copied(),
            RopeIdentity::Short => Some(SHORT_FACTORS),
            RopeIdentity::Long => Some(LONG_FACTORS),
        }
    }

    /// The other tensors that a file has if it has the one for a context.
    pub(crate) fn others(self, tensor: &str) -> impl Iterator<Item = &'static str> {
        self.tensors().iter().copied().filter(move |other| *other != tensor)
    }
}

impl DecoderSpec {
    /// The choice of RoPE's divisors for a context of this number of tokens.
    pub(crate) fn rope_identity(&self, context: usize) -> RopeIdentity {
        let identities = self.ropes().into_iter().map(|rope| rope.factors.identity(context));
        identities.max().unwrap_or_default()
    }
}

impl RopeSpec {
    /// Radians per position of each pair. `divisors` are from the file, one per pair; `None` means
    /// that all are 1.
    pub(crate) fn frequencies(&self, divisors: Option<&[f32]>) -> Vec<f64> {
        let divisor = |pair: usize| {
            let divisor = divisors.and_then(|divisors| divisors.get(pair));
            divisor.map_or(1.0, |divisor| f64::from(*divisor))
        };
        let unscaled = |pair: usize| f64::from(self.base).powf(-2.0 * pair as f64 / self.dims as f64);
        let frequency = |pair: usize| match self.scaling {
            RopeScaling::Linear(factor) => unscaled(pair) / (divisor(pair) * f64::from(factor)),
            RopeScaling::Yarn(yarn) => {
                let retained = unscaled(pair) / divisor(pair);
                let share = yarn.retained_share(pair, self.dims, self.base);
                retained / f64::from(yarn.factor) * (1.0 - share) + retained * share
            }
        };
        (0..self.dims / 2).map(frequency).collect()
    }

    /// The factor of cosines and sines.
    pub(crate) fn total_magnitude(&self) -> f32 {
        match self.scaling {
            RopeScaling::Linear(_) => self.magnitude,
            RopeScaling::Yarn(yarn) => self.magnitude * yarn.magnitude,
        }
    }
}

impl Yarn {
    /// The share of the unscaled frequency in the frequency of a pair: 1 for pairs that make many
    /// rotations in the original context, 0 for pairs that make few, and linear between them.
    fn retained_share(&self, pair: usize, dims: usize, base: f32) -> f64 {
        let low = self.pair_of_rotations(self.beta_fast, dims, base).floor().max(0.0);
        // The same bound as in llama.cpp and transformers, though the last pair is `dims / 2 - 1`.
        let high = self.pair_of_rotations(self.beta_slow, dims, base).ceil();
        let high = high.min(dims as f64 - 1.0);
        1.0 - ((pair as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0)
    }

    /// The pair, a fraction, that makes this number of rotations in the original context.
    fn pair_of_rotations(&self, rotations: f32, dims: usize, base: f32) -> f64 {
        let radians_per_position = f64::from(rotations) * 2.0 * PI / f64::from(self.original_context);
        -(dims as f64) * radians_per_position.ln() / (2.0 * f64::from(base).ln())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_kernels::rope::Pairing;

    fn spec(dims: usize, base: f32, scaling: RopeScaling) -> RopeSpec {
        RopeSpec {
            pairing: Pairing::Halves,
            dims,
            base,
            scaling,
            factors: RopeFactors::Optional,
            magnitude: 1.0,
        }
    }

    /// With the defaults of the betas.
    fn yarn(factor: f32, original_context: u32) -> Yarn {
        Yarn {
            factor,
            original_context,
            beta_fast: 32.0,
            beta_slow: 1.0,
            magnitude: 1.0,
        }
    }

    #[test]
    fn linear_frequencies_have_the_bits_of_their_formula() {
        let divisors = [1.5_f32, 1.0, 7.25, 8.0, 3.0];
        for (dims, base) in [(10, 10_000.0_f32), (11, 500_000.0)] {
            let power = |pair: usize| f64::from(base).powf(-2.0 * pair as f64 / dims as f64);
            let plain = spec(dims, base, RopeScaling::Linear(1.0));
            assert_eq!(plain.frequencies(None), [0, 1, 2, 3, 4].map(power));
            let scaled = spec(dims, base, RopeScaling::Linear(4.0));
            let expected = [0, 1, 2, 3, 4].map(|pair| power(pair) / (f64::from(divisors[pair]) * 4.0));
            assert_eq!(scaled.frequencies(Some(&divisors)), expected);
        }
    }

    /// The values are of `_compute_yarn_parameters` of transformers, in f64.
    #[test]
    fn yarn_frequencies_are_those_of_transformers() {
        let case = |dims, base, yarn| spec(dims, base, RopeScaling::Yarn(yarn));
        let few_rotations = Yarn {
            beta_fast: 16.0,
            beta_slow: 2.0,
            ..yarn(2.0, 64)
        };
        // Ministral 3; all three regions; other betas; a ramp beyond the last pair; an empty ramp.
        let cases: [(RopeSpec, &[(usize, f64)]); 5] = [
            (
                case(128, 1e6, yarn(16.0, 16384)),
                &[
                    (0, 1.0),
                    (20, 0.01333521432163324),
                    (21, 0.010153463672006566),
                    (30, 0.0006907023388943309),
                    (36, 4.96113533445391e-05),
                    (37, 2.1238802055890994e-05),
                    (63, 7.755861004698247e-08),
                ],
            ),
            (
                case(64, 10_000.0, yarn(4.0, 2048)),
                &[
                    (8, 0.1),
                    (9, 0.0706631081870968),
                    (15, 0.00794983930712751),
                    (20, 0.0009730085108210396),
                    (21, 0.0005928434264154137),
                    (31, 3.33380358040831e-05),
                ],
            ),
            (
                case(16, 10_000.0, few_rotations),
                &[
                    (0, 1.0),
                    (1, 0.23717082451262844),
                    (2, 0.05),
                    (7, 0.00015811388300841897),
                ],
            ),
            (
                case(8, 100.0, yarn(8.0, 4096)),
                &[(1, 0.31622776601683794), (2, 0.1), (3, 0.02470529422006546)],
            ),
            (case(8, 10_000.0, yarn(4.0, 3)), &[(0, 1.0), (1, 0.025), (3, 0.00025)]),
        ];
        for (spec, expected) in cases {
            let frequencies = spec.frequencies(None);
            for &(pair, expected) in expected {
                let error = (frequencies[pair] / expected - 1.0).abs();
                // Rounding of a dozen operations in f64.
                assert!(
                    error < 1e-14,
                    "{spec:?}, pair {pair}: {}, {expected}",
                    frequencies[pair]
                );
            }
        }
    }

    #[test]
    fn yarn_divides_by_the_divisors_first() {
        let spec = spec(8, 10_000.0, RopeScaling::Yarn(yarn(4.0, 64)));
        let divisors = [2.0; 4];
        let halved = spec.frequencies(None).into_iter().map(|frequency| frequency / 2.0);
        assert_eq!(spec.frequencies(Some(&divisors)), halved.collect::<Vec<_>>());
    }

    /// The keys are checked when they are read, but no values may lead to NaN.
    #[test]
    fn frequencies_are_finite_with_extreme_parameters() {
        for base in [1.0, 1.0 + f32::EPSILON, 2.0, f32::MAX] {
            for original_context in [1, u32::MAX] {
                for (beta_fast, beta_slow) in [(32.0, 1.0), (1.0, 32.0), (f32::MAX, f32::MIN_POSITIVE)] {
                    let yarn = Yarn {
                        beta_fast,
                        beta_slow,
                        ..yarn(f32::MAX, original_context)
                    };
                    for dims in [1, 2, 128] {
                        let frequencies = spec(dims, base, RopeScaling::Yarn(yarn)).frequencies(None);
                        assert_eq!(frequencies.len(), dims / 2);
                        let is_valid = |frequency: &f64| frequency.is_finite() && *frequency >= 0.0;
                        assert!(frequencies.iter().all(is_valid), "{base} {yarn:?}: {frequencies:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_magnitude_is_a_product() {
        let yarn = Yarn {
            magnitude: 1.5,
            ..yarn(4.0, 64)
        };
        for (scaling, expected) in [(RopeScaling::Linear(4.0), 0.5), (RopeScaling::Yarn(yarn), 0.75)] {
            let spec = RopeSpec {
                magnitude: 0.5,
                ..spec(8, 10_000.0, scaling)
            };
            assert_eq!(spec.total_magnitude(), expected);
        }
    }

    #[test]
    fn the_planned_context_chooses_the_divisors() {
        let long = RopeFactors::Long { original_context: 4096 };
        for (factors, context, identity, tensor) in [
            (RopeFactors::None, 8192, RopeIdentity::Fixed, None),
            (RopeFactors::Optional, 8192, RopeIdentity::Fixed, Some(FACTORS)),
            (long, 0, RopeIdentity::Short, Some(SHORT_FACTORS)),
            (long, 4096, RopeIdentity::Short, Some(SHORT_FACTORS)),
            (long, 4097, RopeIdentity::Long, Some(LONG_FACTORS)),
            (long, usize::MAX, RopeIdentity::Long, Some(LONG_FACTORS)),
        ] {
            assert_eq!(
                (factors.identity(context), factors.tensor(context)),
                (identity, tensor),
                "{factors:?} {context}"
            );
        }
    }
}
