//! Softcaps of attention scores and logits: `cap * tanh(x / cap)`, as in Gemma 2.
//! <https://arxiv.org/abs/2408.00118>
//!
//! An element's bits depend only on its value, not on its place in a slice.

use crate::isa::Isa;
use crate::lanes::{Lanes, WIDTH, accurate_tanh, on_lanes};
use crate::team;

/// Elements of a work chunk.
const WORK_CHUNK: usize = 4096;

/// `x / cap` after the softcap: `tanh(x / cap)`.
#[inline(always)]
pub(crate) fn capped_ratio<L: Lanes>(l: L, x: L::Floats, cap: L::Floats) -> L::Floats {
    accurate_tanh(l, l.div(x, cap))
}

/// The derivative of the softcap, from the ratio `t` of its result to the cap: `1 - t^2`, as a
/// product, which is more precise where it is small.
#[inline(always)]
pub(crate) fn slope<L: Lanes>(l: L, ratio: L::Floats) -> L::Floats {
    let one = l.splat(1.0);
    l.mul(l.sub(one, ratio), l.add(one, ratio))
}

/// [`slope`] of one ratio.
pub(crate) fn scalar_slope(ratio: f32) -> f32 {
    (1.0 - ratio) * (1.0 + ratio)
}

on_lanes! {
    /// Applies the softcap to each element.
    pub(crate) fn cap_in_place<L>(l; x: &mut [f32], cap: f32) {
        let cap = l.splat(cap);
        let (whole, rest) = x.as_chunks_mut::<WIDTH>();
        for x in whole {
            let capped = l.mul(cap, capped_ratio(l, l.load(x), cap));
            l.store(capped, x);
        }
        if !rest.is_empty() {
            let mut padded = [0.0; WIDTH];
            padded[..rest.len()].copy_from_slice(rest);
            let capped = l.mul(cap, capped_ratio(l, l.load(&padded), cap));
            l.store(capped, &mut padded);
            rest.copy_from_slice(&padded[..rest.len()]);
        }
    }
}

/// Replaces each `x` by `cap * tanh(x / cap)`. The cap should be positive and finite; others give
/// NaN or zeros. Infinities become the cap with their sign, and NaN stays NaN.
pub fn softcap_in_place(x: &mut [f32], cap: f32) {
    let isa = Isa::best();
    team::run_over(x, WORK_CHUNK, &|_, x| cap_in_place(isa, x, cap));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{noise, softcapped, wide};

    #[test]
    fn capped_values_match_f64_in_slices_of_any_length() {
        let x: Vec<f32> = noise(1, 1000).iter().map(|x| 300.0 * x.powi(5)).collect();
        for isa in Isa::available() {
            for cap in [1e-3, 30.0, 50.0, 1e6, 1e30] {
                let mut whole = x.clone();
                cap_in_place(isa, &mut whole, cap);
                for (actual, expected) in whole.iter().zip(softcapped(&wide(&x), f64::from(cap))) {
                    // The quotient, tanh, and the product. With the largest cap, the quotients of
                    // the smallest elements are subnormal.
                    let tolerance = 1e-6 * expected.abs() + 1e-8;
                    let error = (f64::from(*actual) - expected).abs();
                    assert!(error <= tolerance, "{isa:?}, {cap}: {actual}, expected {expected}");
                }
                for length in [1, 15, 16, 17, 40] {
                    for first in [0, 3, 333] {
                        let mut part = x[first..first + length].to_vec();
                        cap_in_place(isa, &mut part, cap);
                        assert!(
                            part == whole[first..first + length],
                            "{isa:?}, {cap}, {length} from {first}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn infinities_become_the_cap_and_nan_stays() {
        for isa in Isa::available() {
            let mut x = [f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, f32::NAN, 0.0];
            cap_in_place(isa, &mut x, 30.0);
            assert_eq!(
                [x[0], x[1], x[2], x[3], x[5]],
                [30.0, -30.0, 30.0, -30.0, 0.0],
                "{isa:?}"
            );
            assert!(x[4].is_nan(), "{isa:?}");
        }
    }

    /// Caps that no model has must not panic.
    #[test]
    fn any_cap_is_accepted() {
        for cap in [0.0, -1.0, 1e-45, f32::MAX, f32::INFINITY, f32::NAN] {
            softcap_in_place(&mut noise(2, 5000), cap);
        }
    }
}
