//! The GEMM kernel: input tiles in shared memory, a square of the output tile for each plane.

use super::activations::{F16Activations, VECTOR, f16_scale, inverse};
use super::decode::decode;
use super::tiles::{PLANE_TILE, SumOver, Tiles, choose};
use crate::blocks::Quant;
use crate::gpu::launch::{cube_count, matrix_arg};
use crate::gpu::reduce::reduce_max;
use crate::gpu::row_ranges::{RowRange, words_of_range};
use crate::gpu::{Floats, GpuError, Weight};
use cubecl::cmma;
use cubecl::prelude::*;
use half::f16;

/// Initial scale of weights. It fits typical weights, so that most cubes need not know their
/// maximum in advance.
const DEFAULT_SCALE: f32 = 1024.0;
/// Range of a cube's maximum weight, once scaled: below the f16 maximum, and far enough above the
/// f16 minimum that smaller weights keep their precision.
const MIN_SCALED: f32 = 1.0;
const MAX_SCALED: f32 = 32768.0;
/// Alignment of tiles in bytes, required by CUDA's matrix units.
const TILE_ALIGNMENT: usize = 32;

/// Loads a fragment from element `first` on of a tile whose rows have a stride of `stride`.
#[cube]
fn fragment(
    tile: &[Vector<f16, Const<4>>],
    first: usize,
    #[comptime] stride: usize,
    #[comptime] ident: cmma::MatrixIdent,
    #[comptime] layout: cmma::MatrixLayout,
    #[comptime] tiles: Tiles,
) -> cmma::Matrix<f16> {
    // SAFETY: it is loaded before anything reads it.
    let mut fragment = unsafe { cmma::Matrix::<f16>::uninitialized(ident, tiles.m, tiles.n, tiles.k, layout) };
    cmma::load(&mut fragment, &tile[first / VECTOR..], comptime!(stride as u32));
    fragment
}

#[allow(
    clippy::too_many_lines,
    reason = "one GPU kernel, whose phases share tiles, fragments and positions"
)]
#[cube(launch_unchecked)]
fn tiled_multiply(
    x: &[Vector<f16, Const<4>>],
    inverses: &[f32],
    words: &[u32],
    out: &mut [f32],
    tokens: usize,
    rows: usize,
    cols: usize,
    width: usize,
    first_column: usize,
    scale: f32,
    #[comptime] quant: Quant,
    #[comptime] tiles: Tiles,
    #[comptime] add: bool,
) {
    let mut out_columns = rows;
    let mut depth = cols;
    if comptime!(tiles.sum_over == SumOver::Rows) {
        out_columns = cols;
        depth = rows;
    }
    // Cubes that share weights are consecutive, so that the weights are still in a cache.
    let token_tiles = tokens.div_ceil(tiles.tokens);
    if CUBE_POS >= out_columns.div_ceil(tiles.out_columns) * token_tiles {
        terminate!();
    }
    let top = CUBE_POS % token_tiles * tiles.tokens;
    let left = CUBE_POS / token_tiles * tiles.out_columns;
    let steps = depth.div_ceil(tiles.depth);

    let Tiles { m, n, k, plane, .. } = tiles;
    let unit = UNIT_POS as usize;
    let units = comptime!(tiles.units());
    let plane_index = UNIT_POS_Y as usize;
    // Origin of the plane's square in the cube's output tile, and its number of fragments.
    let row = plane_index / comptime!(tiles.planes_per_row()) * PLANE_TILE;
    let column = plane_index % comptime!(tiles.planes_per_row()) * PLANE_TILE;
    let row_fragments = comptime!(PLANE_TILE / m);
    let column_fragments = comptime!(PLANE_TILE / n);

    let vectors = comptime!(tiles.depth / VECTOR);
    let x_stride = comptime!(tiles.x_stride());
    let w_stride = comptime!(tiles.w_stride());
    let mut x_tile = Shared::<[Vector<f16, Const<4>>]>::new_aligned_slice(
        comptime!(tiles.tokens * x_stride / VECTOR),
        TILE_ALIGNMENT,
    );
    let mut w_tile = Shared::<[Vector<f16, Const<4>>]>::new_aligned_slice(
        comptime!(tiles.weight_rows() * w_stride / VECTOR),
        TILE_ALIGNMENT,
    );
    let mut fragments = Shared::<[f32]>::new_aligned_slice(comptime!(tiles.planes() * m * n), TILE_ALIGNMENT);

    let mut sums = Sequence::<cmma::Matrix<f32>>::new();
    #[unroll]
    for _ in 0..comptime!(row_fragments * column_fragments) {
        sums.push(cmma::Matrix::<f32>::from_value(
            cmma::MatrixIdent::Accumulator,
            m,
            n,
            k,
            cmma::MatrixLayout::Undefined,
            0.0f32,
        ));
    }

    let mut weight_scale = comptime!(DEFAULT_SCALE).runtime();
    let mut retry = true;
    while retry {
        let mut maximum = 0.0f32;
        for step in 0..steps {
            for pass in 0..comptime!(tiles.tokens * vectors / units) {
                let i = unit + pass * units;
                x_tile[i / vectors * comptime!(x_stride / VECTOR) + i % vectors] =
                    x[((top + i / vectors) * steps + step) * vectors + i % vectors];
            }
            let mut first_weight_row = left;
            let mut first_weight_column = step * tiles.depth;
            if comptime!(tiles.sum_over == SumOver::Rows) {
                first_weight_row = step * tiles.depth;
                first_weight_column = left;
            }
            maximum = decode(
                &mut w_tile,
                words,
                first_weight_row,
                rows,
                first_weight_column,
                cols,
                weight_scale,
                maximum,
                quant,
                tiles,
            );
            sync_cube();
            // Unrolling is left to the driver's compiler: small matrix units make many steps.
            for k_step in 0..comptime!(tiles.depth / k) {
                let mut weight_fragments = Sequence::<cmma::Matrix<f16>>::new();
                #[unroll]
                for j in 0..column_fragments {
                    let mut first = (column + comptime!(j * n)) * w_stride + k_step * k;
                    if comptime!(tiles.sum_over == SumOver::Rows) {
                        first = k_step * k * w_stride + column + comptime!(j * n);
                    }
                    let layout = comptime!(match tiles.sum_over {
                        SumOver::Columns => cmma::MatrixLayout::ColMajor,
                        SumOver::Rows => cmma::MatrixLayout::RowMajor,
                    });
                    weight_fragments.push(fragment(&w_tile, first, w_stride, cmma::MatrixIdent::B, layout, tiles));
                }
                #[unroll]
                for i in 0..row_fragments {
                    let first = (row + comptime!(i * m)) * x_stride + k_step * k;
                    let layout = cmma::MatrixLayout::RowMajor;
                    let x_fragment = fragment(&x_tile, first, x_stride, cmma::MatrixIdent::A, layout, tiles);
                    #[unroll]
                    for j in 0..column_fragments {
                        let sum = comptime!(i * column_fragments + j);
                        cmma::execute(&x_fragment, weight_fragments.index(j), sums.index(sum), sums.index(sum));
                    }
                }
            }
            sync_cube();
        }
        // If the scaled weights are out of range, compute the tile again with a scale that fits.
        let maximum = reduce_max(maximum, &mut fragments, units);
        retry = false;
        if maximum > 0.0f32 && (maximum * weight_scale > MAX_SCALED || maximum * weight_scale < MIN_SCALED) {
            let new_scale = f16_scale(maximum);
            retry = new_scale != weight_scale;
            weight_scale = new_scale;
        }
        if retry {
            #[unroll]
            for i in 0..comptime!(row_fragments * column_fragments) {
                cmma::fill(sums.index_mut(i), 0.0f32);
            }
        }
    }

    let inverse_scale = inverse(weight_scale);
    let lane = UNIT_POS_X as usize;
    #[unroll]
    for i in 0..row_fragments {
        #[unroll]
        for j in 0..column_fragments {
            // Other units may still be reading the previous fragment.
            sync_cube();
            let start = plane_index * comptime!(m * n);
            cmma::store(
                &mut fragments[start..],
                sums.index(comptime!(i * column_fragments + j)),
                comptime!(n as u32),
                cmma::MatrixLayout::RowMajor,
            );
            sync_cube();
            #[unroll]
            for pass in 0..comptime!(m * n / plane) {
                let element = pass * plane + lane;
                let token = top + row + comptime!(i * m) + element / n;
                let column = left + column + comptime!(j * n) + element % n;
                if token < tokens && column < out_columns {
                    // In this order no intermediate result overflows or underflows unless the final
                    // one does.
                    let value = scale * (fragments[start + element] * inverse_scale * inverses[token]);
                    let index = token * width + first_column + column;
                    if comptime!(add) {
                        out[index] += value;
                    } else {
                        out[index] = value;
                    }
                }
            }
        }
    }
}

/// Writes `scale` times the product of the columns of `x [T, width]` from `x_column` on and a
/// range of a weight's rows, summed over the dimension `sum_over`, to the columns of `out` from
/// `out_column` on, or adds it. The caller has checked all ranges.
///
/// # Errors
/// Returns an error if a buffer is too large for a kernel to address or the device has no suitable
/// matrix units.
pub(in crate::gpu) fn multiply(
    client: &Client,
    x: &Floats,
    x_column: usize,
    weight: &Weight,
    range: RowRange,
    sum_over: SumOver,
    scale: f32,
    out: &Floats,
    out_column: usize,
    add: bool,
) -> Result<(), GpuError> {
    let (quant, tokens) = (weight.quant, x.rows);
    let tiles = choose(client, quant, tokens, sum_over).ok_or(GpuError::NoMatrixUnits)?;
    let (depth, out_columns) = match sum_over {
        SumOver::Columns => (weight.cols, range.rows),
        SumOver::Rows => (range.rows, weight.cols),
    };
    let f16s = F16Activations::new(client, x, x_column, depth, tiles.tokens, tiles.depth)?;
    let words = words_of_range(weight, range)?;
    let result = matrix_arg(out, "output of a linear")?;
    let cubes = cube_count(
        client,
        out_columns.div_ceil(tiles.out_columns) * tokens.div_ceil(tiles.tokens),
    )?;
    let dim = CubeDim::new_2d(tiles.plane as u32, tiles.planes() as u32);
    // SAFETY: the kernel reads whole tiles of the activations, which are padded to tiles, and rows
    // and columns inside the weight, and writes rows and columns of `out` that the caller has
    // checked.
    unsafe {
        tiled_multiply::launch_unchecked(
            client,
            cubes,
            dim,
            f16s.elements(),
            f16s.inverses()?,
            words,
            result,
            tokens,
            range.rows,
            weight.cols,
            out.cols,
            out_column,
            scale,
            quant,
            tiles,
            add,
        );
    }
    Ok(())
}
