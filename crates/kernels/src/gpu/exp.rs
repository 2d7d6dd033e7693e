//! The exponential that all kernels share.

use cubecl::prelude::*;

/// `exp(x)`, and 0 below -80: `exp(-80)` is 2e-35, which counts for nothing beside the 1 of a softmax's greatest.
///
/// Kernels start a greatest at the least f32, so that differences of -3e38 and of minus infinity come up, whose exponential each device
/// makes in its own way. What is not a number stays none.
#[cube]
pub(super) fn bounded_exp(x: f32) -> f32 {
    let far = x < -80.0f32;
    select(far, 0.0f32, f32::exp(select(far, -80.0f32, x)))
}
