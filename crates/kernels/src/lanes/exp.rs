//! The exponential and what is made of it, on lanes.

use super::Lanes;

/// `ln(2)` in two parts: the first has so few bits that its products with whole numbers are exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;
/// Below this the result would be less than the smallest normal number; taken as zero or next to it.
const LEAST: f32 = -87.336_54;
/// Above this the result would be infinite.
const GREATEST: f32 = 88.376_26;

/// `e^x`, within 2 units in the last place for lanes from -87.3 to 88.3; lanes beyond are taken as those ends, so a lane of
/// minus infinity gives 1.2e-38. NaN stays NaN in the lanes that AVX gives, and is not relied upon.
///
/// `x = n ln 2 + r` with `r` at most `ln 2 / 2`; `e^r` by the Taylor polynomial of degree 7, whose error there, 5e-9, is
/// below an f32's rounding.
#[inline(always)]
pub(crate) fn exp<L: Lanes>(l: L, x: L::Floats) -> L::Floats {
    const TAYLOR: [f32; 7] = [
        1.0 / 5040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        1.0 / 2.0,
        1.0,
    ];
    let x = l.max(l.min(x, l.splat(GREATEST)), l.splat(LEAST));
    let n = l.round(l.mul(x, l.splat(std::f32::consts::LOG2_E)));
    let r = l.mul_add(n, l.splat(-LN2_HIGH), x);
    let r = l.mul_add(n, l.splat(-LN2_LOW), r);
    let mut sum = l.splat(TAYLOR[0]);
    for coefficient in &TAYLOR[1..] {
        sum = l.mul_add(sum, r, l.splat(*coefficient));
    }
    l.times_power_of_two(l.mul_add(sum, r, l.splat(1.0)), n)
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn sigmoid<L: Lanes>(l: L, x: L::Floats) -> L::Floats {
    let e = exp(l, l.sub(l.splat(0.0), x));
    l.div(l.splat(1.0), l.add(l.splat(1.0), e))
}

/// `tanh(x) = 2 sigmoid(2x) - 1`; near zero its error is that of an f32 of size one.
#[inline(always)]
pub(crate) fn tanh<L: Lanes>(l: L, x: L::Floats) -> L::Floats {
    l.sub(l.mul(l.splat(2.0), sigmoid(l, l.add(x, x))), l.splat(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dot::Isa;
    use crate::lanes::{WIDTH, on_lanes};

    on_lanes! {
        fn exp_of<L>(l; x: &mut [f32; WIDTH]) {
            let y = exp(l, l.load(x));
            l.store(y, x);
        }
    }

    on_lanes! {
        fn tanh_of<L>(l; x: &mut [f32; WIDTH]) {
            let y = tanh(l, l.load(x));
            l.store(y, x);
        }
    }

    #[test]
    fn exp_is_that_of_f64_to_two_units_in_the_last_place() {
        for isa in Isa::available() {
            for i in 0..20_000 {
                let x: [f32; WIDTH] = std::array::from_fn(|lane| -87.3 + (i * WIDTH + lane) as f32 * 5.48e-4);
                let mut y = x;
                exp_of(isa, &mut y);
                for (x, y) in x.iter().zip(y) {
                    let truth = f64::from(*x).exp();
                    let error = (f64::from(y) - truth).abs() / truth;
                    assert!(error < 2.4e-7, "{isa:?}: exp({x}) = {y}, not {truth}");
                }
            }
        }
    }

    #[test]
    fn exp_ends_are_finite_and_minus_infinity_vanishes() {
        for isa in Isa::available() {
            let mut x = [f32::NEG_INFINITY; WIDTH];
            x[1] = -1e30;
            x[2] = 1e30;
            exp_of(isa, &mut x);
            assert!(
                x[0] < 1.3e-38 && x[1] < 1.3e-38 && x[2].is_finite() && x[2] > 1e38,
                "{isa:?}: {x:?}"
            );
        }
    }

    #[test]
    fn tanh_is_that_of_f64() {
        for isa in Isa::available() {
            for i in 0..2_000 {
                let x: [f32; WIDTH] = std::array::from_fn(|lane| -12.0 + (i * WIDTH + lane) as f32 * 7.5e-4);
                let mut y = x;
                tanh_of(isa, &mut y);
                for (x, y) in x.iter().zip(y) {
                    assert!(
                        (f64::from(y) - f64::from(*x).tanh()).abs() < 3e-7,
                        "{isa:?}: tanh({x}) = {y}"
                    );
                }
            }
        }
    }
}
