//! Scales and minima of a tile, for all sixteen rows at once.

use super::layout::{Bits, Minimum, Packable, PartCode, Unit};
use super::tile_scales::parts_of;
use super::{PackedProduct, ROWS, array};
use crate::blocks::{E4M3_SHIFT, E4M3_UNIT};
use crate::lanes::{Lanes, WIDTH};

const _: () = assert!(ROWS == WIDTH, "a vector has a lane per row");

/// Scales and minima of the rows of a vector.
#[derive(Clone, Copy)]
pub(super) struct RowScales<F> {
    /// Scale of each half of a tile. Formats without half scales set only the first.
    pub scale: [F; 2],
    /// Added per activation, for each half of a tile, if
    /// [`PackedLayout::has_minimum`](super::layout::PackedLayout::has_minimum). Formats without
    /// half scales set only the first.
    pub minimum: [F; 2],
}

/// Whether the codes of a format are made signed before multiplication.
pub(super) const fn restores_sign<P: PackedProduct, B: Packable>() -> bool {
    P::SIGNS && B::LAYOUT.fills_bytes()
}

/// Binary logarithm of the zero point of the codes; `None` means it is 0. Accumulators start with
/// the zero point times the negative sum of the activations' codes, which subtracts it in integers.
pub(super) const fn zero_point_shift<P: PackedProduct, B: Packable>() -> Option<u32> {
    match B::LAYOUT.zero_point == 0 || restores_sign::<P, B>() {
        true => None,
        false => Some(B::LAYOUT.zero_point.trailing_zeros()),
    }
}

/// Loads the scales of tile `tile`; `header` starts with a whole header.
#[inline(always)]
pub(super) fn row_scales<L: Lanes, B: Packable>(l: L, header: &[u8], tile: usize) -> RowScales<L::Floats> {
    let layout = const { &B::LAYOUT.scales };
    let halves = |at: usize| l.load_half(&bytemuck::cast(*array::<{ 2 * ROWS }>(header, at)));
    let none = l.splat(0.0);
    let unit = match layout.unit {
        Unit::F16(_) => halves(0),
        Unit::HalfE8m0(_) => half_e8m0(l, l.load_words(array(header, 0))),
        Unit::One => l.splat(1.0),
    };
    let Some(parts) = &layout.parts else {
        let minimum = match layout.minimum {
            Minimum::None => none,
            _ => halves(layout.minima_at()),
        };
        return RowScales {
            scale: [unit, none],
            minimum: [minimum, none],
        };
    };
    let byte = |byte: u8| l.load_words(array(header, layout.parts_at() + ROWS * usize::from(byte)));
    let code = |bits: &Bits| {
        let low = l.word_bits(byte(bits.byte), bits.shift.into(), bits.mask.into());
        match bits.top {
            None => low,
            Some([top, shift]) => {
                let top = l.word_bits(l.shift_words_left(byte(top), 4), shift.into(), 48);
                l.or_words(low, top)
            }
        }
    };
    let scale = |part: usize| {
        let bits = &parts.scale[part];
        match parts.code {
            PartCode::Unsigned => l.mul(unit, l.floats(code(bits))),
            PartCode::Minus32 => l.mul(unit, l.sub(l.floats(code(bits)), l.splat(32.0))),
            PartCode::Signed => l.mul(unit, l.floats(byte(bits.byte))),
            PartCode::HalfE4m3 => {
                let shifted = l.floats_of_bits(l.shift_words_left(byte(bits.byte), E4M3_SHIFT));
                l.mul(unit, l.mul(shifted, l.splat(E4M3_UNIT)))
            }
        }
    };
    let minimum = |part: usize| {
        let unit = halves(layout.minima_at());
        l.sub(none, l.mul(unit, l.floats(code(&parts.minimum[part]))))
    };
    let [first, second] = parts_of(parts, tile);
    let has_minimum = const { B::LAYOUT.has_minimum() };
    RowScales {
        scale: [scale(first), if parts.halves { scale(second) } else { none }],
        minimum: [
            if has_minimum { minimum(first) } else { none },
            if has_minimum && parts.halves {
                minimum(second)
            } else {
                none
            },
        ],
    }
}

/// Half the value of E8M0 scales; see [`half_e8m0`](crate::blocks::half_e8m0).
#[inline(always)]
fn half_e8m0<L: Lanes>(l: L, bytes: L::Words) -> L::Floats {
    let power = |exponent: L::Words| l.floats_of_bits(l.shift_words_left(l.add_to_words(exponent, 63), 23));
    let bits = l.word_bits(bytes, 0, 255);
    let (low, high) = (l.word_bits(bits, 1, 127), l.word_bits(l.add_to_words(bits, 1), 1, 255));
    l.mul(power(low), power(high))
}
