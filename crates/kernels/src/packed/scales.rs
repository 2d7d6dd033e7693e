//! Scales and minima of a tile, for as many rows at once as a vector has lanes.

use super::ROWS;
use super::layout::{Bits, Minimum, Packable, PartCode, Unit};
use super::tile_scales::parts_of;
use crate::blocks::{E4M3_SHIFT, E4M3_UNIT};

/// Vectors with one 32-bit lane per row.
///
/// All methods must be marked `#[inline(always)]`.
///
/// # Safety
/// For every method: the CPU has the instructions, and pointers are valid for the reads.
pub(super) trait RowLanes {
    /// A float per row.
    type Floats: Copy;
    /// An integer per row.
    type Words: Copy;

    /// Rows per vector.
    const COUNT: usize;
    /// Whether codes that use all eight bits are made signed before multiplication, so that no zero
    /// point is subtracted afterwards.
    const SIGNS: bool;

    /// `x` in every lane.
    unsafe fn splat(x: f32) -> Self::Floats;
    /// Loads f16.
    unsafe fn halves(at: *const u8) -> Self::Floats;
    /// Loads i8.
    unsafe fn bytes(at: *const u8) -> Self::Words;
    /// `words << shift`.
    unsafe fn shift_left(words: Self::Words, shift: usize) -> Self::Words;
    /// `words + by`.
    unsafe fn offset(words: Self::Words, by: i32) -> Self::Words;
    /// The floats of these bits.
    unsafe fn from_bits(words: Self::Words) -> Self::Floats;
    /// `words >> shift & mask`.
    unsafe fn bits(words: Self::Words, shift: usize, mask: i32) -> Self::Words;
    /// `a | b`.
    unsafe fn or(a: Self::Words, b: Self::Words) -> Self::Words;
    /// Converts signed integers to floats.
    unsafe fn floats(words: Self::Words) -> Self::Floats;
    /// `a - b`.
    unsafe fn sub(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b`.
    unsafe fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats;
}

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

/// Whether the codes of a format are made signed on these vectors.
pub(super) const fn restores_sign<L: RowLanes, B: Packable>() -> bool {
    L::SIGNS && B::LAYOUT.fills_bytes()
}

/// Binary logarithm of the zero point of the codes; `None` means it is 0. Accumulators start with
/// the zero point times the negative sum of the activations' codes, which subtracts it in integers.
pub(super) const fn zero_point_shift<L: RowLanes, B: Packable>() -> Option<u32> {
    match B::LAYOUT.zero_point == 0 || restores_sign::<L, B>() {
        true => None,
        false => Some(B::LAYOUT.zero_point.trailing_zeros()),
    }
}

/// Loads the scales of vector `vector` of the sixteen rows, for tile `tile`.
///
/// # Safety
/// The CPU has the instructions, and `header` points to a whole header.
#[inline(always)]
pub(super) unsafe fn row_scales<L: RowLanes, B: Packable>(
    header: *const u8,
    tile: usize,
    vector: usize,
) -> RowScales<L::Floats> {
    let layout = const { &B::LAYOUT.scales };
    // SAFETY: all reads are within the header.
    unsafe {
        // Elements of `size` bytes per row, starting at `offset`.
        let at = |offset: usize, size: usize| header.add(offset + size * L::COUNT * vector);
        let none = L::splat(0.0);
        let unit = match layout.unit {
            Unit::F16(_) => L::halves(at(0, 2)),
            Unit::HalfE8m0(_) => half_e8m0::<L>(L::bytes(at(0, 1))),
            Unit::One => L::splat(1.0),
        };
        let Some(parts) = &layout.parts else {
            let minimum = match layout.minimum {
                Minimum::None => none,
                _ => L::halves(at(layout.minima_at(), 2)),
            };
            return RowScales {
                scale: [unit, none],
                minimum: [minimum, none],
            };
        };
        let byte = |byte: u8| L::bytes(at(layout.parts_at() + ROWS * usize::from(byte), 1));
        let code = |bits: &Bits| {
            let low = L::bits(byte(bits.byte), bits.shift.into(), bits.mask.into());
            match bits.top {
                None => low,
                Some([top, shift]) => L::or(low, L::bits(L::shift_left(byte(top), 4), shift.into(), 48)),
            }
        };
        let scale = |part: usize| {
            let bits = &parts.scale[part];
            match parts.code {
                PartCode::Unsigned => L::mul(unit, L::floats(code(bits))),
                PartCode::Minus32 => L::mul(unit, L::sub(L::floats(code(bits)), L::splat(32.0))),
                PartCode::Signed => L::mul(unit, L::floats(byte(bits.byte))),
                PartCode::HalfE4m3 => {
                    let shifted = L::from_bits(L::shift_left(byte(bits.byte), E4M3_SHIFT));
                    L::mul(unit, L::mul(shifted, L::splat(E4M3_UNIT)))
                }
            }
        };
        let minimum = |part: usize| {
            let unit = L::halves(at(layout.minima_at(), 2));
            L::sub(none, L::mul(unit, L::floats(code(&parts.minimum[part]))))
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
}

/// Half the value of E8M0 scales; see [`half_e8m0`](crate::blocks::half_e8m0).
///
/// # Safety
/// The CPU has the instructions.
#[inline(always)]
unsafe fn half_e8m0<L: RowLanes>(bytes: L::Words) -> L::Floats {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let power = |exponent: L::Words| L::from_bits(L::shift_left(L::offset(exponent, 63), 23));
        let bits = L::bits(bytes, 0, 255);
        L::mul(power(L::bits(bits, 1, 127)), power(L::bits(L::offset(bits, 1), 1, 255)))
    }
}
