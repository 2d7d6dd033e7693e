//! Packs rows of blocks in the file's layout.

use super::ROWS;
use super::layout::{Packable, PackedLayout};
use crate::blocks::GROUP;

/// The codes of four columns of a row.
type Quad = [u8; 4];

/// Packs sixteen rows of blocks into `packed`, which has the same length.
pub(super) fn pack_rows<B: Packable>(rows: &[u8], packed: &mut [u8]) {
    let row_bytes = rows.len() / ROWS;
    for (row, blocks) in rows.chunks_exact(row_bytes.max(1)).enumerate() {
        let blocks = bytemuck::cast_slice::<u8, B>(blocks);
        for (block, packed) in blocks.iter().zip(packed.chunks_exact_mut(B::LAYOUT.bytes())) {
            let (header, tiles) = packed.split_at_mut(B::LAYOUT.scales.bytes());
            block.write_scales(row, header);
            for (g, tile) in tiles.chunks_exact_mut(B::LAYOUT.tile_bytes()).enumerate() {
                write_codes(&B::LAYOUT, tile, row, &block.codes(&block.group(g)));
            }
        }
    }
}

/// Writes the codes of row `row` into a tile.
#[inline(always)]
fn write_codes(layout: &PackedLayout, tile: &mut [u8], row: usize, codes: &[u8; GROUP]) {
    let (top_bits, rest) = tile.split_at_mut(layout.bit_bytes());
    let (pairs, lower) = rest.split_at_mut(layout.pair_bytes());
    let quads: &[Quad; 8] = bytemuck::cast_ref(codes);
    if layout.bits == 8 {
        for (v, quad) in quads.iter().enumerate() {
            lower[64 * v + 4 * row..][..4].copy_from_slice(quad);
        }
        return;
    }
    if layout.bits >= 4 {
        for v in 0..4 {
            let nibbles: Quad = std::array::from_fn(|i| quads[v][i] & 0x0f | quads[v + 4][i] << 4);
            lower[64 * v + 4 * row..][..4].copy_from_slice(&nibbles);
        }
    }
    // The top bit of 3-bit and 5-bit codes.
    let top_bit = layout.bits - 1;
    for (quad, top_bits) in quads.iter().zip(top_bits.chunks_exact_mut(8)) {
        let bits = (0..4).fold(0, |bits, i| bits | (quad[i] >> top_bit & 1) << i);
        top_bits[row / 2] |= bits << (4 * (row % 2));
    }
    // The upper two bits of 6-bit codes, the lower two of 2-bit and 3-bit codes.
    let shift = if layout.bits == 6 { 4 } else { 0 };
    for (quads, pairs) in quads.chunks_exact(4).zip(pairs.chunks_exact_mut(64)) {
        let bit_pairs: Quad =
            std::array::from_fn(|i| (0..4).fold(0, |byte, f| byte | (quads[f][i] >> shift & 3) << (2 * f)));
        pairs[4 * row..][..4].copy_from_slice(&bit_pairs);
    }
}
