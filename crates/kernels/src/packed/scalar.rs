//! The scalar specification of products and dequantization, one code at a time.

use super::layout::PackedLayout;
use super::tile_scales::TileScales;
use super::{Group, ROWS};
use crate::blocks::{GROUP, HALF_GROUP, QK_K};

/// The signed code of a weight.
fn code(layout: &PackedLayout, tile: &[u8], row: usize, column: usize) -> i32 {
    let (top_bits, rest) = tile.split_at(layout.bit_bytes());
    let (pairs, lower) = rest.split_at(layout.pair_bytes());
    let (vector, byte) = (column / 4, 4 * row + column % 4);
    let nibble = || lower[64 * (vector % 4) + byte] >> (4 * (vector / 4)) & 0x0f;
    let pair = || pairs[64 * (vector / 4) + byte] >> (2 * (vector % 4)) & 3;
    let bit = || top_bits[8 * vector + byte / 8] >> (byte % 8) & 1;
    let code = match layout.bits {
        2 => pair(),
        3 => pair() | bit() << 2,
        4 => nibble(),
        5 => nibble() | bit() << 4,
        6 => nibble() | pair() << 4,
        _ => lower[64 * vector + byte],
    };
    layout.centered(code)
}

/// Dequantizes one row of sixteen packed blocks.
pub(super) fn dequantize(layout: &PackedLayout, blocks: &[u8], row: usize, out: &mut [f32]) {
    let (header, tiles) = blocks.split_at(layout.scales.bytes());
    let tiles = tiles.chunks_exact(layout.tile_bytes());
    for (tile_index, (tile, out)) in tiles.zip(out.chunks_exact_mut(GROUP)).enumerate() {
        let scales = TileScales::new(&layout.scales, header, tile_index, row);
        for (column, out) in out.iter_mut().enumerate() {
            let half = column / HALF_GROUP;
            *out = scales.scale[half] * code(layout, tile, row, column) as f32 + scales.offset[half];
        }
    }
}

/// Multiplies sixteen rows with every token.
pub(super) fn multiply_group(group: &Group, out: &mut [[f32; ROWS]]) {
    let Group {
        layout,
        blocks,
        activations,
        ..
    } = *group;
    for (token, out) in out.iter_mut().enumerate() {
        let mut sums = [0.0; ROWS];
        for (index, blocks) in blocks.chunks_exact(layout.bytes()).enumerate() {
            let (header, tiles) = blocks.split_at(layout.scales.bytes());
            for (tile_index, tile) in tiles.chunks_exact(layout.tile_bytes()).enumerate() {
                let group = index * layout.scales.tiles + tile_index;
                let [activations] = activations.chunks(token, group * GROUP / QK_K);
                let part = group % (QK_K / GROUP);
                let values = &activations.values[GROUP * part..][..GROUP];
                for (row, sum) in sums.iter_mut().enumerate() {
                    let scales = TileScales::new(&layout.scales, header, tile_index, row);
                    let dot = |half: usize| -> i32 {
                        let columns = half * HALF_GROUP..(half + 1) * HALF_GROUP;
                        columns.map(|c| code(layout, tile, row, c) * i32::from(values[c])).sum()
                    };
                    let products = scales.scale[0] * dot(0) as f32 + scales.scale[1] * dot(1) as f32;
                    let offsets = if layout.halves() {
                        let sum = |half: usize| scales.offset[half] * activations.half_sums[2 * part + half];
                        sum(0) + sum(1)
                    } else {
                        scales.offset[0] * activations.sums[part]
                    };
                    *sum += products * activations.scales[part] + offsets;
                }
            }
        }
        *out = sums;
    }
}
