//! Softcaps of attention scores and logits: `cap * tanh(x / cap)`.

use super::exp::bounded_exp;
use super::launch::{cube_count, matrix_arg};
use super::{Floats, GpuError};
use cubecl::prelude::*;

/// Units of a cube.
const UNITS: usize = 256;
/// Coefficients of `x^3`, `x^5`, `x^7` and `x^9` in the Taylor series of `tanh(x)`.
const CUBIC: f32 = -1.0 / 3.0;
const QUINTIC: f32 = 2.0 / 15.0;
const SEPTIC: f32 = -17.0 / 315.0;
const NONIC: f32 = 62.0 / 2835.0;
/// Magnitudes below this use the series. Its error there is below 1e-8; the formula with an
/// exponential cancels near zero.
const SERIES_END: f32 = 0.25;

/// `tanh(x)`, also near zero with a relative error of a few ulp, and 1 for any large `x`; of
/// devices' own functions, some overflow. NaN stays NaN.
#[cube]
fn bounded_tanh(x: f32) -> f32 {
    let magnitude = max(x, -x);
    let twice = magnitude + magnitude;
    let e = bounded_exp(-twice);
    let large = (1.0f32 - e) / (1.0f32 + e);
    // Bounded, since a device computes both.
    let square = min(x * x, 1.0f32);
    let series = CUBIC + square * (QUINTIC + square * (SEPTIC + square * NONIC));
    let small = x + x * square * series;
    select(magnitude >= SERIES_END, select(x < 0.0f32, -large, large), small)
}

/// `cap * tanh(x / cap)`.
#[cube]
pub(super) fn softcapped(x: f32, cap: f32) -> f32 {
    cap * bounded_tanh(x / cap)
}

/// The derivative of [`softcapped()`] from its result: `1 - (capped / cap)^2`, as a product, which
/// is more precise where it is small.
#[cube]
pub(super) fn softcap_slope(capped: f32, cap: f32) -> f32 {
    let ratio = capped / cap;
    (1.0f32 - ratio) * (1.0f32 + ratio)
}

#[cube(launch_unchecked)]
fn cap_elements(x: &mut [f32], elements: usize, cap: f32) {
    if ABSOLUTE_POS >= elements {
        terminate!();
    }
    x[ABSOLUTE_POS] = softcapped(x[ABSOLUTE_POS], cap);
}

/// Replaces each element `x` by `cap * tanh(x / cap)`. The cap should be positive and finite.
///
/// # Errors
/// Returns an error if the buffer is shorter than its shape.
pub fn softcap_in_place(client: &Client, x: &Floats, cap: f32) -> Result<(), GpuError> {
    let arg = matrix_arg(x, "logits")?;
    let elements = x.rows * x.cols;
    if elements > 0 {
        let count = cube_count(client, elements.div_ceil(UNITS))?;
        let dim = CubeDim::new_1d(UNITS as u32);
        // SAFETY: the kernel accesses elements of the matrix, which was checked.
        unsafe { cap_elements::launch_unchecked(client, count, dim, arg, elements, cap) };
    }
    Ok(())
}
