//! Loads the scales and minima of a tile for all sixteen rows at once.

use super::layout::{Bits, Minimum, Packable, PartCode, ScaleLayout, Unit};
use super::tile_scales::parts_of;
use super::{PackedProduct, ROWS, array};
use crate::blocks::{E4M3_SHIFT, E4M3_UNIT};
use crate::gemv::ActivationChunk;
use crate::lanes::{Lanes, WIDTH};

const _: () = assert!(ROWS == WIDTH, "a vector has a lane per row");

/// Scales and minima of the rows of a tile, one row per lane.
#[derive(Clone, Copy)]
pub(super) struct RowScales<F> {
    /// Scale of each half of a tile. Formats without half scales set only the first.
    pub scale: [F; 2],
    /// Added per activation, for each half of a tile, if
    /// [`PackedLayout::has_minimum`](super::layout::PackedLayout::has_minimum). Formats without
    /// half scales set only the first.
    pub minimum: [F; 2],
}

/// Returns `true` if the codes of a format are converted to signed codes before multiplication.
pub(super) const fn restores_sign<P: PackedProduct, B: Packable>() -> bool {
    P::SIGNS && B::LAYOUT.fills_bytes()
}

/// Zero point of the codes as they are multiplied. Accumulators start with it times
/// [`minus_code_sum`], which subtracts it in integers.
pub(super) const fn zero_point<P: PackedProduct, B: Packable>() -> i32 {
    if restores_sign::<P, B>() {
        0
    } else {
        B::LAYOUT.zero_point as i32
    }
}

/// Negative sum of the codes of part `part` of the activations or, if the format has half scales,
/// of half `half` of that part.
#[inline(always)]
pub(super) fn minus_code_sum<B: Packable>(activations: &ActivationChunk, part: usize, half: usize) -> i32 {
    if B::LAYOUT.halves() {
        activations.minus_half_sums[2 * part + half]
    } else {
        activations.minus_sums[part]
    }
}

/// Sum of part `part` of the activations or, if the format has half scales, of half `half` of that
/// part: the factor of minima.
#[inline(always)]
pub(super) fn activation_sum<B: Packable>(activations: &ActivationChunk, part: usize, half: usize) -> f32 {
    if B::LAYOUT.halves() {
        activations.half_sums[2 * part + half]
    } else {
        activations.sums[part]
    }
}

/// Loads the scales of tile `tile`; `header` starts with a whole header.
#[inline(always)]
pub(super) fn row_scales<L: Lanes, B: Packable>(l: L, header: &[u8], tile: usize) -> RowScales<L::Floats> {
    let layout = const { &B::LAYOUT.scales };
    let header = Header {
        l,
        layout,
        bytes: header,
    };
    let (unit, zero) = (header.unit(), l.splat(0.0));
    let Some(parts) = &layout.parts else {
        return RowScales {
            scale: [unit, zero],
            minimum: [header.minimum(), zero],
        };
    };
    let [first, second] = parts_of(parts, tile);
    let scale = [&parts.scale[first], &parts.scale[second]];
    let minimum = [&parts.minimum[first], &parts.minimum[second]];
    let (halves, has_minimum) = (parts.halves, const { B::LAYOUT.has_minimum() });
    RowScales {
        scale: [
            header.part_scale(unit, parts.code, scale[0]),
            if halves {
                header.part_scale(unit, parts.code, scale[1])
            } else {
                zero
            },
        ],
        minimum: [
            if has_minimum {
                header.part_minimum(minimum[0])
            } else {
                zero
            },
            if has_minimum && halves {
                header.part_minimum(minimum[1])
            } else {
                zero
            },
        ],
    }
}

/// A packed header.
#[derive(Clone, Copy)]
struct Header<'a, L> {
    l: L,
    layout: &'static ScaleLayout,
    bytes: &'a [u8],
}

impl<L: Lanes> Header<'_, L> {
    /// Sixteen f16, one per row, from byte `at` on.
    #[inline(always)]
    fn load_f16(self, offset: usize) -> L::Floats {
        let bytes: &[u8; 2 * ROWS] = array(self.bytes, offset);
        self.l.load_f16(&bytemuck::cast(*bytes))
    }

    /// The unit of each row.
    #[inline(always)]
    fn unit(self) -> L::Floats {
        match self.layout.unit {
            Unit::F16(_) => self.load_f16(0),
            Unit::HalfE8m0(_) => half_e8m0(self.l, self.l.load_i8_as_i32(array(self.bytes, 0))),
            Unit::One => self.l.splat(1.0),
        }
    }

    /// The minimum of each row; 0 if the format has none.
    #[inline(always)]
    fn minimum(self) -> L::Floats {
        match self.layout.minimum {
            Minimum::None => self.l.splat(0.0),
            _ => self.load_f16(self.layout.minima_offset()),
        }
    }

    /// Byte `byte` of the parts of each row, sign-extended.
    #[inline(always)]
    fn byte(self, byte: u8) -> L::Ints {
        let offset = self.layout.parts_offset() + ROWS * usize::from(byte);
        self.l.load_i8_as_i32(array(self.bytes, offset))
    }

    /// The code of a part of each row.
    #[inline(always)]
    fn code(self, bits: &Bits) -> L::Ints {
        let l = self.l;
        let low = l.shr_and_i32(self.byte(bits.byte), bits.shift.into(), bits.mask.into());
        match bits.top {
            None => low,
            Some([top, shift]) => {
                let top = l.shr_and_i32(l.shl_i32(self.byte(top), 4), shift.into(), 48);
                l.or_i32(low, top)
            }
        }
    }

    /// The scale of a part of each row.
    #[inline(always)]
    fn part_scale(self, unit: L::Floats, code: PartCode, bits: &Bits) -> L::Floats {
        let l = self.l;
        match code {
            PartCode::Unsigned => l.mul(unit, l.cvt_i32_f32(self.code(bits))),
            PartCode::Minus32 => l.mul(unit, l.sub(l.cvt_i32_f32(self.code(bits)), l.splat(32.0))),
            PartCode::Signed => l.mul(unit, l.cvt_i32_f32(self.byte(bits.byte))),
            PartCode::HalfE4m3 => {
                let shifted = l.reinterpret_i32_f32(l.shl_i32(self.byte(bits.byte), E4M3_SHIFT));
                l.mul(unit, l.mul(shifted, l.splat(E4M3_UNIT)))
            }
        }
    }

    /// The negative minimum of a part of each row.
    #[inline(always)]
    fn part_minimum(self, bits: &Bits) -> L::Floats {
        let l = self.l;
        l.sub(l.splat(0.0), l.mul(self.minimum(), l.cvt_i32_f32(self.code(bits))))
    }
}

/// Half the value of E8M0 scales; see [`half_e8m0`](crate::blocks::half_e8m0).
#[inline(always)]
fn half_e8m0<L: Lanes>(l: L, bytes: L::Ints) -> L::Floats {
    let bits = l.shr_and_i32(bytes, 0, 255);
    let low = l.add_scalar_i32(l.shr_and_i32(bits, 1, 127), 63);
    let high = l.add_scalar_i32(l.shr_and_i32(l.add_scalar_i32(bits, 1), 1, 255), 63);
    l.mul(
        l.reinterpret_i32_f32(l.shl_i32(low, 23)),
        l.reinterpret_i32_f32(l.shl_i32(high, 23)),
    )
}
