//! The specification: one code after the other.

use super::ROWS;
use super::shape::{Shape, Worth};
use crate::blocks::{CHUNK, GROUP, HALF_GROUP};
use crate::dot::ActivationChunk;

/// What the code of a weight stands for.
fn code(shape: Shape, tile: &[u8], row: usize, column: usize) -> i32 {
    let (single, rest) = tile.split_at(shape.bit_bytes());
    let (pairs, lower) = rest.split_at(shape.pair_bytes());
    let (vector, byte) = (column / 4, 4 * row + column % 4);
    let nibble = || lower[64 * (vector % 4) + byte] >> (4 * (vector / 4)) & 0x0f;
    let pair = || pairs[64 * (vector / 4) + byte] >> (2 * (vector % 4)) & 3;
    let bit = || single[8 * vector + byte / 8] >> (byte % 8) & 1;
    let code = match shape.bits {
        2 => pair(),
        3 => pair() | bit() << 2,
        4 => nibble(),
        5 => nibble() | bit() << 4,
        6 => nibble() | pair() << 4,
        _ => lower[64 * vector + byte],
    };
    shape.centred(code)
}

/// The weights of one row of sixteen packed blocks.
pub(super) fn dequantize(shape: Shape, blocks: &[u8], row: usize, to: &mut [f32]) {
    let (head, tiles) = blocks.split_at(shape.head.bytes());
    let tiles = tiles.chunks_exact(shape.tile_bytes());
    for (at, (tile, to)) in tiles.zip(to.chunks_exact_mut(GROUP)).enumerate() {
        let worth = Worth::of(shape, head, at, row);
        for (column, to) in to.iter_mut().enumerate() {
            let half = column / HALF_GROUP;
            *to = worth.scale[half] * code(shape, tile, row, column) as f32 + worth.offset[half];
        }
    }
}

/// Sixteen rows against every token.
pub(super) fn group(
    shape: Shape,
    blocks: &[u8],
    activations: &[ActivationChunk],
    chunks: usize,
    tokens: usize,
    sink: &mut dyn FnMut(usize, &[f32; ROWS]),
) {
    for token in 0..tokens {
        let activations = &activations[token * chunks..][..chunks];
        let mut sums = [0.0; ROWS];
        for (number, blocks) in blocks.chunks_exact(shape.bytes()).enumerate() {
            let (head, tiles) = blocks.split_at(shape.head.bytes());
            for (at, tile) in tiles.chunks_exact(shape.tile_bytes()).enumerate() {
                let group = number * shape.head.tiles() + at;
                let (chunk, part) = (&activations[group * GROUP / CHUNK], group % (CHUNK / GROUP));
                let values = &chunk.values[GROUP * part..][..GROUP];
                for (row, sum) in sums.iter_mut().enumerate() {
                    let worth = Worth::of(shape, head, at, row);
                    let dot = |half: usize| -> i32 {
                        let columns = half * HALF_GROUP..(half + 1) * HALF_GROUP;
                        columns.map(|c| code(shape, tile, row, c) * i32::from(values[c])).sum()
                    };
                    let products = worth.scale[0] * dot(0) as f32 + worth.scale[1] * dot(1) as f32;
                    let offsets = match shape.halves() {
                        false => worth.offset[0] * chunk.sums[part],
                        true => {
                            let sum = |half: usize| worth.offset[half] * chunk.half_sums[2 * part + half];
                            sum(0) + sum(1)
                        }
                    };
                    *sum += products * chunk.scales[part] + offsets;
                }
            }
        }
        sink(token, &sums);
    }
}
