//! Expanding a weight to f32 on the device.
//!
//! A unit writes one weight, so neighbours write neighbours; what the weights of a block share is read again by each and comes
//! from the cache. The grid is as many cubes as it takes, spread over three dimensions so that none passes the device's limit.
//! A weight or its expansion beyond what one binding may hold (2 GiB with wgpu on Vulkan and DX12, less on some devices) is
//! the caller's to split into ranges of rows.

use super::blocks::weight;
use super::launch::measured;
use super::{Floats, GpuError, Weight};
use crate::blocks::Quant;
use cubecl::calculate_cube_count_elemwise;
use cubecl::prelude::*;
use cubecl::server::Handle;

/// The words that hold `bytes`, little-endian, the last filled up with zeros: how a kernel wants a file's blocks.
pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes
        .chunks(4)
        .map(|chunk| {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            u32::from_le_bytes(word)
        })
        .collect()
}

#[cube(launch)]
fn all_rows(words: &[u32], out: &mut [f32], #[comptime] quant: Quant) {
    if ABSOLUTE_POS >= out.len() {
        terminate!();
    }
    let elements = comptime!(quant.block_elements());
    let bytes = comptime!(quant.block_bytes());
    let at = ABSOLUTE_POS / elements * bytes;
    out[ABSOLUTE_POS] = weight(words, at, ABSOLUTE_POS % elements, quant);
}

#[cube(launch)]
fn some_rows(words: &[u32], ids: &[u32], out: &mut [f32], cols: usize, scale: f32, #[comptime] quant: Quant) {
    if ABSOLUTE_POS >= out.len() {
        terminate!();
    }
    let elements = comptime!(quant.block_elements());
    let bytes = comptime!(quant.block_bytes());
    let column = ABSOLUTE_POS % cols;
    let row = ids[ABSOLUTE_POS / cols] as usize;
    let at = (row * (cols / elements) + column / elements) * bytes;
    out[ABSOLUTE_POS] = scale * weight(words, at, column % elements, quant);
}

/// Expands a weight `[rows, cols]` in the file's order of blocks to f32: returns a buffer of `rows * cols`.
///
/// # Errors
/// Where a row is not whole blocks, or `words` holds less than the weight.
pub fn dequantize(client: &Client, words: Handle, quant: Quant, rows: usize, cols: usize) -> Result<Handle, GpuError> {
    let bytes = checked_bytes(&words, quant, rows, cols)?;
    let weights = rows * cols;
    let out = client.empty(weights * size_of::<f32>());
    if weights > 0 {
        let dim = CubeDim::new(client, weights);
        // SAFETY: the lengths are those of the buffers: `words` was measured, `out` was made for this.
        let (words, result) = unsafe {
            (
                BufferArg::from_raw_parts(words, bytes.div_ceil(4)),
                BufferArg::from_raw_parts(out.clone(), weights),
            )
        };
        all_rows::launch(
            client,
            calculate_cube_count_elemwise(client, weights, dim),
            dim,
            words,
            result,
            quant,
        );
    }
    Ok(out)
}

/// Rows `ids`, a buffer of `count` words each below its rows, of a table, times `scale`: the embeddings `[count, cols]` of tokens.
///
/// An id that is too large reads nothing outside the table, but what it gives is not specified.
///
/// # Errors
/// Where a row is not whole blocks, or a buffer holds less than its shape.
pub fn embed(client: &Client, table: &Weight, ids: Handle, count: usize, scale: f32) -> Result<Floats, GpuError> {
    let Weight {
        ref words,
        quant,
        rows,
        cols,
    } = *table;
    let words = words.clone();
    let bytes = checked_bytes(&words, quant, rows, cols)?;
    let weights = count.checked_mul(cols).ok_or(GpuError::Shape {
        quant,
        rows: count,
        cols,
    })?;
    measured(&ids, "list of rows", count as u64 * 4)?;
    let out = client.empty(weights * size_of::<f32>());
    if weights > 0 {
        let dim = CubeDim::new(client, weights);
        // SAFETY: the lengths are those of the buffers: `words` and `ids` were measured, `out` was made for this.
        let (words, ids, result) = unsafe {
            (
                BufferArg::from_raw_parts(words, bytes.div_ceil(4)),
                BufferArg::from_raw_parts(ids, count),
                BufferArg::from_raw_parts(out.clone(), weights),
            )
        };
        let cubes = calculate_cube_count_elemwise(client, weights, dim);
        some_rows::launch(client, cubes, dim, words, ids, result, cols, scale, quant);
    }
    Floats::new(out, count, cols)
}

/// The bytes that the weight takes, having seen that the buffer holds them.
fn checked_bytes(words: &Handle, quant: Quant, rows: usize, cols: usize) -> Result<usize, GpuError> {
    let shape = GpuError::Shape { quant, rows, cols };
    let bytes = quant
        .row_bytes(cols)
        .and_then(|row| row.checked_mul(rows))
        .ok_or(shape)?;
    let expanded = rows
        .checked_mul(cols)
        .and_then(|n| n.checked_mul(size_of::<f32>()))
        .ok_or(shape)?;
    // The kernels count bytes and weights in 32 bits.
    if bytes > u32::MAX as usize || expanded > u32::MAX as usize {
        return Err(shape);
    }
    measured(words, "weight", bytes.div_ceil(4) as u64 * 4)?;
    Ok(bytes)
}
