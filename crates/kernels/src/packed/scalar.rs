//! The specification: one code after the other.

use super::{ROWS, Shape};
use crate::blocks::{CHUNK, GROUP};
use crate::dot::ActivationChunk;
use half::f16;

fn half_at(tile: &[u8], at: usize) -> f32 {
    f16::from_bits(u16::from_le_bytes([tile[at], tile[at + 1]])).to_f32()
}

fn scale(tile: &[u8], row: usize) -> f32 {
    half_at(tile, 2 * row)
}

fn minimum(shape: Shape, tile: &[u8], row: usize) -> f32 {
    if shape.minima {
        half_at(tile, shape.minima_at() + 2 * row)
    } else {
        0.0
    }
}

/// The code of a weight, with its sign.
fn code(shape: Shape, tile: &[u8], row: usize, column: usize) -> i32 {
    let (vector, byte) = (column / 4, 4 * row + column % 4);
    let code = if shape.bits == 8 {
        tile[shape.codes_at() + 64 * vector + byte]
    } else {
        let nibble = tile[shape.codes_at() + 64 * (vector % 4) + byte] >> (4 * (vector / 4)) & 0x0f;
        let fifth = if shape.bits == 5 {
            tile[shape.fifth_bits_at() + 8 * vector + byte / 8] >> (byte % 8) & 1
        } else {
            0
        };
        nibble | fifth << 4
    };
    i32::from(code) - i32::from(shape.zero)
}

/// 32 weights of one row.
pub(super) fn dequantize(shape: Shape, tile: &[u8], row: usize, to: &mut [f32]) {
    let (scale, minimum) = (scale(tile, row), minimum(shape, tile, row));
    for (column, to) in to.iter_mut().enumerate() {
        *to = scale * code(shape, tile, row, column) as f32 + minimum;
    }
}

/// Sixteen rows against every token.
pub(super) fn group(
    shape: Shape,
    tiles: &[u8],
    activations: &[ActivationChunk],
    chunks: usize,
    tokens: usize,
    sink: &mut dyn FnMut(usize, &[f32; ROWS]),
) {
    for token in 0..tokens {
        let activations = &activations[token * chunks..][..chunks];
        let mut sums = [0.0; ROWS];
        for (at, tile) in tiles.chunks_exact(shape.bytes()).enumerate() {
            let (chunk, part) = (&activations[at * GROUP / CHUNK], at % (CHUNK / GROUP));
            let values = &chunk.values[GROUP * part..][..GROUP];
            for (row, sum) in sums.iter_mut().enumerate() {
                let dot: i32 = values
                    .iter()
                    .enumerate()
                    .map(|(c, value)| code(shape, tile, row, c) * i32::from(*value))
                    .sum();
                *sum +=
                    scale(tile, row) * chunk.scales[part] * dot as f32 + minimum(shape, tile, row) * chunk.sums[part];
            }
        }
        sink(token, &sums);
    }
}
