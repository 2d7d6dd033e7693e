//! The product itself: tiles of both factors in shared memory, a square of the result for each plane.

use super::decode::decode;
use super::halves::{FOUR, Halves, fitting, inverse};
use super::tiles::{Over, SQUARE, Tiles, choose};
use crate::blocks::Quant;
use crate::gpu::launch::{cubes, matrix};
use crate::gpu::linear::{Range, words_of};
use crate::gpu::reduce::greatest;
use crate::gpu::{Floats, GpuError, Weight};
use cubecl::cmma;
use cubecl::prelude::*;
use half::f16;

/// What weights are multiplied by at first, which suits all but unusual ones, so that the greatest need not be known before.
const USUAL: f32 = 1024.0;
/// Where the greatest weight of a tile has to lie, once multiplied: below what f16 can hold, and so far above its least that smaller ones keep
/// their bits too.
const LEAST: f32 = 1.0;
const MOST: f32 = 32768.0;
/// What tiles begin at a multiple of, in bytes, which CUDA's matrix units ask for.
const ALIGNED: usize = 32;

/// A factor of the matrix unit, from the number `first` of a tile on, whose rows lie `stride` numbers apart.
#[cube]
fn factor(
    tile: &[Vector<f16, Const<4>>],
    first: usize,
    #[comptime] stride: usize,
    #[comptime] side: cmma::MatrixIdent,
    #[comptime] layout: cmma::MatrixLayout,
    #[comptime] tiles: Tiles,
) -> cmma::Matrix<f16> {
    // SAFETY: it is loaded before anything reads it.
    let mut factor = unsafe { cmma::Matrix::<f16>::uninitialized(side, tiles.m, tiles.n, tiles.k, layout) };
    cmma::load(&mut factor, &tile[first / FOUR..], comptime!(stride as u32));
    factor
}

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
    // Cubes that share weights come one after the other, so that these are still in a cache.
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
    // Where the plane's square begins in the cube's part of the result, and how many fragments it is.
    let row = mine / comptime!(tiles.planes_across()) * SQUARE;
    let column = mine % comptime!(tiles.planes_across()) * SQUARE;
    let downwards = comptime!(SQUARE / m);
    let across = comptime!(SQUARE / n);

    let fours = comptime!(tiles.depth / FOUR);
    let x_stride = comptime!(tiles.x_stride());
    let w_stride = comptime!(tiles.w_stride());
    let mut x_tile =
        Shared::<[Vector<f16, Const<4>>]>::new_aligned_slice(comptime!(tiles.tokens * x_stride / FOUR), ALIGNED);
    let mut w_tile =
        Shared::<[Vector<f16, Const<4>>]>::new_aligned_slice(comptime!(tiles.rows() * w_stride / FOUR), ALIGNED);
    let mut fragments = Shared::<[f32]>::new_aligned_slice(comptime!(tiles.planes() * m * n), ALIGNED);

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

    let mut power = comptime!(USUAL).runtime();
    let mut again = true;
    while again {
        let mut most = 0.0f32;
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
            most = decode(&mut w_tile, words, first, rows, from, cols, power, most, quant, tiles);
            sync_cube();
            // Left to the driver's compiler to unroll: small units make many parts.
            for part in 0..comptime!(tiles.depth / k) {
                let mut factors = Sequence::<cmma::Matrix<f16>>::new();
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
                    factors.push(factor(&w_tile, first, w_stride, cmma::MatrixIdent::B, layout, tiles));
                }
                #[unroll]
                for i in 0..downwards {
                    let first = (row + comptime!(i * m)) * x_stride + part * k;
                    let layout = cmma::MatrixLayout::RowMajor;
                    let left = factor(&x_tile, first, x_stride, cmma::MatrixIdent::A, layout, tiles);
                    #[unroll]
                    for j in 0..across {
                        let sum = comptime!(i * across + j);
                        cmma::execute(&left, factors.index(j), sums.index(sum), sums.index(sum));
                    }
                }
            }
            sync_cube();
        }
        // A tile whose weights do not lie where f16 has its bits is made once more, by the power that fits them.
        let most = greatest(most, &mut fragments, units);
        again = false;
        if most > 0.0f32 && (most * power > MOST || most * power < LEAST) {
            let better = fitting(most);
            again = better != power;
            power = better;
        }
        if again {
            #[unroll]
            for i in 0..comptime!(downwards * across) {
                cmma::fill(sums.index_mut(i), 0.0f32);
            }
        }
    }

    let undone = inverse(power);
    let lane = UNIT_POS_X as usize;
    #[unroll]
    for i in 0..downwards {
        #[unroll]
        for j in 0..across {
            // Somebody may still be reading what was there.
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
                    // In this order nothing on the way is larger or smaller than f32 can tell, if the result is not.
                    let value = scale * (fragments[start + place] * undone * inverses[token]);
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

/// Writes `scale` times the product of the columns of `x [T, width]` from `from` on with a range of a weight's rows, over what `over` says, to
/// the columns of `out` from `at` on, or adds it. All of these are there.
///
/// # Errors
/// Where something is larger than a kernel can address, or the device has no matrix units for it.
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
    let halves = Halves::of(client, x, from, depth, tiles.tokens, tiles.depth)?;
    let words = words_of(weight, range)?;
    let result = matrix(out, "output of a product")?;
    let cubes = cubes(client, count.div_ceil(tiles.across) * tokens.div_ceil(tiles.tokens))?;
    let dim = CubeDim::new_2d(tiles.plane as u32, tiles.planes() as u32);
    // SAFETY: the kernel reads whole tiles of the halves, which were made of such, and rows and columns of the weight below its own, and writes
    // rows and columns of `out` that the caller has seen to be there.
    unsafe {
        tiled::launch_unchecked(
            client,
            cubes,
            dim,
            halves.numbers(),
            halves.inverses()?,
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
