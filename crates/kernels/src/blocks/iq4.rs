//! Common parts of IQ4_NL and IQ4_XS: a codebook that is denser near zero.

use super::block::{GROUP, HALF_GROUP, pack_nibbles};
use super::codebook::Codebook;
use super::search::{importance, inverse, scale};

/// The codebook, ggml's `kvalues_iq4nl`.
pub(super) const VALUES: Codebook = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Midpoints between neighboring codebook values.
const MIDPOINTS: [f32; 15] = {
    let mut midpoints = [0.0; 15];
    let mut i = 0;
    while i < 15 {
        midpoints[i] = (VALUES[i] as f32 + VALUES[i + 1] as f32) / 2.0;
        i += 1;
    }
    midpoints
};

/// The codes whose codebook values, times `step`, are nearest to `x`, packed as in Q4_0.
pub(super) fn pack(x: &[f32; GROUP], step: f32) -> [u8; HALF_GROUP] {
    let inverse = inverse(step);
    let code = |x: f32| MIDPOINTS.iter().filter(|midpoint| x * inverse > **midpoint).count() as u8;
    pack_nibbles(&x.map(code))
}

/// The codebook value nearest to `x`.
#[inline(always)]
fn nearest(x: f32) -> f32 {
    let mut level = f32::from(VALUES[0]);
    for (i, midpoint) in MIDPOINTS.iter().enumerate() {
        let gap = f32::from(VALUES[i + 1]) - f32::from(VALUES[i]);
        level += if x > *midpoint { gap } else { 0.0 };
    }
    level
}

/// The scale, of either sign, of least error for weights `scale * value`, among a few candidates.
pub(super) fn fit(x: &[f32; GROUP]) -> f32 {
    // The ends of the codebook differ, so the weight farthest from zero is mapped near each of
    // them: from beyond the end, where it is clipped in exchange for a finer scale, to well inside.
    let ends = [VALUES[0], VALUES[15]].map(f32::from);
    let grids = ends
        .into_iter()
        .flat_map(|end| (-5_i8..=3).map(move |i| end + 5.0 * f32::from(i) * end.signum()));
    scale(x, importance, grids, nearest)
}
