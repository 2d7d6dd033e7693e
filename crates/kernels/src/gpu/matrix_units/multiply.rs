//! The GEMM kernel: input tiles in shared memory, a square of the output tile for each plane.

use super::activations::{F16Activations, FOUR, f16_scale, inverse};
use super::decode::decode;
use super::tiles::{Over, PLANE_TILE, Tiles, choose};
use crate::blocks::Quant;
use crate::gpu::launch::{cubes, matrix};
use crate::gpu::reduce::reduce_max;
use crate::gpu::row_ranges::{Range, words_of};
use crate::gpu::{Floats, GpuError, Weight};
use cubecl::cmma;
use cubecl::prelude::*;
use half::f16;

/// Initial scale of weights: fits all but unusual ones, so that their maximum need not be known in
/// advance.
const DEFAULT_SCALE: f32 = 1024.0;
/// Range of a cube's maximum weight, once scaled: below the f16 maximum, and far enough above the
/// f16 minimum that smaller weights keep their precision.
const MIN_SCALED: f32 = 1.0;
const MAX_SCALED: f32 = 32768.0;
/// Alignment of tiles in bytes, required by CUDA's matrix units.
const TILE_ALIGNMENT: usize = 32;

/// Loads a fragment from element `first` of a tile whose rows have this `stride`.
#[cube]
fn fragment(
    tile: &[Vector<f16, Const<4>>],
    first: usize,
    #[comptime] stride: usize,
    #[comptime] side: cmma::MatrixIdent,
    #[comptime] layout: cmma::MatrixLayout,
    #[comptime] tiles: Tiles,
) -> cmma::Matrix<f16> {
    // SAFETY: it is loaded before anything reads it.
    let mut fragment = unsafe { cmma::Matrix::<f16>::uninitialized(side, tiles.m, tiles.n, tiles.k, layout) };
    cmma::load(&mut fragment, &tile[first / FOUR..], comptime!(stride as u32));
    fragment
}

#[allow(
    clippy::too_many_lines,
    reason = "one GPU kernel, whose phases share tiles, fragments and positions"
)]
#[cube(launch_unchecked)]
fn tiled(
    x: &[Vector<f16, Const<4>>],
    inverses: &[f32],
    words: &[u32],
    out: &mut [f32],
    tokens: usize,
    rows: usize,
    cols: usize,
    width: usize,
    at: usize,
    scale: f32,
    #[comptime] quant: Quant,
    #[comptime] tiles: Tiles,
    #[comptime] add: bool,
) {
    let mut count = rows;
    let mut depth = cols;
    if comptime!(tiles.over == Over::Rows) {
        count = cols;
        depth = rows;
    }
    // Cubes that share weights are consecutive, so that the weights are still in a cache.
    let down = tokens.div_ceil(tiles.tokens);
    if CUBE_POS >= count.div_ceil(tiles.across) * down {
        terminate!();
    }
    let top = CUBE_POS % down * tiles.tokens;
    let left = CUBE_POS / down * tiles.across;
    let steps = depth.div_ceil(tiles.depth);

    let Tiles { m, n, k, plane, .. } = tiles;
    let unit = UNIT_POS as usize;
    let units = comptime!(tiles.units());
    let mine = UNIT_POS_Y as usize;
    // Origin of the plane's square in the cube's output tile, and its number of fragments.
    let row = mine / comptime!(tiles.planes_across()) * PLANE_TILE;
    let column = mine % comptime!(tiles.planes_across()) * PLANE_TILE;
    let downwards = comptime!(PLANE_TILE / m);
    let across = comptime!(PLANE_TILE / n);

    let fours = comptime!(tiles.depth / FOUR);
    let x_stride = comptime!(tiles.x_stride());
    let w_stride = comptime!(tiles.w_stride());
    let mut x_tile =
        Shared::<[Vector<f16, Const<4>>]>::new_aligned_slice(comptime!(tiles.tokens * x_stride / FOUR), TILE_ALIGNMENT);
    let mut w_tile =
        Shared::<[Vector<f16, Const<4>>]>::new_aligned_slice(comptime!(tiles.rows() * w_stride / FOUR), TILE_ALIGNMENT);
    let mut fragments = Shared::<[f32]>::new_aligned_slice(comptime!(tiles.planes() * m * n), TILE_ALIGNMENT);

    let mut sums = Sequence::<cmma::Matrix<f32>>::new();
    #[unroll]
    for _ in 0..comptime!(downwards * across) {
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
    let mut again = true;
    while again {
        let mut maximum = 0.0f32;
        for step in 0..steps {
            for part in 0..comptime!(tiles.tokens * fours / units) {
                let i = unit + part * units;
                x_tile[i / fours * comptime!(x_stride / FOUR) + i % fours] =
                    x[((top + i / fours) * steps + step) * fours + i % fours];
            }
            let mut first = left;
            let mut from = step * tiles.depth;
            if comptime!(tiles.over == Over::Rows) {
                first = step * tiles.depth;
                from = left;
            }
            maximum = decode(
                &mut w_tile,
                words,
                first,
                rows,
                from,
                cols,
                weight_scale,
                maximum,
                quant,
                tiles,
            );
            sync_cube();
            // Unrolling is left to the driver's compiler: small matrix units make many parts.
            for part in 0..comptime!(tiles.depth / k) {
                let mut weight_fragments = Sequence::<cmma::Matrix<f16>>::new();
                #[unroll]
                for j in 0..across {
                    let mut first = (column + comptime!(j * n)) * w_stride + part * k;
                    if comptime!(tiles.over == Over::Rows) {
                        first = part * k * w_stride + column + comptime!(j * n);
                    }
                    let layout = comptime!(match tiles.over {
                        Over::Columns => cmma::MatrixLayout::ColMajor,
                        Over::Rows => cmma::MatrixLayout::RowMajor,
                    });
                    weight_fragments.push(fragment(&w_tile, first, w_stride, cmma::MatrixIdent::B, layout, tiles));
                }
                #[unroll]
                for i in 0..downwards {
                    let first = (row + comptime!(i * m)) * x_stride + part * k;
                    let layout = cmma::MatrixLayout::RowMajor;
                    let left = fragment(&x_tile, first, x_stride, cmma::MatrixIdent::A, layout, tiles);
                    #[unroll]
                    for j in 0..across {
                        let sum = comptime!(i * across + j);
                        cmma::execute(&left, weight_fragments.index(j), sums.index(sum), sums.index(sum));
                    }
                }
            }
            sync_cube();
        }
        // If the scaled weights are out of range, compute the tile again with a scale that fits.
        let maximum = reduce_max(maximum, &mut fragments, units);
        again = false;
        if maximum > 0.0f32 && (maximum * weight_scale > MAX_SCALED || maximum * weight_scale < MIN_SCALED) {
            let better = f16_scale(maximum);
            again = better != weight_scale;
            weight_scale = better;
        }
        if again {
            #[unroll]
            for i in 0..comptime!(downwards * across) {
                cmma::fill(sums.index_mut(i), 0.0f32);
            }
        }
    }

    let inverse_scale = inverse(weight_scale);
    let lane = UNIT_POS_X as usize;
    #[unroll]
    for i in 0..downwards {
        #[unroll]
        for j in 0..across {
            // Other units may still be reading the previous fragment.
            sync_cube();
            let start = mine * comptime!(m * n);
            cmma::store(
                &mut fragments[start..],
                sums.index(comptime!(i * across + j)),
                comptime!(n as u32),
                cmma::MatrixLayout::RowMajor,
            );
            sync_cube();
            #[unroll]
            for part in 0..comptime!(m * n / plane) {
                let place = part * plane + lane;
                let token = top + row + comptime!(i * m) + place / n;
                let column = left + column + comptime!(j * n) + place % n;
                if token < tokens && column < count {
                    // In this order no intermediate result overflows or underflows unless the final
                    // one does.
                    let value = scale * (fragments[start + place] * inverse_scale * inverses[token]);
                    let place = token * width + at + column;
                    if comptime!(add) {
                        out[place] += value;
                    } else {
                        out[place] = value;
                    }
                }
            }
        }
    }
}

/// Writes `scale` times the product of the columns of `x [T, width]` from `from` on and a range of
/// a weight's rows, summed over the dimension `over`, to the columns of `out` from `at` on, or adds
/// it. The caller has checked all ranges.
///
/// # Errors
/// Returns an error if a buffer is too large for a kernel to address or the device has no suitable
/// matrix units.
pub(in crate::gpu) fn multiply(
    client: &Client,
    x: &Floats,
    from: usize,
    weight: &Weight,
    range: Range,
    over: Over,
    scale: f32,
    out: &Floats,
    at: usize,
    add: bool,
) -> Result<(), GpuError> {
    let (quant, tokens) = (weight.quant, x.rows);
    let tiles = choose(client, quant, tokens, over).ok_or(GpuError::NoMatrixUnits)?;
    let (depth, count) = match over {
        Over::Columns => (weight.cols, range.rows),
        Over::Rows => (range.rows, weight.cols),
    };
    let f16s = F16Activations::new(client, x, from, depth, tiles.tokens, tiles.depth)?;
    let words = words_of(weight, range)?;
    let result = matrix(out, "output of a linear")?;
    let cubes = cubes(client, count.div_ceil(tiles.across) * tokens.div_ceil(tiles.tokens))?;
    let dim = CubeDim::new_2d(tiles.plane as u32, tiles.planes() as u32);
    // SAFETY: the kernel reads whole tiles of the activations, which are padded to tiles, and rows
    // and columns inside the weight, and writes rows and columns of `out` that the caller has
    // checked.
    unsafe {
        tiled::launch_unchecked(
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
            at,
            scale,
            quant,
            tiles,
            add,
        );
    }
    Ok(())
}
