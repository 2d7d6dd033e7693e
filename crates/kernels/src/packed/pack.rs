//! Packing rows of a file's blocks.

use super::ROWS;
use super::layout::{Packable, PackedLayout};
use crate::blocks::GROUP;

/// Four codes of a row.
type Four = [u8; 4];

/// Packs sixteen rows of blocks into `packed`, which has the same length.
pub(super) fn group<B: Packable>(rows: &[u8], packed: &mut [u8]) {
    let row_bytes = rows.len() / ROWS;
    for (row, blocks) in rows.chunks_exact(row_bytes.max(1)).enumerate() {
        let blocks = bytemuck::cast_slice::<u8, B>(blocks);
        for (block, packed) in blocks.iter().zip(packed.chunks_exact_mut(B::LAYOUT.bytes())) {
            let (header, tiles) = packed.split_at_mut(B::LAYOUT.scales.bytes());
            block.put_scales(row, header);
            for (g, tile) in tiles.chunks_exact_mut(B::LAYOUT.tile_bytes()).enumerate() {
                put(&B::LAYOUT, tile, row, &block.codes(&block.group(g)));
            }
        }
    }
}

/// Writes the codes of row `row` into a tile.
#[inline(always)]
fn put(layout: &PackedLayout, tile: &mut [u8], row: usize, codes: &[u8; GROUP]) {
    let (single, rest) = tile.split_at_mut(layout.bit_bytes());
    let (pairs, lower) = rest.split_at_mut(layout.pair_bytes());
    let fours: &[Four; 8] = bytemuck::cast_ref(codes);
    if layout.bits == 8 {
        for (v, four) in fours.iter().enumerate() {
            lower[64 * v + 4 * row..][..4].copy_from_slice(four);
        }
        return;
    }
    if layout.bits >= 4 {
        for v in 0..4 {
            let both: Four = std::array::from_fn(|i| fours[v][i] & 0x0f | fours[v + 4][i] << 4);
            lower[64 * v + 4 * row..][..4].copy_from_slice(&both);
        }
    }
    // The top bit of 3-bit and 5-bit codes.
    let top = layout.bits - 1;
    for (four, single) in fours.iter().zip(single.chunks_exact_mut(8)) {
        let bits = (0..4).fold(0, |bits, i| bits | (four[i] >> top & 1) << i);
        single[row / 2] |= bits << (4 * (row % 2));
    }
    // The upper bits of 6-bit codes, the lower ones of 2-bit and 3-bit codes.
    let first = if layout.bits == 6 { 4 } else { 0 };
    for (fours, pairs) in fours.chunks_exact(4).zip(pairs.chunks_exact_mut(64)) {
        let all: Four = std::array::from_fn(|i| (0..4).fold(0, |byte, f| byte | (fours[f][i] >> first & 3) << (2 * f)));
        pairs[4 * row..][..4].copy_from_slice(&all);
    }
}
