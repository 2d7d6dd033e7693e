//! f16 conversion in integer arithmetic, since not every device has the type.

use cubecl::prelude::*;

/// Converts f16 bits to f32.
#[cube]
pub(super) fn from_bits(bits: u32) -> f32 {
    let exponent = (bits >> 10u32) & 31u32;
    let fraction = bits & 1023u32;
    // A subnormal f16 is its fraction times 2^-24, which is exact and normal in f32.
    let subnormal = u32::reinterpret(f32::cast_from(fraction) * 5.960_464_5e-8f32);
    // The biases differ by 112; the highest exponent stays the highest, for infinity and NaN.
    let normal = ((exponent + 112u32) << 23u32) | (fraction << 13u32);
    let special = 0x7f80_0000u32 | (fraction << 13u32);
    let magnitude = select(exponent == 0u32, subnormal, select(exponent == 31u32, special, normal));
    f32::reinterpret(magnitude | ((bits & 0x8000u32) << 16u32))
}

/// Converts f32 to f16 bits, rounding to nearest even.
#[cube]
pub(super) fn to_bits(x: f32) -> u32 {
    let bits = u32::reinterpret(x);
    let magnitude = bits & 0x7fff_ffffu32;
    let exponent = magnitude >> 23u32;
    // Adds half of the truncated unit, minus one if a tie would round to odd.
    let last_bit = (magnitude >> 13u32) & 1u32;
    let normal = (magnitude + 0xfffu32 + last_bit - (112u32 << 23u32)) >> 13u32;
    // Below 2^-14 the result counts in units of 2^-24; a shift of 25 or more leaves zero.
    let shift = min(126u32 - min(exponent, 112u32), 25u32);
    let mantissa = (magnitude & 0x7f_ffffu32) | 0x80_0000u32;
    let subnormal_last_bit = (mantissa >> shift) & 1u32;
    let subnormal = (mantissa + (1u32 << (shift - 1u32)) - 1u32 + subnormal_last_bit) >> shift;
    // From halfway beyond the largest f16, the result is infinity; NaN stays NaN.
    let special = select(magnitude > 0x7f80_0000u32, 0x7e00u32, 0x7c00u32);
    let finite = select(magnitude < 0x3880_0000u32, subnormal, normal);
    select(magnitude >= 0x477f_f000u32, special, finite) | ((bits >> 16u32) & 0x8000u32)
}
