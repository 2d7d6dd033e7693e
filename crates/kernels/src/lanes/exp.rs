//! Exponential, sigmoid and tanh on lanes.

use super::Lanes;

/// `ln(2)` in two parts (Cody-Waite): products of the first with integers are exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;
/// Inputs are clamped to this: below it, the result would be subnormal.
const MIN_INPUT: f32 = -87.336_54;
/// Inputs are clamped to this: above it, the result would be infinite.
const MAX_INPUT: f32 = 88.376_26;

/// `e^x`, within 2 ulp from -87.3 to 88.3. Lanes beyond, including infinities, are clamped to these
/// ends and give 1.2e-38 and 2.4e38. NaN gives NaN, so that it shows in a loss.
///
/// `x = n ln 2 + r` with `r` at most `ln 2 / 2`; `e^r` by the Taylor polynomial of degree 7, whose
/// error there, 5e-9, is below an f32's rounding.
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
    // `x` is the second operand: `min` and `max` return it if either is NaN.
    let x = l.max(l.splat(MIN_INPUT), l.min(l.splat(MAX_INPUT), x));
    let n = l.round(l.mul(x, l.splat(std::f32::consts::LOG2_E)));
    let r = l.fma(n, l.splat(-LN2_HIGH), x);
    let r = l.fma(n, l.splat(-LN2_LOW), r);
    let mut sum = l.splat(TAYLOR[0]);
    for coefficient in &TAYLOR[1..] {
        sum = l.fma(sum, r, l.splat(*coefficient));
    }
    l.scalef(l.fma(sum, r, l.splat(1.0)), n)
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn sigmoid<L: Lanes>(l: L, x: L::Floats) -> L::Floats {
    let e = exp(l, l.sub(l.splat(0.0), x));
    l.div(l.splat(1.0), l.add(l.splat(1.0), e))
}

/// `tanh(x) = 2 sigmoid(2x) - 1`. Near zero its absolute error is the rounding error of an f32 near
/// one.
#[inline(always)]
pub(crate) fn tanh<L: Lanes>(l: L, x: L::Floats) -> L::Floats {
    l.sub(l.mul(l.splat(2.0), sigmoid(l, l.add(x, x))), l.splat(1.0))
}

/// Inputs of [`exp_m1`] are clamped to this and its negative: there, `tanh` rounds to 1.
const MAX_EXP_M1_INPUT: f32 = 20.0;

/// `e^x - 1` of inputs clamped to -20 to 20, with a relative error of a few ulp, also near zero.
///
/// As [`exp`], `x = n ln 2 + r`; then `e^x - 1 = 2^n (e^r - 1) + (2^n - 1)`, and `e^r - 1` is `r`
/// times a polynomial.
#[inline(always)]
fn exp_m1<L: Lanes>(l: L, x: L::Floats) -> L::Floats {
    const TAYLOR: [f32; 7] = [
        1.0 / 5040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        1.0 / 2.0,
        1.0,
    ];
    // `x` is the second operand: `min` and `max` return it if either is NaN.
    let x = l.max(l.splat(-MAX_EXP_M1_INPUT), l.min(l.splat(MAX_EXP_M1_INPUT), x));
    let n = l.round(l.mul(x, l.splat(std::f32::consts::LOG2_E)));
    let r = l.fma(n, l.splat(-LN2_HIGH), x);
    let r = l.fma(n, l.splat(-LN2_LOW), r);
    let mut sum = l.splat(TAYLOR[0]);
    for coefficient in &TAYLOR[1..] {
        sum = l.fma(sum, r, l.splat(*coefficient));
    }
    let power = l.scalef(l.splat(1.0), n);
    l.fma(power, l.mul(r, sum), l.sub(power, l.splat(1.0)))
}

/// `tanh(x) = (e^2x - 1) / (e^2x + 1)`, with a relative error of a few ulp, also near zero, unlike
/// [`tanh`]. From 10 on it is 1. NaN gives NaN.
#[inline(always)]
pub(crate) fn accurate_tanh<L: Lanes>(l: L, x: L::Floats) -> L::Floats {
    let e = exp_m1(l, l.add(x, x));
    l.div(e, l.add(e, l.splat(2.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;
    use crate::lanes::{WIDTH, on_lanes};

    on_lanes! {
        fn exp_of<L>(l; x: &mut [f32; WIDTH]) {
            let y = exp(l, l.load(x));
            l.store(y, x);
        }
    }

    on_lanes! {
        fn sigmoid_of<L>(l; x: &mut [f32; WIDTH]) {
            let y = sigmoid(l, l.load(x));
            l.store(y, x);
        }
    }

    on_lanes! {
        fn tanh_of<L>(l; x: &mut [f32; WIDTH]) {
            let y = tanh(l, l.load(x));
            l.store(y, x);
        }
    }

    on_lanes! {
        fn accurate_tanh_of<L>(l; x: &mut [f32; WIDTH]) {
            let y = accurate_tanh(l, l.load(x));
            l.store(y, x);
        }
    }

    #[test]
    fn exp_is_within_two_ulp() {
        for isa in Isa::available() {
            for i in 0..20_000 {
                let x: [f32; WIDTH] = std::array::from_fn(|lane| -87.3 + (i * WIDTH + lane) as f32 * 5.48e-4);
                let mut y = x;
                exp_of(isa, &mut y);
                for (x, y) in x.iter().zip(y) {
                    let expected = f64::from(*x).exp();
                    let error = (f64::from(y) - expected).abs() / expected;
                    assert!(error < 2.4e-7, "{isa:?}: exp({x}) = {y}, expected {expected}");
                }
            }
        }
    }

    #[test]
    fn exp_clamps_infinities() {
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

    /// Every 4099th bit pattern of both signs, and edge cases.
    fn tested_floats() -> impl Iterator<Item = f32> {
        let edge_cases = [
            0.0,
            f32::MIN_POSITIVE,
            f32::from_bits(1),
            MIN_INPUT.next_up(),
            MIN_INPUT,
            MIN_INPUT.next_down(),
            -103.98,
            MAX_INPUT.next_down(),
            MAX_INPUT,
            MAX_INPUT.next_up(),
            88.73,
            3.4e38,
            f32::MAX,
            f32::INFINITY,
            f32::NAN,
            f32::from_bits(0x7f80_0001),
        ];
        let swept = (0..=u32::MAX).step_by(4099).map(f32::from_bits);
        swept.chain(edge_cases.into_iter().flat_map(|x| [x, -x]))
    }

    #[test]
    fn exp_clamps_and_propagates_nan_on_every_level() {
        let all: Vec<f32> = tested_floats().collect();
        for isa in Isa::available() {
            for x in all.chunks(WIDTH) {
                let mut y = [0.0; WIDTH];
                y[..x.len()].copy_from_slice(x);
                exp_of(isa, &mut y);
                for (x, y) in x.iter().zip(y) {
                    let expected = f64::from(x.clamp(MIN_INPUT, MAX_INPUT)).exp();
                    let correct = if x.is_nan() {
                        y.is_nan()
                    } else {
                        (f64::from(y) - expected).abs() < 2.4e-7 * expected
                    };
                    assert!(correct, "{isa:?}: exp({x}) = {y}, expected {expected}");
                }
            }
        }
    }

    #[test]
    fn sigmoid_and_tanh_saturate_and_propagate_nan() {
        for isa in Isa::available() {
            for x in tested_floats() {
                let (mut s, mut t) = ([x; WIDTH], [x; WIDTH]);
                sigmoid_of(isa, &mut s);
                tanh_of(isa, &mut t);
                for (actual, expected) in [(s, 1.0 / (1.0 + f64::from(-x).exp())), (t, f64::from(x).tanh())] {
                    let correct = |y: f32| {
                        if x.is_nan() {
                            y.is_nan()
                        } else {
                            (f64::from(y) - expected).abs() < 3e-7
                        }
                    };
                    assert!(
                        actual.into_iter().all(correct),
                        "{isa:?}: {x} gives {actual:?}, expected {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn tanh_matches_f64() {
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

    #[test]
    fn accurate_tanh_has_a_small_relative_error_at_every_size() {
        let near_one = (0..32_000).map(|i| -12.0 + i as f32 * 7.5e-4);
        let all: Vec<f32> = tested_floats().chain(near_one).collect();
        for isa in Isa::available() {
            for x in all.chunks(WIDTH) {
                let mut y = [0.0; WIDTH];
                y[..x.len()].copy_from_slice(x);
                accurate_tanh_of(isa, &mut y);
                for (x, y) in x.iter().zip(y) {
                    let expected = f64::from(*x).tanh();
                    // Four roundings of at most 1.2e-7 each; subnormal results are rounded to
                    // multiples of the smallest number.
                    let tolerance = 5e-7 * expected.abs() + f64::from(f32::from_bits(1));
                    let correct = if x.is_nan() {
                        y.is_nan()
                    } else {
                        (f64::from(y) - expected).abs() <= tolerance && y.abs() <= 1.0
                    };
                    assert!(correct, "{isa:?}: tanh({x}) = {y}, expected {expected}");
                }
            }
        }
    }
}
