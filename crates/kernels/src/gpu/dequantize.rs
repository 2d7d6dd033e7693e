//! Dequantization to f32 on the device.
//!
//! Each unit writes one weight, so writes are coalesced; each unit of a block reads the block's
//! scales, which come from the cache. The grid is spread over three dimensions so that none exceeds
//! the device's limit. The caller splits a weight into ranges of rows if the weight or its
//! dequantized copy exceeds the limit of one binding (2 GiB with wgpu on Vulkan and DX12, less on
//! some devices).

use super::decode::weight;
use super::launch::check_size;
use super::{Floats, GpuError, Weight};
use crate::blocks::Quant;
use cubecl::calculate_cube_count_elemwise;
use cubecl::prelude::*;
use cubecl::server::Handle;

/// Converts `bytes` to little-endian words, the last one zero-padded: the form in which kernels
/// take a file's blocks.
pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes
        .chunks(4)
        .map(|bytes| {
            let mut word = [0; 4];
            word[..bytes.len()].copy_from_slice(bytes);
            u32::from_le_bytes(word)
        })
        .collect()
}

#[cube(launch)]
fn dequantize_all(words: &[u32], out: &mut [f32], weights: usize, #[comptime] quant: Quant) {
    if ABSOLUTE_POS >= weights {
        terminate!();
    }
    let elements = comptime!(quant.block_elements());
    let bytes = comptime!(quant.block_bytes());
    let block = ABSOLUTE_POS / elements * bytes;
    out[ABSOLUTE_POS] = weight(words, block, ABSOLUTE_POS % elements, quant);
}

#[cube(launch)]
fn dequantize_rows(
    words: &[u32],
    ids: &[u32],
    out: &mut [f32],
    weights: usize,
    cols: usize,
    scale: f32,
    #[comptime] quant: Quant,
) {
    if ABSOLUTE_POS >= weights {
        terminate!();
    }
    let elements = comptime!(quant.block_elements());
    let bytes = comptime!(quant.block_bytes());
    let column = ABSOLUTE_POS % cols;
    let row = ids[ABSOLUTE_POS / cols] as usize;
    let block = (row * (cols / elements) + column / elements) * bytes;
    out[ABSOLUTE_POS] = scale * weight(words, block, column % elements, quant);
}

/// Dequantizes a weight `[rows, cols]` in the file's block order to f32: returns a buffer of
/// `rows * cols` elements.
///
/// # Errors
/// Returns an error if a row is not whole blocks or `words` is shorter than the weight.
pub fn dequantize(client: &Client, words: Handle, quant: Quant, rows: usize, cols: usize) -> Result<Handle, GpuError> {
    let bytes = checked_bytes(&words, quant, rows, cols)?;
    let weights = rows * cols;
    let out = client.empty(weights * size_of::<f32>());
    if weights > 0 {
        let dim = CubeDim::new(client, weights);
        // SAFETY: the lengths match the buffers: `words` was checked, `out` was allocated with this
        // length.
        let (words, result) = unsafe {
            (
                BufferArg::from_raw_parts(words, bytes.div_ceil(4)),
                BufferArg::from_raw_parts(out.clone(), weights),
            )
        };
        dequantize_all::launch(
            client,
            calculate_cube_count_elemwise(client, weights, dim),
            dim,
            words,
            result,
            weights,
            quant,
        );
    }
    Ok(out)
}

/// Token embeddings `[count, cols]`: rows `ids` of a table, times `scale`. `ids` is a buffer of
/// `count` words.
///
/// An out-of-range id reads nothing outside the table; its row of the result is unspecified.
///
/// # Errors
/// Returns an error if a row is not whole blocks or a buffer is shorter than its shape.
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
    check_size(&ids, "list of rows", count as u64 * 4)?;
    let out = client.empty(weights * size_of::<f32>());
    if weights > 0 {
        let dim = CubeDim::new(client, weights);
        // SAFETY: the lengths match the buffers: `words` and `ids` were checked, `out` was
        // allocated with this length.
        let (words, ids, result) = unsafe {
            (
                BufferArg::from_raw_parts(words, bytes.div_ceil(4)),
                BufferArg::from_raw_parts(ids, count),
                BufferArg::from_raw_parts(out.clone(), weights),
            )
        };
        let cubes = calculate_cube_count_elemwise(client, weights, dim);
        dequantize_rows::launch(client, cubes, dim, words, ids, result, weights, cols, scale, quant);
    }
    Floats::new(out, count, cols)
}

/// The size of the weight in bytes, after checking that the buffer holds it.
fn checked_bytes(words: &Handle, quant: Quant, rows: usize, cols: usize) -> Result<usize, GpuError> {
    let shape = GpuError::Shape { quant, rows, cols };
    let bytes = quant
        .row_bytes(cols)
        .and_then(|row_bytes| row_bytes.checked_mul(rows))
        .ok_or(shape)?;
    let f32_bytes = rows
        .checked_mul(cols)
        .and_then(|weights| weights.checked_mul(size_of::<f32>()))
        .ok_or(shape)?;
    // Kernels index bytes and weights with 32 bits.
    if bytes > u32::MAX as usize || f32_bytes > u32::MAX as usize {
        return Err(shape);
    }
    check_size(words, "weight", bytes.div_ceil(4) as u64 * 4)?;
    Ok(bytes)
}
