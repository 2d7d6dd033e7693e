//! Common parts of IQ4_NL and IQ4_XS: four-bit codes that index a non-linear codebook, denser near
//! zero.

use super::block::{GROUP, HALF_GROUP, nibbles, pack_nibbles};
use super::search::{importance, inverse, scale};
use crate::gemv::Simd;

/// Codebook: the value of each code, in units of the scale.
pub(crate) const LEVELS: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Midpoints between neighbouring codebook values.
const MIDDLES: [f32; 15] = {
    let mut middles = [0.0; 15];
    let mut i = 0;
    while i < 15 {
        middles[i] = (LEVELS[i] as f32 + LEVELS[i + 1] as f32) / 2.0;
        i += 1;
    }
    middles
};

/// Unpacks 32 codes, packed as in Q4_0, and looks up their codebook values.
pub(super) fn group(packed: &[u8; HALF_GROUP]) -> [i8; GROUP] {
    nibbles(packed).map(|code| LEVELS[usize::from(code)])
}

/// The codes whose codebook values, times `step`, are nearest to `x`, packed as in Q4_0.
pub(super) fn pack(x: &[f32; GROUP], step: f32) -> [u8; HALF_GROUP] {
    let inverse = inverse(step);
    let code = |x: f32| MIDDLES.iter().filter(|middle| x * inverse > **middle).count() as u8;
    pack_nibbles(&x.map(code))
}

/// The codebook value nearest to `x`.
#[inline(always)]
fn nearest(x: f32) -> f32 {
    let mut level = f32::from(LEVELS[0]);
    for (i, middle) in MIDDLES.iter().enumerate() {
        let gap = f32::from(LEVELS[i + 1]) - f32::from(LEVELS[i]);
        level += if x > *middle { gap } else { 0.0 };
    }
    level
}

/// The scale, of either sign, with the smallest error of `scale * level` among candidates.
pub(super) fn fit(x: &[f32; GROUP]) -> f32 {
    // The ends differ, so the weight farthest from zero is tried at both: from beyond the end,
    // where it is clipped in exchange for a finer scale, to well inside.
    let ends = [LEVELS[0], LEVELS[15]].map(f32::from);
    let grids = ends
        .into_iter()
        .flat_map(|end| (-5_i8..=3).map(move |i| end + 5.0 * f32::from(i) * end.signum()));
    scale(x, importance, grids, nearest)
}

/// Codebook values of two groups.
#[inline(always)]
pub(super) fn codes<S: Simd>(s: S, a: &[u8; HALF_GROUP], b: &[u8; HALF_GROUP]) -> S::Bytes {
    let codes = s.and(s.shift_right(s.each_twice(a, b), [0, 4, 0, 4]), 0x0f);
    s.look_up(bytemuck::cast_ref(&LEVELS), codes)
}
