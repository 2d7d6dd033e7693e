//! Reductions over the units of a cube.

use cubecl::prelude::*;

/// Sums the values of all `units` units of a cube, a power of two; `shared` has one element per
/// unit. All units of a cube must call it together, and each gets the sum.
#[cube]
pub(super) fn reduce_sum(value: f32, shared: &mut [f32], #[comptime] units: usize) -> f32 {
    let unit = UNIT_POS as usize;
    // Other units may still be reading the previous result.
    sync_cube();
    shared[unit] = value;
    let mut half = comptime!(units / 2).runtime();
    while half > 0 {
        sync_cube();
        if unit < half {
            shared[unit] += shared[unit + half];
        }
        half /= 2;
    }
    sync_cube();
    shared[0]
}

/// The maximum over the units of a cube; called as [`reduce_sum`].
#[cube]
pub(super) fn reduce_max(value: f32, shared: &mut [f32], #[comptime] units: usize) -> f32 {
    let unit = UNIT_POS as usize;
    sync_cube();
    shared[unit] = value;
    let mut half = comptime!(units / 2).runtime();
    while half > 0 {
        sync_cube();
        if unit < half {
            shared[unit] = max(shared[unit], shared[unit + half]);
        }
        half /= 2;
    }
    sync_cube();
    shared[0]
}
