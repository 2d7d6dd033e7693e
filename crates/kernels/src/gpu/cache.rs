//! Writing keys and values to the cells of a cache, in f16, two to a word.

use super::f16::to_bits;
use super::launch::{argument, cubes, matrix};
use super::{Floats, GpuError, heads};
use crate::attention::Heads;
use cubecl::prelude::*;
use cubecl::server::Handle;

/// Units of a cube.
const UNITS: usize = 256;

/// A word of two numbers from `at` on.
#[cube]
fn packed(x: &[f32], at: usize) -> u32 {
    to_bits(x[at]) | (to_bits(x[at + 1]) << 16u32)
}

#[cube(launch_unchecked)]
fn write_cells(
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
        let from = token * (query_width + 2 * kv_width) + query_width + 2 * word;
        keys[cell * words + word] = packed(qkv, from);
        values[cell * words + word] = packed(qkv, from + kv_width);
    }
}

/// Words of the keys, or of the values, of `n_cells` cells.
pub(super) fn words(heads: &Heads, n_cells: usize) -> Result<usize, GpuError> {
    if !heads.head_dim.is_multiple_of(2) {
        return Err(GpuError::Size {
            what: "width of a head that is to be cached, two numbers to a word,",
            found: heads.head_dim,
            expected: heads.head_dim + 1,
        });
    }
    let words = n_cells.checked_mul(heads.kv_heads * heads.head_dim / 2);
    Ok(words.unwrap_or(usize::MAX / 4))
}

/// Writes the keys and values of rows of Q, K and V, which are prepared, to cells: `cells` has a word for each token, and `keys`
/// and `values` are `[n_cells, kv_heads, head_dim / 2]` words of two f16 each, the first in the low half. A token whose cell is
/// `n_cells` or more is not written.
///
/// # Errors
/// Where the shapes do not fit, or the width of a head is odd.
pub fn kv_write(
    client: &Client,
    qkv: &Floats,
    heads: &Heads,
    cells: &Handle,
    keys: &Handle,
    values: &Handle,
    n_cells: usize,
) -> Result<(), GpuError> {
    heads::check(heads, qkv)?;
    let words = words(heads, n_cells)?;
    let input = matrix(qkv, "Q, K and V")?;
    let cells = argument(cells, "list of cells", qkv.rows)?;
    let keys = argument(keys, "cached keys", words)?;
    let values = argument(values, "cached values", words)?;
    if qkv.rows > 0 && n_cells > 0 {
        let (query_width, kv_width) = (heads.out_width(), heads.kv_heads * heads.head_dim);
        let count = cubes(client, (qkv.rows * kv_width / 2).div_ceil(UNITS))?;
        let dim = CubeDim::new_1d(UNITS as u32);
        // SAFETY: the kernel reads the tokens of `qkv` and writes cells below `n_cells`, which the buffers were measured to hold.
        unsafe {
            write_cells::launch_unchecked(
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
            );
        }
    }
    Ok(())
}
