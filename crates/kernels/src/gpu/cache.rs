//! Writes keys and values to cells of the KV cache: in f16, two elements per word, or in 8 bits,
//! four per word.

use super::f16::{from_bits, to_bits};
use super::launch::{buffer_arg, cube_count, matrix_arg};
use super::{Floats, GpuError, heads};
use crate::attention::{BLOCK, Heads, KvFormat, PAGE, q8_0_gpu_words};
use cubecl::prelude::*;
use cubecl::server::Handle;

/// Units of a cube.
const UNITS: usize = 256;

/// Packs elements `i` and `i + 1` into a word.
#[cube]
fn f16_pair(x: &[f32], i: usize) -> u32 {
    to_bits(x[i]) | (to_bits(x[i + 1]) << 16u32)
}

#[cube(launch_unchecked)]
fn write_f16_cells(
    qkv: &[f32],
    cells: &[u32],
    keys: &mut [u32],
    values: &mut [u32],
    tokens: usize,
    query_width: usize,
    kv_width: usize,
    n_cells: usize,
) {
    let words = kv_width / 2;
    if ABSOLUTE_POS >= tokens * words {
        terminate!();
    }
    let token = ABSOLUTE_POS / words;
    let word = ABSOLUTE_POS % words;
    let cell = cells[token] as usize;
    if cell < n_cells {
        let key_start = token * (query_width + 2 * kv_width) + query_width + 2 * word;
        keys[cell * words + word] = f16_pair(qkv, key_start);
        values[cell * words + word] = f16_pair(qkv, key_start + kv_width);
    }
}

/// Word `word` of a quantized head, whose elements begin at `x[head]`: four elements, or the scale
/// of a block.
#[cube]
fn q8_0_word(x: &[f32], head: usize, word: usize, #[comptime] dim: usize) -> u32 {
    let element_words = comptime!(dim.div_ceil(4));
    let mut block = word * 4 / BLOCK;
    if word >= element_words {
        block = word - element_words;
    }
    let mut max_magnitude = 0.0f32;
    for i in block * BLOCK..min((block + 1) * BLOCK, dim) {
        max_magnitude = max(max_magnitude, max(x[head + i], -x[head + i]));
    }
    // Rounded to f16 although a whole word is available, so that the scale equals the CPU's. Values
    // then differ only in ties, which round up here and to even on the CPU.
    let scale = from_bits(to_bits(max_magnitude / 127.0f32));
    let mut result = u32::reinterpret(scale);
    if word < element_words {
        let inverse_scale = select(scale > 0.0f32, 1.0f32 / scale, 0.0f32);
        result = 0u32;
        #[unroll]
        for i in 0..4usize {
            if 4 * word + i < dim {
                let code = min(max(x[head + 4 * word + i] * inverse_scale, -127.0f32), 127.0f32);
                result |= u32::cast_from(f32::floor(code + 128.5f32)) << comptime!(8 * i as u32);
            }
        }
    }
    result
}

/// Each unit writes one word of the keys and one of the values.
#[cube(launch_unchecked)]
fn write_q8_0_cells(
    qkv: &[f32],
    cells: &[u32],
    keys: &mut [u32],
    values: &mut [u32],
    tokens: usize,
    query_width: usize,
    kv_heads: usize,
    n_cells: usize,
    #[comptime] dim: usize,
) {
    let head_words = comptime!(q8_0_gpu_words(dim));
    let words = kv_heads * head_words;
    if ABSOLUTE_POS >= tokens * words {
        terminate!();
    }
    let token = ABSOLUTE_POS / words;
    let word = ABSOLUTE_POS % words;
    let cell = cells[token] as usize;
    if cell < n_cells {
        let kv_width = kv_heads * dim;
        let key_start = token * (query_width + 2 * kv_width) + query_width + word / head_words * dim;
        keys[cell * words + word] = q8_0_word(qkv, key_start, word % head_words, dim);
        values[cell * words + word] = q8_0_word(qkv, key_start + kv_width, word % head_words, dim);
    }
}

#[cube(launch_unchecked)]
fn copy_words(buffer: &mut [u32], from: usize, to: usize, words: usize) {
    if ABSOLUTE_POS >= words {
        terminate!();
    }
    buffer[to + ABSOLUTE_POS] = buffer[from + ABSOLUTE_POS];
}

/// Words of the keys of `n_cells` cells; the values take as many.
pub(super) fn words(heads: &Heads, n_cells: usize, format: KvFormat) -> Result<usize, GpuError> {
    if format == KvFormat::F16 && !heads.head_dim.is_multiple_of(2) {
        return Err(GpuError::Size {
            what: "width of a head in an f16 cache",
            found: heads.head_dim,
            expected: heads.head_dim + 1,
        });
    }
    let words = format.gpu_words(n_cells, heads.kv_heads, heads.head_dim);
    Ok(words.min(usize::MAX / 4))
}

/// Writes the keys and values of normalized and rotated rows of Q, K and V to cells: `cells` has
/// one word per token, and `keys` and `values` have [`KvFormat::gpu_words`]. A token whose cell is
/// `n_cells` or more is skipped.
///
/// In f16 they are `[n_cells, kv_heads, head_dim / 2]` words of two elements each, the first in the
/// low half. In 8 bits each head of a cell has words of four elements, the first in the low byte,
/// zero-padded, then one f32 scale per 32 elements; an element is its byte minus 128, times the
/// scale.
///
/// # Errors
/// Returns an error if the shapes do not match or the width of a head is odd in f16.
pub fn kv_write(
    client: &Client,
    qkv: &Floats,
    heads: &Heads,
    cells: &Handle,
    keys: &Handle,
    values: &Handle,
    n_cells: usize,
    format: KvFormat,
) -> Result<(), GpuError> {
    heads::check(heads, qkv)?;
    let words = words(heads, n_cells, format)?;
    let input = matrix_arg(qkv, "Q, K and V")?;
    let cells = buffer_arg(cells, "list of cells", qkv.rows)?;
    let keys = buffer_arg(keys, "cached keys", words)?;
    let values = buffer_arg(values, "cached values", words)?;
    if qkv.rows > 0 && n_cells > 0 {
        let (query_width, kv_width) = (heads.out_width(), heads.kv_heads * heads.head_dim);
        let count = cube_count(client, (qkv.rows * (words / n_cells)).div_ceil(UNITS))?;
        let dim = CubeDim::new_1d(UNITS as u32);
        // SAFETY: the kernels read the tokens of `qkv` and write cells below `n_cells`, which the
        // buffers were checked to hold.
        unsafe {
            match format {
                KvFormat::F16 => write_f16_cells::launch_unchecked(
                    client,
                    count,
                    dim,
                    input,
                    cells,
                    keys,
                    values,
                    qkv.rows,
                    query_width,
                    kv_width,
                    n_cells,
                ),
                KvFormat::Q8_0 => write_q8_0_cells::launch_unchecked(
                    client,
                    count,
                    dim,
                    input,
                    cells,
                    keys,
                    values,
                    qkv.rows,
                    query_width,
                    heads.kv_heads,
                    n_cells,
                    heads.head_dim,
                ),
            }
        }
    }
    Ok(())
}

/// Copies page `from`, [`PAGE`] cells, to page `to` in a buffer of the keys or the values of
/// `n_cells` cells.
///
/// # Errors
/// Returns an error if the buffer is too short or a page does not exist.
pub fn copy_page(
    client: &Client,
    buffer: &Handle,
    [kv_heads, head_dim]: [usize; 2],
    n_cells: usize,
    format: KvFormat,
    [from, to]: [u32; 2],
) -> Result<(), GpuError> {
    let buffer_words = format.gpu_words(n_cells, kv_heads, head_dim).min(usize::MAX / 4);
    let page_words = format.gpu_words(PAGE, kv_heads, head_dim);
    let last_page = from.max(to) as usize;
    if last_page >= n_cells / PAGE {
        return Err(GpuError::Size {
            what: "number of pages",
            found: n_cells / PAGE,
            expected: last_page + 1,
        });
    }
    let buffer = buffer_arg(buffer, "cached keys or values", buffer_words)?;
    if from != to {
        let count = cube_count(client, page_words.div_ceil(UNITS))?;
        let [from, to] = [from, to].map(|page| page as usize * page_words);
        // SAFETY: both pages are in the buffer, and they do not overlap.
        unsafe {
            copy_words::launch_unchecked(
                client,
                count,
                CubeDim::new_1d(UNITS as u32),
                buffer,
                from,
                to,
                page_words,
            );
        }
    }
    Ok(())
}
