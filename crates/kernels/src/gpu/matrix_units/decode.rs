//! Weights in f16 in shared memory, each decoded once for all the tokens of a cube.

use super::halves::FOUR;
use super::tiles::Tiles;
use crate::blocks::Quant;
use crate::gpu::blocks::weight as weight_of_block;
use crate::gpu::linear::block_at;
use crate::gpu::pieces::{PIECE, place, weights};
use cubecl::prelude::*;
use half::f16;

/// Fills a tile with a weight times `power`: rows from `first` on, columns from `left` on; zeros where there are none. Returns the greatest
/// that the unit has seen, before it was multiplied, and `most` if that is greater.
#[cube]
pub(super) fn decode(
    tile: &mut [Vector<f16, Const<4>>],
    words: &[u32],
    first: usize,
    rows: usize,
    left: usize,
    cols: usize,
    power: f32,
    most: f32,
    #[comptime] quant: Quant,
    #[comptime] tiles: Tiles,
) -> f32 {
    let unit = UNIT_POS as usize;
    let elements = comptime!(quant.block_elements());
    let mut most = most;
    if comptime!(quant.is_float()) {
        // Rows may have any length.
        let fours = comptime!(tiles.columns() / FOUR);
        for part in 0..comptime!((tiles.rows() * tiles.columns() / FOUR).div_ceil(tiles.units())) {
            let i = unit + part * comptime!(tiles.units());
            if i < comptime!(tiles.rows() * tiles.columns() / FOUR) {
                let row = first + i / fours;
                let mut numbers = Vector::<f16, Const<4>>::empty();
                #[unroll]
                for j in 0..FOUR {
                    let column = left + i % fours * FOUR + j;
                    let mut value = 0.0f32;
                    if row < rows && column < cols {
                        value = weight_of_block(words, block_at(row, column, cols, quant), 0usize, quant);
                    }
                    most = max(most, f32::abs(value));
                    numbers.insert(j, f16::cast_from(value * power));
                }
                tile[i / fours * comptime!(tiles.w_stride() / FOUR) + i % fours] = numbers;
            }
        }
    } else {
        let pieces = comptime!(tiles.columns() / PIECE);
        let each = comptime!(elements / PIECE);
        for part in 0..comptime!((tiles.rows() * tiles.columns() / PIECE).div_ceil(tiles.units())) {
            let i = unit + part * comptime!(tiles.units());
            if i < comptime!(tiles.rows() * tiles.columns() / PIECE) {
                let row = i / pieces;
                let piece = left / PIECE + i % pieces;
                let column = piece / each * elements;
                let mut values = Array::<f32>::new(PIECE);
                if first + row < rows && column < cols {
                    values = weights(words, block_at(first + row, column, cols, quant), piece % each, quant);
                } else {
                    #[unroll]
                    for j in 0..PIECE {
                        values[j] = 0.0f32;
                    }
                }
                #[unroll]
                for half in 0..comptime!(PIECE / FOUR) {
                    let mut numbers = Vector::<f16, Const<4>>::empty();
                    #[unroll]
                    for j in 0..FOUR {
                        let value = values[half * FOUR + j];
                        most = max(most, f32::abs(value));
                        numbers.insert(j, f16::cast_from(value * power));
                    }
                    let at = column + place(piece % each, half * FOUR, quant) - left;
                    tile[row * comptime!(tiles.w_stride() / FOUR) + at / FOUR] = numbers;
                }
            }
        }
    }
    most
}
