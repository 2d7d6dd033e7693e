//! Scales of one row of a tile: the scalar specification.

use super::ROWS;
use super::layout::{Bits, Minimum, PartCode, Parts, ScaleLayout, Unit};
use crate::blocks::{half_e4m3, half_e8m0};

/// Scales and offsets of one row of a tile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TileScales {
    /// Scale of each half of the tile.
    pub scale: [f32; 2],
    /// Offset of each half of the tile.
    pub offset: [f32; 2],
}

impl TileScales {
    /// The scales and offsets of row `row` of tile `tile`.
    pub fn new(layout: &ScaleLayout, header: &[u8], tile: usize, row: usize) -> Self {
        let unit = unit(layout, header, row);
        Self {
            scale: part_scales(layout, header, tile, row).map(|scale| unit * scale),
            offset: match layout.minimum {
                Minimum::None => [0.0; 2],
                Minimum::Added(_) => [half(header, layout.minima_offset(), row); 2],
                Minimum::Subtracted(_) => {
                    let minimum = half(header, layout.minima_offset(), row);
                    part_minima(layout, header, tile, row).map(|part| -(minimum * part))
                }
            },
        }
    }
}

/// The f16 of row `row` of the sixteen from byte `at` on.
#[inline(always)]
pub(super) fn half(header: &[u8], offset: usize, row: usize) -> f32 {
    half::f16::from_le_bytes([header[offset + 2 * row], header[offset + 2 * row + 1]]).to_f32()
}

/// The scale of a row's block: its unit.
#[inline(always)]
pub(super) fn unit(layout: &ScaleLayout, header: &[u8], row: usize) -> f32 {
    match layout.unit {
        Unit::F16(_) => half(header, 0, row),
        Unit::HalfE8m0(_) => half_e8m0(header[row]),
        Unit::One => 1.0,
    }
}

/// Indices of the parts of a tile: its two halves, or the tile itself twice.
pub(super) const fn parts_of(parts: &Parts, tile: usize) -> [usize; 2] {
    if parts.halves {
        [2 * tile, 2 * tile + 1]
    } else {
        [tile, tile]
    }
}

/// The scale of each half of a tile in units of the block's scale; 1 if parts have no scales.
#[inline(always)]
pub(super) fn part_scales(layout: &ScaleLayout, header: &[u8], tile: usize, row: usize) -> [f32; 2] {
    let Some(parts) = &layout.parts else { return [1.0; 2] };
    let tile_parts = parts_of(parts, tile);
    std::array::from_fn(|half| {
        let code = part_code(layout, &parts.scale[tile_parts[half]], header, row);
        match parts.code {
            PartCode::Unsigned => f32::from(code),
            PartCode::Minus32 => f32::from(code as i8 - 32),
            PartCode::Signed => f32::from(code as i8),
            PartCode::HalfE4m3 => half_e4m3(code),
        }
    })
}

/// The minimum of each half of a tile in units of the block's minimum; 1 if parts have no scales.
#[inline(always)]
pub(super) fn part_minima(layout: &ScaleLayout, header: &[u8], tile: usize, row: usize) -> [f32; 2] {
    let Some(parts) = &layout.parts else { return [1.0; 2] };
    let tile_parts = parts_of(parts, tile);
    std::array::from_fn(|half| f32::from(part_code(layout, &parts.minimum[tile_parts[half]], header, row)))
}

/// The code of a part's scale or minimum.
#[inline(always)]
fn part_code(layout: &ScaleLayout, bits: &Bits, header: &[u8], row: usize) -> u8 {
    let byte = |byte: u8| header[layout.parts_offset() + ROWS * usize::from(byte) + row];
    let low = byte(bits.byte) >> bits.shift & bits.mask;
    match bits.top {
        None => low,
        Some([top, shift]) => low | (byte(top) >> shift & 3) << 4,
    }
}
