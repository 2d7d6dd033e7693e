//! Dropout of exactly the elements that the CPU drops, since a run may start on one and resume on
//! the other.
//!
//! A row's keys are 64-bit hashes of its index; plain WGSL lacks 64-bit integers, so they are pairs
//! of words here. One cube per row.

use crate::dropout::Dropout;
use crate::gpu::launch::{argument, cubes, matrix};
use crate::gpu::{Floats, GpuError};
use cubecl::prelude::*;

/// Units that share a row.
const UNITS: usize = 256;

/// A 64-bit integer.
#[derive(CubeType, Clone, Copy)]
struct U64 {
    high: u32,
    low: u32,
}

/// The 64-bit product of two words.
#[cube]
fn full_product(a: u32, b: u32) -> U64 {
    let (a_low, a_high) = (a & 0xffffu32, a >> 16u32);
    let (b_low, b_high) = (b & 0xffffu32, b >> 16u32);
    let (first, second) = (a_low * b_high, a_high * b_low);
    let lowest = a_low * b_low;
    let middle = (lowest >> 16u32) + (first & 0xffffu32) + (second & 0xffffu32);
    U64 {
        high: a_high * b_high + (first >> 16u32) + (second >> 16u32) + (middle >> 16u32),
        low: (lowest & 0xffffu32) | (middle << 16u32),
    }
}

/// The low 64 bits of `x` times the integer of two words.
#[cube]
fn wrapping_mul(x: U64, high: u32, low: u32) -> U64 {
    let full_product = full_product(x.low, low);
    U64 {
        high: full_product.high + x.high * low + x.low * high,
        low: full_product.low,
    }
}

/// `x ^ x >> by`, for `by` from 1 to 31.
#[cube]
fn xor_shift(x: U64, by: u32) -> U64 {
    U64 {
        high: x.high ^ (x.high >> by),
        low: x.low ^ ((x.low >> by) | (x.high << (32u32 - by))),
    }
}

/// The finaliser of SplitMix64.
#[cube]
fn mix(x: U64) -> U64 {
    let x = wrapping_mul(xor_shift(x, 30u32), 0xbf58_476du32, 0x1ce4_e5b9u32);
    let x = wrapping_mul(xor_shift(x, 27u32), 0x94d0_49bbu32, 0x1331_11ebu32);
    xor_shift(x, 31u32)
}

#[cube(launch_unchecked)]
fn dropout_kernel(
    x: &[f32],
    out: &mut [f32],
    rows: usize,
    cols: usize,
    seed_high: u32,
    seed_low: u32,
    least: u32,
    scale: f32,
    #[comptime] add: bool,
) {
    if CUBE_POS >= rows {
        terminate!();
    }
    let row = mix(U64 {
        high: 0u32,
        low: CUBE_POS as u32 + 1u32,
    });
    let low = seed_low + row.low;
    let carry = select(low < seed_low, 1u32, 0u32);
    let keys = mix(U64 {
        high: seed_high + row.high + carry,
        low,
    });
    let mut column = UNIT_POS as usize;
    while column < cols {
        // As on the CPU: the finaliser of MurmurHash3 between two keys.
        let hash = (column as u32 * 0x9e37_79b9u32) ^ keys.low;
        let hash = (hash ^ (hash >> 16u32)) * 0x85eb_ca6bu32;
        let hash = ((hash ^ (hash >> 13u32)) + keys.high) * 0xc2b2_ae35u32;
        let hash = hash ^ (hash >> 16u32);
        let at = CUBE_POS * cols + column;
        let value = select((hash >> 1u32) >= least, x[at] * scale, 0.0f32);
        if comptime!(add) {
            out[at] += value;
        } else {
            out[at] = value;
        }
        column += UNITS;
    }
}

/// Writes `x` after dropout to `out`, of the same shape, or adds it.
pub(super) fn dropout_into(
    client: &Client,
    x: &Floats,
    dropout: Dropout,
    out: &Floats,
    add: bool,
) -> Result<(), GpuError> {
    let Floats { rows, cols, .. } = *x;
    let x = matrix(x, "input of a dropout")?;
    let result = argument(&out.handle, "output of a dropout", rows * cols)?;
    let least = (f64::from(dropout.rate) * f64::from(1_u32 << 31)) as u32;
    let scale = 1.0 / (1.0 - dropout.rate);
    let (high, low) = ((dropout.seed >> 32) as u32, dropout.seed as u32);
    if rows * cols > 0 {
        let (count, dim) = (cubes(client, rows)?, CubeDim::new_1d(UNITS as u32));
        // SAFETY: the kernel accesses rows and columns below the shape, which the buffers were
        // checked to hold.
        unsafe {
            dropout_kernel::launch_unchecked(client, count, dim, x, result, rows, cols, high, low, least, scale, add);
        }
    }
    Ok(())
}

/// `x [T, D]` after dropout of the elements that [`Dropout::drop_in_place`] drops.
///
/// # Errors
/// Returns an error if the buffer is too short for its shape.
pub fn dropout_rows(client: &Client, x: &Floats, dropout: Dropout) -> Result<Floats, GpuError> {
    matrix(x, "input of a dropout")?;
    let out = Floats::empty(client, x.rows, x.cols);
    dropout_into(client, x, dropout, &out, false)?;
    Ok(out)
}
