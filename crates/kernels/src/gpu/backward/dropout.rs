//! Dropout of exactly the elements that the CPU drops, since a run may start on one device and
//! resume on the other.
//!
//! A row's keys are the two halves of a 64-bit hash of its index. Plain WGSL lacks 64-bit integers,
//! so the hash is computed with pairs of words. One cube per row.

use crate::dropout::Dropout;
use crate::gpu::launch::{buffer_arg, cube_count, matrix_arg};
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
    let (low_high, high_low) = (a_low * b_high, a_high * b_low);
    let low_low = a_low * b_low;
    let middle = (low_low >> 16u32) + (low_high & 0xffffu32) + (high_low & 0xffffu32);
    U64 {
        high: a_high * b_high + (low_high >> 16u32) + (high_low >> 16u32) + (middle >> 16u32),
        low: (low_low & 0xffffu32) | (middle << 16u32),
    }
}

/// The low 64 bits of `x` times the integer with the words `high` and `low`.
#[cube]
fn wrapping_mul(x: U64, high: u32, low: u32) -> U64 {
    let full_product = full_product(x.low, low);
    U64 {
        high: full_product.high + x.high * low + x.low * high,
        low: full_product.low,
    }
}

/// `x ^ (x >> shift)`, for `shift` from 1 to 31.
#[cube]
fn xor_shift(x: U64, shift: u32) -> U64 {
    U64 {
        high: x.high ^ (x.high >> shift),
        low: x.low ^ ((x.low >> shift) | (x.high << (32u32 - shift))),
    }
}

/// The finalizer of SplitMix64.
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
    threshold: u32,
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
        // As on the CPU: the finalizer of MurmurHash3 between two keys.
        let hash = (column as u32 * 0x9e37_79b9u32) ^ keys.low;
        let hash = (hash ^ (hash >> 16u32)) * 0x85eb_ca6bu32;
        let hash = ((hash ^ (hash >> 13u32)) + keys.high) * 0xc2b2_ae35u32;
        let hash = hash ^ (hash >> 16u32);
        let index = CUBE_POS * cols + column;
        let value = select((hash >> 1u32) >= threshold, x[index] * scale, 0.0f32);
        if comptime!(add) {
            out[index] += value;
        } else {
            out[index] = value;
        }
        column += UNITS;
    }
}

/// Writes `x` after dropout to `out`, which has the same shape, or adds it.
pub(super) fn dropout_into(
    client: &Client,
    x: &Floats,
    dropout: Dropout,
    out: &Floats,
    add: bool,
) -> Result<(), GpuError> {
    let Floats { rows, cols, .. } = *x;
    let x = matrix_arg(x, "input of a dropout")?;
    let result = buffer_arg(&out.handle, "output of a dropout", rows * cols)?;
    let threshold = (f64::from(dropout.rate) * f64::from(1_u32 << 31)) as u32;
    let scale = 1.0 / (1.0 - dropout.rate);
    let (high, low) = ((dropout.seed >> 32) as u32, dropout.seed as u32);
    if rows * cols > 0 {
        let (count, dim) = (cube_count(client, rows)?, CubeDim::new_1d(UNITS as u32));
        // SAFETY: the kernel accesses rows and columns below the shape, which the buffers were
        // checked to hold.
        unsafe {
            dropout_kernel::launch_unchecked(
                client, count, dim, x, result, rows, cols, high, low, threshold, scale, add,
            );
        }
    }
    Ok(())
}

/// `x [T, D]` after dropout of the elements that [`Dropout::drop_in_place`] drops.
///
/// # Errors
/// Returns an error if the buffer is too short for its shape.
pub fn dropout_rows(client: &Client, x: &Floats, dropout: Dropout) -> Result<Floats, GpuError> {
    matrix_arg(x, "input of a dropout")?;
    let out = Floats::empty(client, x.rows, x.cols);
    dropout_into(client, x, dropout, &out, false)?;
    Ok(out)
}
