//! Common parts of IQ4_NL and IQ4_XS: a codebook that is denser near zero.

use super::block::{GROUP, HALF_GROUP, pack_nibbles};
use super::codebook::Codebook;
use super::search::{importance, inverse, scale};

/// The codebook.
pub(super) const VALUES: Codebook = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Midpoints between neighboring codebook values.
const MIDDLES: [f32; 15] = {
    let mut middles = [0.0; 15];
    let mut i = 0;
    while i < 15 {
        middles[i] = (VALUES[i] as f32 + VALUES[i + 1] as f32) / 2.0;
        i += 1;
    }
    middles
};

/// The codes whose codebook values, times `step`, are nearest to `x`, packed as in Q4_0.
pub(super) fn pack(x: &[f32; GROUP], step: f32) -> [u8; HALF_GROUP] {
    let inverse = inverse(step);
    let code = |x: f32| MIDDLES.iter().filter(|middle| x * inverse > **middle).count() as u8;
    pack_nibbles(&x.map(code))
}

/// The codebook value nearest to `x`.
#[inline(always)]
fn nearest(x: f32) -> f32 {
    let mut level = f32::from(VALUES[0]);
    for (i, middle) in MIDDLES.iter().enumerate() {
        let gap = f32::from(VALUES[i + 1]) - f32::from(VALUES[i]);
        level += if x > *middle { gap } else { 0.0 };
    }
    level
}

/// The scale, of either sign, with the smallest error of `scale * value` among candidates.
pub(super) fn fit(x: &[f32; GROUP]) -> f32 {
    // The ends differ, so the weight farthest from zero is tried at both: from beyond the end,
    // where it is clipped in exchange for a finer scale, to well inside.
    let ends = [VALUES[0], VALUES[15]].map(f32::from);
    let grids = ends
        .into_iter()
        .flat_map(|end| (-5_i8..=3).map(move |i| end + 5.0 * f32::from(i) * end.signum()));
    scale(x, importance, grids, nearest)
}
