//! What the units of a cube have, made one.

use cubecl::prelude::*;

/// The sum of what the units have, of which there are `units`, a power of two; `shared` has a place for each. All units of a
/// cube call it together, and all get the sum.
#[cube]
pub(super) fn sum(value: f32, shared: &mut [f32], #[comptime] units: usize) -> f32 {
    let unit = UNIT_POS as usize;
    // Somebody may still be reading what was there.
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

/// The greatest of what the units have, as [`sum`] is their sum.
#[cube]
pub(super) fn greatest(value: f32, shared: &mut [f32], #[comptime] units: usize) -> f32 {
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
