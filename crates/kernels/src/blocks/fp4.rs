//! Common parts of MXFP4 and NVFP4: codes are E2M1 floats, and scales are eight-bit floats.
//! <https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf>
//!
//! As in ggml, the codebook holds twice the values of E2M1, so that they are integers, and the
//! scales are halved in return.

use super::codebook::{Codebook, unsigned};

/// Twice the value of each E2M1 code (ggml's `kvalues_mxfp4`): one sign bit, two exponent bits, one
/// mantissa bit.
pub(super) const VALUES: Codebook = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Added to the values, so that they are unsigned. A larger zero point, as for signed codes, would
/// lose more digits to cancellation.
pub(super) const ZERO_POINT: u8 = 16;

/// [`VALUES`] plus [`ZERO_POINT`].
pub(super) const UNSIGNED: [u8; 16] = unsigned(&VALUES, ZERO_POINT);

/// The largest of [`VALUES`].
pub(super) const MAX_VALUE: f32 = 12.0;

/// Half the value of an E8M0 scale, 2^(bits - 128), exact also where it is subnormal: ggml's
/// `GGML_E8M0_TO_FP32_HALF`.
#[inline(always)]
pub(crate) fn half_e8m0(bits: u8) -> f32 {
    let power = |exponent: u8| f32::from_bits((u32::from(exponent) + 63) << 23);
    // The factors' exponents are halves of `bits`, rounded down and up, minus 64.
    power(bits / 2) * power(bits.div_ceil(2))
}

/// The byte of an E4M3 scale that means NaN; as a scale it stands for 0.
const NAN: u8 = 0x7f;

/// The bits of a scale without the sign, 0 for NaN with either sign. Shifted by [`E4M3_SHIFT`],
/// they are an f32 proportional to the scale.
#[inline(always)]
pub(crate) fn canonical_e4m3(bits: u8) -> u8 {
    match bits & 0x7f {
        NAN => 0,
        unsigned => unsigned,
    }
}

/// Factor of a scale that is shifted by [`E4M3_SHIFT`]: changes the exponent bias from 127 (f32) to
/// 7 (E4M3) and halves the scale.
pub(crate) const E4M3_UNIT: f32 = f32::from_bits((127 + 119) << 23);

/// Shift that moves the exponent and mantissa of a canonical E4M3 scale to the position of an
/// f32's. Times [`E4M3_UNIT`], this f32 is half the value of the scale, exactly.
pub(crate) const E4M3_SHIFT: u32 = 20;

/// Half the value of an unsigned E4M3 scale, as ggml's `ggml_ue4m3_to_fp32`, but 0 for 0xff.
#[inline(always)]
pub(crate) fn half_e4m3(bits: u8) -> f32 {
    f32::from_bits(u32::from(canonical_e4m3(bits)) << E4M3_SHIFT) * E4M3_UNIT
}

/// The code whose value times `step` is nearest to `x`, the first of equals: ggml's
/// `best_index_mxfp4`.
pub(super) fn nearest(x: f32, step: f32) -> u8 {
    let error = |code: usize| (f32::from(VALUES[code]) * step - x).abs();
    let best = (1..VALUES.len()).fold(0, |best, code| if error(code) < error(best) { code } else { best });
    best as u8
}

/// The largest magnitude of an element.
pub(super) fn max_magnitude(x: &[f32]) -> f32 {
    x.iter().fold(0.0, |max, x| max.max(x.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_scales_have_the_same_value_and_are_unchanged_by_a_second_call() {
        for bits in 0..=u8::MAX {
            let canonical = canonical_e4m3(bits);
            assert_eq!(canonical_e4m3(canonical), canonical, "{bits:#04x}");
            assert_eq!(half_e4m3(canonical), half_e4m3(bits), "{bits:#04x}");
        }
    }
}
