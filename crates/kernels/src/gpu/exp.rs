//! The bounded exponential of all kernels.

use cubecl::prelude::*;

/// `exp(x)`, flushed to 0 below -80: `exp(-80)` is 2e-35, negligible beside the 1 of a softmax's
/// maximum.
///
/// Kernels initialize a maximum with the lowest f32, so that arguments of -3e38 and of minus
/// infinity occur, whose exponential differs between devices. NaN stays NaN.
#[cube]
pub(super) fn bounded_exp(x: f32) -> f32 {
    let is_negligible = x < -80.0f32;
    select(is_negligible, 0.0f32, f32::exp(select(is_negligible, -80.0f32, x)))
}
